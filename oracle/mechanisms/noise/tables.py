"""Exact integer noise from 128 uniform bits: logistic, discrete Laplace, Gumbel, and Laplace's law, rounded down.

The first two are symmetric on the integers; e is the inverse scale:

    logistic:          P(Z >= z) = 1 / (1 + exp(e (z - 1/2)))              for every integer z
    discrete Laplace:  P(Z >= z) = exp(-e z) / (1 + exp(-e))               for z >= 1
    Laplace:           P(Z >= z) = exp(-e z) / 2                           for z >= 0: the floor of Lap(1/e)
    Gumbel:            P(Z >= z) = 1 - exp(-exp(-e z))                     for every integer z

A table holds C(z) = round(2^128 P(Z < z)), computed with integers of 256 fractional bits from exp(-e) by mpmath; a
double never enters but for e itself, which is an exact dyadic rational. A uniform 128-bit integer U stands for the
draw Z = max{z : C(z) <= U}, so Z < z exactly if U < C(z). The first 64 bits decide unless they equal the edge's.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import repeat
from typing import Final, Literal

import mpmath
import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError

__all__ = [
    "EDGE_DISTANCE",
    "SMALLEST_SCALE",
    "Edges",
    "IntegerLaw",
    "Law",
    "edges",
    "geometric",
    "sample",
    "tail_reach",
]

Law = Literal["logistic", "discrete-laplace", "laplace"]
"""Laws that mirror themselves."""

IntegerLaw = Literal[Law, "gumbel"]

PRECISION: Final = 128
"""Bits of a draw."""

_TOP: Final = (1 << PRECISION) - 1

_FRACTION: Final = 256
SMALLEST_SCALE: Final = 2.0**-18
"""Nats per unit below which no table is made."""

_LARGEST_SCALE: Final = 64.0

EDGE_DISTANCE: Final = Fraction(1, 2**PRECISION)
"""Bound on |P(U < C(z)) - P(Z < z)| for every z: rounding (half a unit), the 256-bit recurrence (far below), and the
clipping of edges that would round to 0 or 2^128 (half a unit). An answer that compares against two edges is within
total variation 2 * EDGE_DISTANCE of the ideal one."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges C(z) for the consecutive integers z = first, first + 1, ...

    Attributes:
        first: The z of element 0.
        high: uint64[m], the upper 64 bits.
        low: uint64[m], the lower 64 bits.
    """

    first: int
    high: NDArray[np.uint64]
    low: NDArray[np.uint64]

    def exceed(self, index: NDArray[np.intp], words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return U < C(first + index), that is Z < first + index, elementwise.

        Args:
            index: intp[n]; an index outside the table stands for the table's nearer end.
            words: uint64[n, 2], the uniform bits.
        """
        edge = self.high.take(index, mode="clip")
        first = np.ascontiguousarray(words[:, 0])  # it is read twice
        below: NDArray[np.bool_] = first < edge
        tie = np.flatnonzero(first == edge)
        if tie.size:
            below[tie] = words[tie, 1] < self.low.take(index[tie], mode="clip")
        return below


def tail_reach(scale: float) -> int:
    """Return a w such that P(Z >= w) 2^128 rounds to 0 or 1: edges beyond +-w carry no information."""
    return int(PRECISION * 0.6931471805599454 / scale) + 4


@lru_cache(maxsize=256)
def edges(law: IntegerLaw, scale: float, first: int, last: int) -> Edges:
    """Compute the edges C(first), ..., C(last).

    Args:
        law: Law of the noise.
        scale: e, in [2^-18, 64] nats per unit.
        first: Least z.
        last: Largest z, not below `first`.

    Raises:
        InputError: The scale is outside its range.

    >>> table = edges("discrete-laplace", 1.0, 0, 1)
    >>> float(table.high[0]) / 2.0**64  # P(Z < 0) = exp(-1) / (1 + exp(-1))
    0.2689414213699951
    """
    if not SMALLEST_SCALE <= scale <= _LARGEST_SCALE:
        raise InputError("noise scale", scale, f"must be from {SMALLEST_SCALE:g} to {_LARGEST_SCALE:g}")
    values = _gumbel(scale, first, last) if law == "gumbel" else _mirrored(law, scale, first, last)
    words = bytearray()
    for value in values:  # one by one: as numbers, all of them would take several times as much
        words += value.to_bytes(16, "little")
    packed = np.frombuffer(words, dtype="<u8").reshape(-1, 2)
    table = Edges(first, packed[:, 1].copy(), packed[:, 0].copy())
    table.high.setflags(write=False)
    table.low.setflags(write=False)
    return table


