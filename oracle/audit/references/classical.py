"""A plain re-implementation of classical learners, from PRIVACY.md, Theorem 12."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from oracle.accounting.ledger import PhaseStarted
from oracle.audit.references.choices import choose_edge, cut_runs, placed, side_runs, sides_of
from oracle.audit.references.phased import Phased
from oracle.audit.references.values import Row, numbers_of, value_at
from oracle.mechanisms.addresses import Purpose
from oracle.planning.classical.model import ClassicalPlan

__all__ = ["PlainClassical"]


class PlainClassical(Phased):
    """A box or a stump that is chosen once.

    Args:
        plan: The plan.
        secret: The genesis key.
        rows: As many as the plan declares.
        labels: Their labels.

    Attributes:
        shown: The one side that each row was shown to, by its number; of a box, under `faces`.
    """

    shown: Mapping[int, int] = {}

    def __init__(self, plan: ClassicalPlan, secret: bytes, rows: Sequence[Row], labels: Sequence[bool]) -> None:
        super().__init__(plan, secret)
        self._plan = plan
        self._sides = sides_of(plan.features, plan.sides)
        self._bounds = [[-math.inf, math.inf] for _ in plan.features]
        learned = [numbers_of(plan.features, row) for row in rows]
        if plan.concept == "stump":  # losses rise by 0 or 1, so the one choice costs e
            runs = [
                run
                for side in range(len(self._sides))
                for run in cut_runs(
                    side, [(self._place(row, side), label) for row, label in zip(learned, labels, strict=True)]
                )
            ]
            self._bound(*choose_edge(self._keyed, 0, plan.epsilon, runs))
        else:  # losses change by -1, 0 or 1, so each choice that sees a row costs 2 e
            whole = plan.slicing == "whole"
            positive = [(number, row) for number, row in enumerate(learned) if labels[number]]
            shown = self.shown = {} if whole else {number: self._shown(number, row) for number, row in positive}
            rate = plan.epsilon / (2.0 * (len(self._sides) if whole else 1))
            for side in range(len(self._sides)):
                mine = [self._place(row, side) for number, row in positive if whole or shown[number] == side]
                self._bound(side, choose_edge(self._keyed, side, rate, side_runs(mine, plan.rank))[1])
        phase = plan.phases[0]
        self._begin(
            PhaseStarted(
                round=0,
                phase=1,
                rounds=phase.rounds,
                epsilon=plan.epsilon,
                delta=phase.delta,
                delta_spent=plan.declared * phase.delta,
            )
        )

    def _place(self, row: Sequence[float], side: int) -> int:
        column, lower = self._sides[side]
        return placed(row[column], lower=lower)

    def _shown(self, number: int, row: Sequence[float]) -> int:
        """Return the side that a row is shown to under `faces`."""
        first, second = self._keyed.halves(Purpose.COIN, number, 0, self._keyed.hash(row))
        outward = []
        for column, lower in self._sides:
            low, high = self._plan.features[column].bounds or (-1.0, 1.0)
            score = (row[column] - (low + high) / 2.0) / ((high - low) / 2.0)
            outward.append(0.0 - score if lower else score)
        most = max(outward)
        near = [side for side, score in enumerate(outward) if score >= most - 0.1 * abs(most)]
        if Fraction(first, 1 << 64) < Fraction(self._plan.coin):
            near = list(range(len(outward)))
        return near[((second >> 32) * len(near)) >> 32]

    def _bound(self, side: int, place: int) -> None:
        column, lower = self._sides[side]
        self._bounds[column][0 if lower else 1] = value_at(place) if lower else 0.0 - value_at(place)

    def answer(self, query: Row | None) -> int | None:
        """Answer a round."""
        self._took(self._hash(query))
        if query is None:
            return None
        row = numbers_of(self._features, query)
        return int(all(low <= value <= high for value, (low, high) in zip(row, self._bounds, strict=True)))

    def state(self) -> Mapping[str, Any]:
        """Return what a state must hold."""
        return {
            "key": self._keyed.secret,
            "counters": (self.round,),
            "lower": tuple(low for low, _ in self._bounds),
            "upper": tuple(high for _, high in self._bounds),
        }
