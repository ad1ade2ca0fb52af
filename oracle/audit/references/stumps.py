"""A plain re-implementation of stumps: a pair and a cut are chosen, and the rest is that of boxes.

Written from Stemmer (2024), Algorithm 7, as PRIVACY.md, Theorem 10, has it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from oracle.audit.references.boxes import PlainBoxes, Point, Side
from oracle.audit.references.choices import choose_one
from oracle.audit.references.values import Row, oriented
from oracle.mechanisms.addresses import Purpose
from oracle.planning.stumps.model import StumpsPlan

__all__ = ["PlainStumps"]


class PlainStumps(PlainBoxes):
    """One shard of stumps: a pair and a cut are chosen, and what follows is a box with the one side of the pair."""

    _plan: StumpsPlan

    def _trained(self, rows: Sequence[Row], labels: Sequence[bool]) -> list[list[Point]]:
        """Choose a pair by its least errors, then how many rows it labels 1; give these to its side."""
        plan = self._plan
        ends = {"lower": [True], "upper": [False], "both": [True, False], "none": []}
        pairs = [(column, lower) for column, one in enumerate(plan.features) for lower in ends[one.sides]]
        losses = [self._least(rows, labels, column, lower=lower) for column, lower in pairs]
        # a row raises all least losses by 0 or 1, so e_sel is what the choice costs; plans charge the cut 2 e_cut
        column, lower = pairs[choose_one(self._keyed, 0, self._rate, losses)]
        self.pair = column, lower
        self._sides = self._edges_of(column, lower=lower)
        # what is above an edge is labelled 1, largest first; ties go by coins of the rows' numbers
        order = sorted(
            range(len(rows)),
            key=lambda row: (
                oriented(plan.features[column], rows[row][column], self._size, lower=not lower),
                self._keyed.halves(Purpose.COIN, row)[0],
                row,
            ),
        )
        inside = order[: self._cut([labels[row] for row in order])]
        return [sorted((self._key(rows[row], side), row) for row in inside) for side in range(len(self._sides))]

    @property
    def _rate(self) -> float:
        return self._plan.selection.epsilon

    def _edges_of(self, column: int, *, lower: bool) -> list[Side]:
        return [Side(column, 0, lower)]

    def _cut(self, ranked: Sequence[bool]) -> int:
        """Return how many of the ranked rows are labelled 1."""
        wrong = [self._wrong(ranked, cut) for cut in range(len(ranked) + 1)]
        return choose_one(self._keyed, 1, self._plan.selection.cut_epsilon / 2.0, wrong)

    def _least(self, rows: Sequence[Row], labels: Sequence[bool], column: int, *, lower: bool) -> int:
        """Return the least errors of all thresholds, which part no equal values."""
        feature = self._plan.features[column]
        keys: list[Any] = [oriented(feature, row[column], self._size, lower=not lower) for row in rows]
        pairs = list(zip(keys, labels, strict=True))
        least = sum(labels)
        for edge in set(keys):
            least = min(least, sum((key <= edge) != label for key, label in pairs))
        return least

    @staticmethod
    def _wrong(ranked: Sequence[bool], cut: int) -> int:
        return sum(not label for label in ranked[:cut]) + sum(ranked[cut:])

    def state(self) -> Mapping[str, Any]:
        """Return what a state must hold, with the pair."""
        column, lower = self.pair
        return {**super().state(), "stump": (column, int(lower))}