def _mirrored(law: Law, scale: float, first: int, last: int) -> Iterator[int]:
    """Yield C(first), ..., C(last) of a law that mirrors itself."""
    reach = min(max(abs(first), abs(last)) + 1, tail_reach(scale))
    upper = _upper_tail(law, scale, reach)
    mirror = 0 if law == "laplace" else 1
    for z in range(first, last + 1):
        # P(Z < z) = 1 - P(Z >= z), and by symmetry = P(Z >= 1 - z); of Laplace's law, = P(Z >= -z)
        weight = z if z >= 1 else mirror - z
        tail = upper[weight] if weight < len(upper) else 0
        yield min((1 << PRECISION) - tail, _TOP) if z >= 1 else tail


def _gumbel(scale: float, first: int, last: int) -> Iterator[int]:
    """Yield C(first), ..., C(last) of the Gumbel law: 2^128 exp(-t) with t = exp(-e z), rounded."""
    start = max(first, -math.ceil(math.log(_FRACTION) / scale))  # below it t > 256, so C is 0
    stop = min(last, tail_reach(scale))  # above it t < 2^-130, so C is all ones
    yield from repeat(0, min(start - first, last - first + 1))
    with mpmath.workprec(_FRACTION + 64):
        ratio = int(mpmath.floor(mpmath.ldexp(mpmath.exp(-mpmath.mpf(scale)), _FRACTION)))
        power = int(mpmath.floor(mpmath.ldexp(mpmath.exp(-mpmath.mpf(scale) * start), _FRACTION)))
        for _ in range(start, stop + 1):
            below = mpmath.exp(mpmath.ldexp(-power, -_FRACTION))
            yield min(int(mpmath.nint(mpmath.ldexp(below, PRECISION))), _TOP)
            power = (power * ratio) >> _FRACTION
    yield from repeat(_TOP, last - max(stop, start - 1))


def _upper_tail(law: Law, scale: float, reach: int) -> list[int]:
    """Return round(2^128 P(Z >= w)) for w = 0..reach (element 0 is used for Laplace's law only)."""
    one = 1 << _FRACTION
    with mpmath.workprec(_FRACTION + 64):
        ratio = int(mpmath.floor(mpmath.ldexp(mpmath.exp(-mpmath.mpf(scale)), _FRACTION)))
        half = int(mpmath.floor(mpmath.ldexp(mpmath.exp(-mpmath.mpf(scale) / 2), _FRACTION)))
    tail = [1 << (PRECISION - 1)]
    power = half if law == "logistic" else ratio
    for _ in range(reach):
        match law:
            case "logistic":  # q / (1 + q) with q = exp(-e (w - 1/2))
                denominator = one + power
            case "discrete-laplace":  # exp(-e w) / (1 + exp(-e))
                denominator = one + ratio
            case _:  # exp(-e w) / 2
                denominator = 2 * one
        tail.append(((power << PRECISION) + (denominator >> 1)) // denominator)
        power = (power * ratio) >> _FRACTION
    return tail


def sample(law: IntegerLaw, scale: float, words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Turn uniform bits into integers of the law.

    Args:
        law: Law of the noise.
        scale: e.
        words: uint64[..., 2], uniform bits.

    Returns:
        int64[...], the samples; the same bits always give the same integers.
    """
    reach = tail_reach(scale)
    table = edges(law, scale, 1 - reach, reach)
    flat = np.ascontiguousarray(words).reshape(-1, 2)
    left = np.searchsorted(table.high, flat[:, 0], side="left")
    right = np.searchsorted(table.high, flat[:, 0], side="right")
    for row in np.flatnonzero(left != right):  # the first word hit an edge: probability below 2^-45 a draw
        run = table.low[left[row] : right[row]]
        left[row] += np.searchsorted(run, flat[row, 1], side="right")
    return (left.astype(np.int64) - reach).reshape(words.shape[:-1])


def geometric(scale: float, words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Turn uniform bits into integers G >= 0 with P(G >= g) = exp(-scale g): Geom0(1 - exp(-scale)).

    The size of a Laplace sample, rounded down: |X| of X ~ Lap(1/scale) is exponential. G is below `tail_reach(scale)`.
    """
    floor = sample("laplace", scale, words)
    return np.maximum(floor, -1 - floor)
