"""The least numbers of errors of thresholds on a feature of numbers, from one sort of integers.

A number and its label become one integer: the number's place in the order of all float64 numbers, and in the lowest bit
the label. Places take 64 bits, so one is missing: it is won by leaving out the empty gap around zero, or, where the
numbers have none, by sorting negative and other numbers apart. (A processor sorts a million such integers in some
milliseconds, where a search of one class in the other takes a hundred.)
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["packed_losses"]

_SIGN: Final = np.iinfo(np.int64).min
_LAST: Final = np.iinfo(np.int64).max
"""The most that fits beside a label into 64 bits, too."""


def packed_losses(column: NDArray[np.float64], labels: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the least number of examples that any threshold gets wrong, for sigma = +1 and for sigma = -1.

    With the labels in the order of the column, the threshold behind the first i of them gets, for sigma = +1, the walk
    W_i = |{y = 0}| + sum over k <= i of (2 y_k - 1) examples wrong, and n - W_i for sigma = -1. Thresholds part no
    equal values, so only the ends of runs of equal values count.

    Args:
        column: float64[n], finite.
        labels: bool[n].

    >>> packed_losses(np.array([-1.0, 0.5, 0.5, 2.0]), np.array([False, False, True, True]))
    (1, 2)
    """
    level = least = most = len(labels) - int(np.count_nonzero(labels))
    places = _signed(column)
    below = places < 0
    near, far = _gap(places, below)
    room = near - min(int(places.min(initial=0)), near) + 1  # for the negative ones
    if room + max(int(places.max(initial=0)) - far, 0) <= _LAST:
        parts = [(places + np.where(below, room - 1 - near, room - far), labels)]
    else:
        parts = [(places[below] - _SIGN, labels[below]), (places[~below], labels[~below])]
    for numbers, given in parts:
        low, high, level = _walk(numbers, given, level)
        least, most = min(least, low), max(most, high)
    return least, len(labels) - most


def _signed(column: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the place of each number, 0 for zeros."""
    bits = np.ascontiguousarray(column).view(np.int64)
    return np.where(bits < 0, _SIGN - bits, bits)


def _gap(places: NDArray[np.int64], below: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the greatest place below 0 and the least one of the others; -1 and 0 where there is none."""
    near, far = int(places.max(where=below, initial=_SIGN)), int(places.min(where=~below, initial=_LAST))
    return (-1 if near == _SIGN else near), (0 if far == _LAST else far)


def _walk(numbers: NDArray[np.int64], labels: NDArray[np.bool_], level: int) -> tuple[int, int, int]:
    """Return the walk's least and greatest value at the ends of runs, and its last; from a level on.

    Args:
        numbers: int64[n], not negative, in the order of the values.
        labels: bool[n].
        level: Where it begins.
    """
    if not len(numbers):
        return level, level, level
    packed = numbers.view(np.uint64) << np.uint64(1) | labels
    packed.sort()
    walk = np.cumsum((packed & np.uint64(1)).astype(np.int8) * np.int8(2) - np.int8(1), dtype=np.int64) + level
    values = packed >> np.uint64(1)
    ends = walk[np.append(values[1:] != values[:-1], True)]
    return int(ends.min()), int(ends.max()), int(walk[-1])
