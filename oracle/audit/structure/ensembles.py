"""Checks of what the proofs for ensembles assume (PRIVACY.md, Theorem 29)."""

import math
from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
from msgspec import UNSET

from oracle.accounting.race import between_log_delta
from oracle.accounting.stopper import log_overflow
from oracle.audit.due.live import Life
from oracle.audit.findings import Seen
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.runs.courses import lives_of, missing_lives
from oracle.audit.runs.ensembles import Run, play, uneven_plan
from oracle.audit.runs.unique_noise import Words, spread_bits
from oracle.planning.ensemble.model import EnsembleModel, EnsemblePlan
from oracle.planning.ensemble.tight import plan_ensemble
from oracle.planning.model import Feature
from oracle.planning.plan import Plan

__all__ = ["differs", "one_draw", "plainly", "proved"]


_CLASSES: Final = (2, 3, 5)
_RUNS: Final = 6


def _runs(randomness: Randomness, count: int) -> Iterator[Run]:
    """Play runs of two, three and five classes, with rests and without."""
    for number in range(count):
        plan = uneven_plan(Draws(randomness, _RUNS + number), _CLASSES[number % 3], resting=number % 2 == 1)
        yield play(plan, randomness, number)


def differs(run: Run) -> str | None:
    """Return what of a run is not what the re-implementation says, if anything."""
    if list(run.ledger) != run.plain.events:
        return "the ledger"
    for place, (body, given) in enumerate(zip(run.replies, run.given, strict=True)):
        reply = msgspec.json.decode(body)
        said = (reply.get("label"), reply.get("error"))
        if given is None:
            right = said[0] is None and said[1] not in {None, "resting"}
        elif given.resting:
            right = said == (None, None if reply["id"] is None else "resting")
        else:
            right = said == (None if given.label is None else run.plan.classes[given.label], None)
        if not right:
            return f"the reply to message {place}"
    return None if run.held else "what its teachers learn, or what is drawn,"


def plainly(_plan: Plan, randomness: Randomness) -> Seen:
    """Every answer, and every moment at which lives end, is what a plain re-implementation says.

    Else a row is in other teachers, is kept where it was paid for, is asked about with other noise, or is counted
    otherwise than the proof says. Runs go from messages to replies, over snapshots and restarts. In some, a life begins
    with each phase, in some the one before goes on, and in each phase lives are armed.
    """
    rounds = lives = rests = 0
    asked, missing = set[tuple[int, Life]](), None
    for number, run in enumerate(_runs(randomness, _RUNS)):
        place = differs(run)
        if place is not None:
            return False, f"run {number}: {place} is not what a plain re-implementation says"
        asked |= lives_of(run.given)
        missing = missing_lives(run.plan, asked)
        rounds += run.plain.round
        lives += run.plain.lives
        rests += sum(given is not None and given.resting for given in run.given)
    if missing is not None:
        return False, f"{missing}, in any run, so it has not been looked at"
    return rests > 0, f"{rounds} rounds of {lives} lives, {rests} of them in rests, are what a re-implementation says"


def one_draw(_plan: Plan, randomness: Randomness) -> Seen:
    """Every question, Stopper, threshold, coin and count has bits of its own, over all lives and phases.

    They are those that the re-implementation used, whose answers are the predictor's.
    """
    drawn: list[Words] = []
    for run in _runs(randomness, 3):
        if differs(run) is not None:
            return False, "answers are not those of the re-implementation"
        drawn.append(np.array(run.plain.drawn, dtype=np.uint64))
    return spread_bits(drawn)


def proved(plan: Plan, _randomness: Randomness) -> Seen:
    """The deltas of both kinds of record are those of Theorem 29, worked out from the plan's figures alone.

    Of this plan, and of one with four classes that the planner makes.
    """
    if not isinstance(plan, EnsemblePlan):
        return False, "the plan is not one of an ensemble"
    worst = 0.0
    for one in (plan, _planned()):
        for number, phase in enumerate(one.phases):
            worst = max(worst, *(delta / phase.delta for delta in _deltas(one, number)))
        spent = math.fsum(phase.rounds * phase.delta for phase in one.phases) + one.declared * one.phases[0].delta
        worst = max(worst, spent / one.delta)
    return worst <= 1.0, f"the proof has {100.0 * worst:.1f} % of the deltas that plans claim, at most"


def _deltas(plan: EnsemblePlan, number: int) -> Iterator[float]:
    """Yield what a record of a phase needs: as a paid query, and as a member of a life that it can be in."""
    counts = plan.control.epsilon**2 / 2.0
    if number == 0 and plan.share_slope is not UNSET:
        counts = max(counts, plan.share_slope**2 / 2.0)
    for armed in plan.phases[max(number - 1, 0) : number + 1]:
        stopper = armed.stopper
        pure = stopper.epsilon + plan.control.epsilon <= plan.epsilon
        yield math.exp(log_overflow(stopper.epsilon, stopper.threshold, stopper.cap - 1)) if pure else math.inf
    for armed in plan.phases[number : number + 3]:
        most = min(2, len(plan.classes) - 1) * armed.stopper.cap
        yield math.exp(between_log_delta(armed.slope, armed.gap, most, plan.epsilon, rho=counts))


def _planned() -> EnsemblePlan:
    """Return a plan of four classes, and few rows."""
    model = EnsembleModel(
        name="audited",
        predictor="ensemble",
        learner="sklearn.tree.DecisionTreeClassifier",
        epsilon=8.0,
        delta=0.01,
        examples=1,
        alpha=0.3,
        teacher_rows=1,
        features=(Feature(name="a"),),
        classes=("a", "b", "c", "d"),
    )
    return plan_ensemble(model)
