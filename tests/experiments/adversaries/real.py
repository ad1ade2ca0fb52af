"""Drives the real predictor against the same adversaries, round by round: for small plans."""

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import SideRearmed
from oracle.mechanisms.thresholds.challenge import ArmedSide
from oracle.planning.plan import BoxPlan, PhasePlan
from oracle.predictors.kinds import new_trainer
from oracle.predictors.rectangles import RectanglesPERP
from oracle.predictors.stumps import StumpsPERP
from tests.experiments.adversaries.figures import PhaseFigures
from tests.experiments.adversaries.harvest import box_edges
from tests.experiments.adversaries.honest import HIGH, LOW, Law
from tests.experiments.adversaries.views import Adversary, View
from tests.experiments.adversaries.weighted import Armed, Laws

_TRAINING = 65_536
"""Training rows made at once."""


class Real:
    """Drives one plan against one adversary.

    Args:
        plan: The plan, of boxes or of stumps.
        law: The honest queries and the examples.
        adversary: The rest of the stream, asked anew before every batch.
        seed: Of all randomness, the predictor's secret too.
        flipped: Part of the training labels that is wrong.
        batch: Rows a batch.
    """

    def __init__(  # noqa: PLR0913 -- each is one thing that runs vary
        self, plan: BoxPlan, law: Law, adversary: Adversary, seed: int, *, flipped: float = 0.0, batch: int = 4096
    ) -> None:
        self._plan = plan
        self._law = law
        self._adversary = adversary
        self._generator = np.random.default_rng(seed)
        self._batch = batch
        self._edges = box_edges(law.sides).tolist()
        trainer = new_trainer(plan, self._generator.bytes(32))
        while trainer.missing:
            trainer.add(*law.examples(self._generator, min(trainer.missing, _TRAINING), flipped))
        predictor = trainer.finish()
        if isinstance(predictor, StumpsPERP):  # the edge is where the records that were labelled 1 begin
            self._boxes = predictor._boxes
            self._edges = [float(self._boxes._bank.armed[0].points[0])]
        else:
            assert isinstance(predictor, RectanglesPERP)
            self._boxes = predictor
        self._predictor = predictor

    def run(self, phases: int) -> list[PhaseFigures]:
        """Run so many phases from the first."""
        return [self._phase(phase) for phase in self._plan.phases[:phases]]

    def armed(self, phase: PhasePlan) -> list[Armed]:
        """Look at every side's points."""
        return [self._look(phase, armed) for armed in self._boxes._bank.armed]

    def _look(self, phase: PhasePlan, armed: ArmedSide) -> Armed:
        fresh = armed.thresholds is self._boxes._bank.rearmed
        instance, laws = (phase.rearmed, self._laws) if fresh else (phase.start, self._start_laws)
        keys, counts = np.unique(armed.points[np.isfinite(armed.points)], return_counts=True)
        return Armed(instance, laws, keys, counts)

    def _phase(self, phase: PhasePlan) -> PhaseFigures:
        figures = PhaseFigures(phase.phase, phase.rounds)
        self._start_laws, self._laws = Laws.of(phase.start), Laws.of(phase.rearmed)
        sides = self.armed(phase)
        lasts = [armed.last for armed in sides]
        for armed, edge, last in zip(sides, self._edges, lasts, strict=True):
            figures.see_armed(self._plan, armed, edge, last)
        rearms = [0] * len(sides)
        left = phase.rounds
        while left:
            mediums = [armed.mediums for armed in self._boxes._bank.armed]
            view = View(phase, left, 1.0 - self._plan.gamma, sides, mediums, rearms)
            rows = min(self._batch, left)
            left -= rows
            fresh = self._answer(view, rows, figures)
            if left:
                sides = self.armed(phase)
                for side in fresh:
                    rearms[side] += 1
                for side in set(fresh):
                    figures.see_armed(self._plan, sides[side], self._edges[side], lasts[side])
            figures.rearms += len(fresh)
        return figures

    def _answer(self, view: View, rows: int, figures: PhaseFigures) -> list[int]:
        """Answer a batch, count its errors, and return the sides that were armed afresh."""
        features, inside = self._law.sample(self._generator, rows)
        hostile = self._generator.random(rows) < view.hostile
        mix = self._adversary.mix(view)
        asked = self._generator.choice(len(mix.weights), int(hostile.sum()), p=mix.weights)
        features[hostile] = mix.queries[asked]
        answers = self._predictor.answer(features, np.ones(rows, dtype=np.bool_))
        self._predictor.settle()
        self._count(figures, features, answers.labels == 1, inside, hostile)
        events = [event for event in answers.events if isinstance(event, SideRearmed)]
        if events and not figures.rearms:
            before = sum(phase.rounds for phase in self._plan.phases[: figures.phase - 1])
            figures.first_rearm = events[0].round - before
        return [event.side for event in events]

    @staticmethod
    def _count(
        figures: PhaseFigures,
        features: NDArray[np.float64],
        ones: NDArray[np.bool_],
        inside: NDArray[np.bool_],
        hostile: NDArray[np.bool_],
    ) -> None:
        figures.honest += int(np.count_nonzero(~hostile))
        figures.misses += int(np.count_nonzero(~hostile & inside & ~ones))
        figures.false_ones += int(np.count_nonzero(~hostile & ~inside & ones))
        out = ((features < LOW) | (features > HIGH)).any(axis=1)
        figures.outside_ones += int(np.count_nonzero(hostile & out & ones))
