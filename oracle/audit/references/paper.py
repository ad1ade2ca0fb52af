"""Plain re-implementations of boxes and stumps in profile `paper`: where they differ from `boxes.py` and `stumps.py`.

Written from Stemmer (2024), Algorithms 1, 2 and 7, and PRIVACY.md, section 9. Noise is Laplace's, rounded down; slices
have noisy sizes; a Stopper's threshold has no noise, and it is asked before a phase's first query too.
"""

from collections.abc import Sequence

from msgspec import UNSET

from oracle.audit.references.boxes import PlainBoxes, Side
from oracle.audit.references.keyed import geometric, laplace
from oracle.audit.references.stumps import PlainStumps
from oracle.mechanisms.addresses import Purpose
from oracle.planning.plan import InstancePlan

__all__ = ["PaperBoxes", "PaperStumps"]


class PaperBoxes(PlainBoxes):
    """One shard of boxes."""

    _armed_at_start = -1

    def _taken(self, start: InstancePlan, side: int) -> int:
        """Algorithm 1: m points, and as many more as the size of a Laplace draw."""
        if start.base is UNSET or start.slice_scale is UNSET:
            raise TypeError
        return start.base + geometric(start.slice_scale, self._keyed.word(Purpose.SLICE, 0, side))

    def _level(self, side: int) -> int:  # noqa: ARG002 -- of any
        """Algorithm 2: k, without noise."""
        return self._sizes.stopper.threshold

    def _nu(self, word: int) -> int:
        scale = self._sizes.stopper.scale
        if scale is UNSET:
            raise TypeError
        return laplace(scale, word)

    def _most(self, instance: InstancePlan) -> int:
        """Return t_h - 1: real noise is above t_h where its floor is at least t_h."""
        return instance.high - 1


class PaperStumps(PaperBoxes, PlainStumps):
    """One shard of stumps: a pair by Algorithm 7, a noisy number of its rows, and both ends of its feature."""

    @property
    def _rate(self) -> float:
        """Return what makes the choice cost epsilon by the general bound, at losses that one row changes by 1."""
        return self._plan.selection.epsilon / 2.0

    def _edges_of(self, column: int, *, lower: bool) -> list[Side]:  # noqa: ARG002 -- both
        return [Side(column, 0, lower=True), Side(column, 0, lower=False)]

    def _cut(self, ranked: Sequence[bool]) -> int:
        noisy = sum(ranked) + laplace(self._plan.selection.cut_epsilon, self._keyed.word(Purpose.CHOICE, 0, 1))
        return min(max(noisy, 0), len(ranked))
