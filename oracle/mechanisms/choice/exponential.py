"""The exponential mechanism over candidates with integer losses: P(c) is proportional to exp(-e loss_c).

Source: McSherry and Talwar (2007), "Mechanism design via differential privacy"; PRIVACY.md, Lemma 9. `choose_exactly`
has this law to the last bit: a uniform real number is compared with the cumulative weights, both known to ever more
digits, until the comparison is certain. `choose` looks at 512 bits once, is within 2^-128 of the law and pays a delta.
All arithmetic is on integers with directed rounding; e is the rational number that its float stands for.
"""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.mechanisms.addresses import Addresses, Purpose

__all__ = ["CHOICE_WORDS", "BitSource", "Candidates", "KeyedBits", "choose", "choose_exactly", "exp_bounds"]

CHOICE_WORDS: Final = 8
"""64-bit words that one `choose` takes."""

_FRACTION: Final = 320
_NATS: Final = 178.0
"""`choose` leaves out weights below exp(-178) < 2^-256 of the largest."""

_SMALLEST_SCALE: Final = 2.0**-18
_LARGEST_SCALE: Final = 64.0
_PRECISION: Final = 256
"""Bits that a choice first looks at; it is undecided after these about once in 2^150 choices."""

_LN2_BELOW: Final = Fraction(69, 100)
_BLOCK_BITS: Final = 128
_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(2**32 - 1)


class BitSource(Protocol):
    """Independent uniform bits, as many as are asked for."""

    def take(self, count: int) -> int:
        """Return the next `count` bits as a number, the first one on top."""
        ...


