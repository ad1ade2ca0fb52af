"""A ladder's sizes: how wide the noise leaves things, and the rows that an error takes (PRIVACY.md, Theorem 31).

A count c is within l of what a comparison tells, wherever noise errs (`LadderPlan`). Between two thresholds that were
both paid for, c lies in [t_l - l, t_h' + l], t_l the lower one's lower end and t_h' the upper one's upper end; below
the lowest threshold in [0, t_h + l], and likewise above the highest. For all of these to be W wide at most it takes
2 W - 2 l - g + (K - 1)(W - 2 l - g) >= n, so W = (n + K (2 l + g))/(K + 1), rounded up; and W/2 is the error in rows.
"""

import math
from fractions import Fraction
from typing import Final, NamedTuple

__all__ = ["Sizes", "comparisons_for", "margin_of"]

_UP: Final = 1.0 + 1e-12
"""Above the rounding of a few operations."""


class Sizes(NamedTuple):
    """A ladder before its rows are known.

    Attributes:
        thresholds: K.
        slope: e (nats).
        gap: g.
        margin: l.
    """

    thresholds: int
    slope: float
    gap: int
    margin: int

    @property
    def window(self) -> int:
        """Rows around a threshold of which noise may decide anything: 2 l + g."""
        return 2 * self.margin + self.gap

    def width(self, rows: int) -> int:
        """Return W.

        Args:
            rows: n.
        """
        return -(-(rows + self.thresholds * self.window) // (self.thresholds + 1))

    def error(self, rows: int) -> float:
        """Return the error as a share of the rows, rounded up; it is half a row more, above the rounding of shares.

        Args:
            rows: n.
        """
        exact = Fraction(self.width(rows) + 1, 2 * rows)
        error = float(exact)
        return error if error >= exact else math.nextafter(error, math.inf)

    def least_rows(self, alpha: float) -> int | None:
        """Return from how many rows on the error is at most alpha, and zones do not meet; None where none are enough.

        Args:
            alpha: As a share of the rows.
        """
        count = self.thresholds + 1
        room = 2 * Fraction(alpha) * count - 1
        if room <= 0:
            return None
        wide = math.ceil((self.thresholds * self.window + 2 * self.thresholds + 1) / room)  # W is rounded up
        return max(wide, count * (self.gap + 3) + self.window)


def margin_of(slope: float, gap: int, comparisons: int, failure: float) -> int:
    """Return l (`LadderPlan`) in whole rows, rounded up: N P(Z > l) <= beta, and more than half of the gap.

    P(Z > l) < exp(-e (l + 1/2)), and noise can harm a comparison in one direction only (PRIVACY.md, Theorem 31).

    Args:
        slope: e (nats).
        gap: g.
        comparisons: N.
        failure: beta.
    """
    tail = math.log(comparisons / failure) * _UP / slope - 0.5
    return max(math.ceil(tail), gap // 2 + 1)


def comparisons_for(questions: int, thresholds: int) -> int:
    """Return N: comparisons that so many questions of shares take at most, each by a binary search over thresholds.

    >>> comparisons_for(1_000_000, 15), comparisons_for(1_000_000, 16)
    (4000000, 5000000)
    """
    return questions * thresholds.bit_length()
