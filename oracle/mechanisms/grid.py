"""The finite float64 numbers in their order, numbered: the grid that a classical learner's edges lie on.

Consecutive numbers have consecutive positions, subnormal ones too; -0.0 and 0.0 are one. So any interval of numbers has
an integer width, and a position is a number again without rounding.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["EDGES", "NONE", "mirror", "number_at", "positions_of"]

_ZERO: Final = (2047 << 52) - 1
"""Place of 0.0, and how many positive finite numbers there are."""

NONE: Final = 2 * _ZERO + 1
"""Place of the edge beyond every finite number, as a float +inf: nothing reaches it."""

EDGES: Final = NONE + 1
"""How many positions there are, `NONE` included: 2^64 - 2^53."""

_SIGN: Final = 1 << 63


def positions_of(numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return the position of each number, from 0 for the least.

    Args:
        numbers: float64[n], finite.

    >>> (positions_of(np.array([5e-324, 0.0, -0.0, -5e-324])) - np.uint64(_ZERO - 1)).tolist()
    [2, 1, 1, 0]
    """
    bits = np.ascontiguousarray(numbers).view(np.uint64)
    size = bits & np.uint64(_SIGN - 1)
    return np.where(bits >= np.uint64(_SIGN), np.uint64(_ZERO) - size, np.uint64(_ZERO) + size)


def number_at(position: int) -> float:
    """Return the number at a position; 0.0 is never negative.

    Args:
        position: From 0 to `NONE`.

    >>> number_at(NONE), number_at(0)
    (inf, -1.7976931348623157e+308)
    """
    bits = position - _ZERO if position >= _ZERO else _SIGN | (_ZERO - position)
    return float(np.array([bits], dtype=np.uint64).view(np.float64)[0])


def mirror(positions: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the positions of the negated numbers."""
    return np.uint64(2 * _ZERO) - positions