class KeyedBits:
    """The endless stream of bits that one side's choice is made of: AES over (CHOICE, side, block).

    Args:
        addresses: Keyed functions that draw no other choice for this side.
        side: Number of the side, below `addresses.MAX_SIDES`.
    """

    def __init__(self, addresses: Addresses, side: int) -> None:
        self._addresses = addresses
        self._side = np.array([side], dtype=np.uint64)
        self._blocks = 0
        self._left = 0
        self._held = 0

    def take(self, count: int) -> int:
        """Return the next `count` bits as a number, the first one on top."""
        if count > self._held:
            more = -(-(count - self._held) // _BLOCK_BITS)
            numbers = np.arange(self._blocks, self._blocks + more, dtype=np.uint64)
            words = self._addresses.words(Purpose.CHOICE, numbers, self._side, None)
            self._left = (self._left << (more * _BLOCK_BITS)) | int.from_bytes(words.tobytes(), "big")
            self._blocks += more
            self._held += more * _BLOCK_BITS
        self._held -= count
        taken, self._left = self._left >> self._held, self._left & ((1 << self._held) - 1)
        return taken


class Candidates(NamedTuple):
    """Candidates in groups of one loss each: group i is owner i's positions starts_i, ..., starts_i + widths_i - 1.

    Attributes:
        owners: intp[k], whose position it is (a side, or a pair of a feature and a direction).
        starts: uint64[k].
        widths: uint64[k]; 0 for an empty group.
        losses: int64[k].
        whole: How many candidates there are, those in no group included.
    """

    owners: NDArray[np.intp]
    starts: NDArray[np.uint64]
    widths: NDArray[np.uint64]
    losses: NDArray[np.int64]
    whole: int


def choose_exactly(
    scale: float, near: Callable[[int], Candidates], bits: BitSource, *, precision: int = _PRECISION
) -> tuple[int, int]:
    """Return the owner and the position of the chosen candidate.

    Formal guarantees:
        * The law is exactly P(c) = exp(-e loss_c) / sum of exp(-e loss_k) over all candidates k, if the bits are
          uniform: let U be the real number they are the digits of, and C_0 <= C_1 <= ... the weights of levels of equal
          loss, summed up. A level is returned only where C_i <= U C_last < C_(i+1) holds for *every* U with the
          digits seen and all sums within their bounds, so it is the one that the real comparison gives; with
          probability 1 finitely many digits decide. Within its level the candidate is a uniform integer.
        * So where a record changes all losses by amounts within `spread` of each other it is (e * spread, 0)-DP
          (PRIVACY.md, Lemma 9): computationally so, as for all noise, where the digits come from a key.

    Args:
        scale: e (nats per unit of loss), above 0.
        near: For a reach r, at least every group whose loss is within r of the least one; it must say the same
            whenever it is asked.
        bits: Where the digits come from.
        precision: Digits that are looked at first.
    """
    rate = Fraction(scale)
    prefix = taken = 0
    while True:
        prefix = (prefix << (precision - taken)) | bits.take(precision - taken)
        taken = precision
        reach = int(precision * _LN2_BELOW / rate) + 1
        candidates = near(reach)
        least = int(candidates.losses[candidates.widths > 0].min())
        losses = candidates.losses - least
        levels, totals = _level_totals(losses, candidates.widths, reach)
        rest = candidates.whole - sum(totals)
        weights = _weights(rate, [*levels, reach + 1], precision)
        found = _decide(prefix, precision, totals, weights, rest)
        if found is not None:
            break
        precision *= 2
    offset = _below(totals[found], bits)
    groups = np.flatnonzero((losses == levels[found]) & (candidates.widths > 0))
    group, within = _locate(offset, candidates.widths[groups])
    chosen = groups[group]
    return int(candidates.owners[chosen]), int(candidates.starts[chosen]) + within


def choose(scale: float, losses: NDArray[np.int64], words: NDArray[np.uint64]) -> int:
    """Return the index of the chosen one of some candidates.

    Formal guarantees:
        * For at most 2^48 candidates it is within total variation 2^-128 (`noise.EDGE_DISTANCE`) of the law, so Lemma 9
          holds with that much delta: weights are rounded down by less than 2^-280 of the largest, what is left out
          weighs less than 2^-208 of it in all, and the uniform integer is within 2^-512 of each candidate's share.

    Args:
        scale: e (nats per unit of loss), in [2^-18, 64].
        losses: int64[n], at least one.
        words: uint64[8], uniform bits.

    Raises:
        InputError: The scale is outside its range.
    """
    if not _SMALLEST_SCALE <= scale <= _LARGEST_SCALE:
        raise InputError("choice scale", scale, f"must be from {_SMALLEST_SCALE:g} to {_LARGEST_SCALE:g}")
    excess = losses - losses.min()
    levels, totals = _level_totals(excess, np.ones(len(excess), dtype=np.uint64), int(_NATS / scale))
    weights = [low for low, _ in _weights(Fraction(scale), levels, _FRACTION)]
    whole = sum(total * weight for total, weight in zip(totals, weights, strict=True))
    left = (int.from_bytes(np.ascontiguousarray(words, dtype="<u8").tobytes(), "little") * whole) >> (64 * CHOICE_WORDS)
    for level, total, weight in zip(levels, totals, weights, strict=True):
        if left < total * weight:
            return int(np.flatnonzero(excess == level)[left // weight])
        left -= total * weight
    raise ArithmeticError("choice: the weights do not sum to their sum")


def _level_totals(losses: NDArray[np.int64], widths: NDArray[np.uint64], reach: int) -> tuple[list[int], list[int]]:
    """Return the losses up to `reach` that occur, ascending, and how many candidates have each; exact."""
    kept = (losses <= reach) & (widths > 0)
    levels, level = np.unique(losses[kept], return_inverse=True)
    halves = np.zeros((2, len(levels)), dtype=np.uint64)  # sums of 32-bit halves: no overflow below 2^32 groups
    np.add.at(halves[0], level, widths[kept] & _LOW)
    np.add.at(halves[1], level, widths[kept] >> _HALF)
    return levels.tolist(), [low + (high << 32) for low, high in halves.T.tolist()]


def _decide(
    prefix: int, digits: int, totals: Sequence[int], weights: Sequence[tuple[int, int]], rest: int
) -> int | None:
    """Return the level that U C_last certainly falls into, or None where these digits do not say.

    Args:
        prefix: The first `digits` digits of U.
        digits: How many.
        totals: Candidates of each level.
        weights: Bounds on each level's weight, and last on that of any candidate beyond all levels.
        rest: Candidates beyond all levels, which lie behind the last one.
    """
    low = [0, *itertools.accumulate(total * weight for total, (weight, _) in zip(totals, weights[:-1], strict=True))]
    high = [0, *itertools.accumulate(total * weight for total, (_, weight) in zip(totals, weights[:-1], strict=True))]
    least, most = prefix * low[-1], (prefix + 1) * (high[-1] + rest * weights[-1][1])
    for level in range(len(totals)):
        if most <= low[level + 1] << digits:
            return level if high[level] << digits <= least else None
    return None


def _weights(rate: Fraction, levels: Sequence[int], digits: int) -> list[tuple[int, int]]:
    """Return bounds on 2^digits exp(-rate v) for ascending v."""
    unit = exp_bounds(rate, digits)
    bounds = [_power(unit, levels[0], digits)]
    for before, level in itertools.pairwise(levels):
        bounds.append(_times(bounds[-1], _power(unit, level - before, digits), digits))
    return bounds


def _times(left: tuple[int, int], right: tuple[int, int], digits: int) -> tuple[int, int]:
    return (left[0] * right[0]) >> digits, -((-left[1] * right[1]) >> digits)


def _power(base: tuple[int, int], exponent: int, digits: int) -> tuple[int, int]:
    result = (1 << digits, 1 << digits)
    while exponent:
        if exponent & 1:
            result = _times(result, base, digits)
        exponent >>= 1
        if exponent:
            base = _times(base, base, digits)
    return result


def exp_bounds(exponent: Fraction, digits: int) -> tuple[int, int]:
    """Return integers (a, b) with a <= 2^digits exp(-exponent) <= b.

    exp(-x) = exp(-x/2^h)^(2^h), with x/2^h at most 1: there the terms x^i/i! fall, so the alternating sum lies between
    any two consecutive partial sums (Leibniz). Every term and every product is rounded down and up.

    Args:
        exponent: x, at least 0.
        digits: At least 1.

    >>> exp_bounds(Fraction(0), 8)
    (256, 256)
    """
    halvings = max(int(exponent), 0).bit_length()
    part = exponent / 2**halvings
    term = (1 << digits, 1 << digits)
    low = high = most = 1 << digits  # bounds on the partial sum so far, and the last one that lies above
    for index in itertools.count(1):
        divisor = index * part.denominator
        term = term[0] * part.numerator // divisor, -(-term[1] * part.numerator // divisor)
        if index % 2 == 0:
            low, high = low + term[0], high + term[1]
            most = high
            continue
        low, high = low - term[1], high - term[0]
        if term[1] <= 1:
            break
    bounds = (max(low, 0), most)
    for _ in range(halvings):
        bounds = _times(bounds, bounds, digits)
    return bounds


def _below(count: int, bits: BitSource) -> int:
    """Return a uniform integer below `count`, by rejection."""
    size = (count - 1).bit_length()
    while (drawn := bits.take(size)) >= count:
        pass
    return drawn


def _locate(offset: int, widths: NDArray[np.uint64]) -> tuple[int, int]:
    """Return which of the groups, laid end to end, the offset falls into, and where in it."""
    for group, width in enumerate(widths.tolist()):
        if offset < width:
            return group, offset
        offset -= width
    raise ArithmeticError("choice: the widths do not sum to their sum")
