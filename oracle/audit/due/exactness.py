"""How far a mechanism's noise is from the law it claims: edges are found by bisection."""

import math
from collections.abc import Callable

import mpmath
import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.noise.tables import IntegerLaw, Law
from oracle.mechanisms.thresholds.paid import HIGH, LOW, BetweenThresholds, PaidQuestions
from oracle.mechanisms.thresholds.stopper import Stopper
from oracle.planning.plan import InstancePlan

__all__ = ["ALLOWED", "below", "exact_between", "exact_questions", "exact_sample", "exact_stopper"]

ALLOWED = mpmath.ldexp(1, -128)
"""How far an edge may be from its law."""

_BITS = 128
_PRECISION = 400
_HALF = (1 << 64) - 1

Test = Callable[[NDArray[np.uint64]], NDArray[np.bool_]]


def _words(values: list[int]) -> NDArray[np.uint64]:
    return np.array([(value >> 64, value & _HALF) for value in values], dtype=np.uint64)


def _edges(is_below: Test, count: int) -> list[int]:
    """Return for each of `count` mechanisms the least U in [0, 2^128] that is not "below"; U < edge are."""
    low, high = [0] * count, [1 << _BITS] * count
    while any(left < right for left, right in zip(low, high, strict=True)):
        middle = [(left + right) // 2 for left, right in zip(low, high, strict=True)]
        found = is_below(_words([min(value, (1 << _BITS) - 1) for value in middle]))
        for row, flag in enumerate(found):
            if low[row] < high[row]:
                low[row], high[row] = (middle[row] + 1, high[row]) if flag else (low[row], middle[row])
    return low


def below(law: IntegerLaw, scale: float, z: int) -> mpmath.mpf:
    """Return P(Z < z) of the law, at high precision."""
    e = mpmath.mpf(scale)
    if law == "gumbel":
        return mpmath.exp(-mpmath.exp(-e * z))
    if law == "logistic":
        return 1 / (1 + mpmath.exp(-e * (z - mpmath.mpf(0.5))))
    if law == "laplace":
        return 1 - mpmath.exp(-e * z) / 2 if z >= 0 else mpmath.exp(e * z) / 2
    if z >= 1:
        return 1 - mpmath.exp(-e * z) / (1 + mpmath.exp(-e))
    return mpmath.exp(-e * (1 - z)) / (1 + mpmath.exp(-e))


def _spread(scale: float) -> list[int]:
    """Return where edges are looked at: all about 0, and out to where nothing is left of 128 bits, both ways."""
    far = [math.ceil(nats / scale) for nats in (0.5, 1, 2, 4, 8, 16, 30, 45, 60, 75, 88, 95)]
    return sorted({*range(-4, 5), *far, *(-z for z in far)})


def _worst(edges: list[int], law: IntegerLaw, scale: float, zs: list[int]) -> mpmath.mpf:
    with mpmath.workprec(_PRECISION):
        return max(abs(mpmath.ldexp(edge, -_BITS) - below(law, scale, z)) for edge, z in zip(edges, zs, strict=True))


def exact_between(mechanism: BetweenThresholds, claimed: InstancePlan | BetweenThresholds) -> mpmath.mpf:
    """Return the largest |P(answer) - its law| over both edges, at depths about them and far out.

    Args:
        mechanism: What answers.
        claimed: The law, scale and thresholds that it was accounted for with.
    """
    near = {edge - z for edge in (claimed.low, claimed.high) for z in _spread(claimed.scale)}
    depths = np.array(sorted({0, claimed.points, *(depth for depth in near if 0 <= depth <= claimed.points)}))
    beyond = claimed.high + (claimed.law != "laplace")  # real noise is above t_h where its floor is at t_h
    lows = _edges(lambda words: mechanism.answers(depths, words) == LOW, len(depths))
    not_highs = _edges(lambda words: mechanism.answers(depths, words) != HIGH, len(depths))
    return max(
        _worst(lows, claimed.law, claimed.scale, [claimed.low - int(depth) for depth in depths]),
        _worst(not_highs, claimed.law, claimed.scale, [beyond - int(depth) for depth in depths]),
    )


def exact_stopper(mechanism: Stopper, law: Law, scale: float, threshold: int) -> mpmath.mpf:
    """Return the same of its halts, at counts from far below the threshold to far above; and of its noisy threshold."""
    zs = _spread(scale)
    counts = np.array([threshold - z for z in zs], dtype=np.int64)
    edges = _edges(lambda words: ~mechanism.halts(counts, threshold, words), len(counts))
    worst = _worst(edges, law, scale, zs)
    if law == "laplace":
        return worst

    def lower(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        levels = [mechanism.level(one) - threshold for one in words]
        return np.array([level < z for level, z in zip(levels, zs, strict=True)])

    return max(worst, _worst(_edges(lower, len(zs)), law, scale, zs))


def exact_questions(mechanism: PaidQuestions) -> mpmath.mpf:
    """Return the same of what is low and not paid for, by the law and the slope that it says."""
    zs = np.array(_spread(mechanism.slope), dtype=np.int64)

    def low(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        told = mechanism.ask(-zs, np.zeros_like(zs), words, spent=-len(zs))  # so that none is closed
        return np.asarray(told.outcomes == LOW)

    if mechanism.law != "exponential":
        return _worst(_edges(low, len(zs)), mechanism.law, mechanism.slope, zs.tolist())
    zs = zs[zs > 0]  # the size of a draw by Laplace's law: paid for in either tail
    middle = np.uint64(1 << 63)
    upper = _edges(lambda words: (words[:, 0] < middle) | low(words), len(zs))
    lower = _edges(lambda words: (words[:, 0] < middle) & ~low(words), len(zs))
    return max(
        _worst(upper, "laplace", mechanism.slope, zs.tolist()),
        _worst(lower, "laplace", mechanism.slope, (-zs).tolist()),
    )


def exact_sample(draw: Callable[[NDArray[np.uint64]], NDArray[np.int64]], law: IntegerLaw, scale: float) -> mpmath.mpf:
    """Return the same of draws, by their law."""
    zs = np.array(_spread(scale), dtype=np.int64)
    return _worst(_edges(lambda words: draw(words) < zs, len(zs)), law, scale, zs.tolist())
