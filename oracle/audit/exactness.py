"""How far a mechanism's noise is from the law it claims: edges are found by bisection."""

from collections.abc import Callable

import mpmath
import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.noise.tables import Law
from oracle.mechanisms.thresholds.paid import HIGH, LOW, BetweenThresholds
from oracle.mechanisms.thresholds.stopper import Stopper
from oracle.planning.plan import InstancePlan, StopperPlan

__all__ = ["exact_between", "exact_levels", "exact_stopper"]

_BITS = 128
_PRECISION = 400
_HALF = (1 << 64) - 1
_STOPPER: Law = "discrete-laplace"

Test = Callable[[NDArray[np.uint64]], NDArray[np.bool_]]


def _words(values: list[int]) -> NDArray[np.uint64]:
    return np.array([(value >> 64, value & _HALF) for value in values], dtype=np.uint64)


def _edges(below: Test, count: int) -> list[int]:
    """Return for each of `count` mechanisms the least U in [0, 2^128] that is not "below"; U < edge are."""
    low, high = [0] * count, [1 << _BITS] * count
    while any(left < right for left, right in zip(low, high, strict=True)):
        middle = [(left + right) // 2 for left, right in zip(low, high, strict=True)]
        is_below = below(_words([min(value, (1 << _BITS) - 1) for value in middle]))
        for row, flag in enumerate(is_below):
            if low[row] < high[row]:
                low[row], high[row] = (middle[row] + 1, high[row]) if flag else (low[row], middle[row])
    return low


def _less(law: Law, scale: float, z: int) -> mpmath.mpf:
    """Return P(Z < z) of the law, at high precision."""
    e = mpmath.mpf(scale)
    if law == "logistic":
        return 1 / (1 + mpmath.exp(-e * (z - mpmath.mpf(0.5))))
    if z >= 1:
        return 1 - mpmath.exp(-e * z) / (1 + mpmath.exp(-e))
    return mpmath.exp(-e * (1 - z)) / (1 + mpmath.exp(-e))


def _worst(edges: list[int], law: Law, scale: float, zs: list[int]) -> mpmath.mpf:
    with mpmath.workprec(_PRECISION):
        return max(abs(mpmath.ldexp(edge, -_BITS) - _less(law, scale, z)) for edge, z in zip(edges, zs, strict=True))


def exact_between(mechanism: BetweenThresholds, claimed: InstancePlan) -> mpmath.mpf:
    """Return the largest |P(answer) - its law| over both edges of all depths.

    Args:
        mechanism: What answers.
        claimed: The law, scale and thresholds that it was accounted for with.
    """
    depths = np.arange(claimed.points + 1, dtype=np.intp)
    lows = _edges(lambda words: mechanism.answers(depths, words) == LOW, len(depths))
    not_highs = _edges(lambda words: mechanism.answers(depths, words) != HIGH, len(depths))
    return max(
        _worst(lows, claimed.law, claimed.scale, [claimed.low - int(depth) for depth in depths]),
        _worst(not_highs, claimed.law, claimed.scale, [claimed.high + 1 - int(depth) for depth in depths]),
    )


def exact_stopper(mechanism: Stopper, claimed: StopperPlan) -> mpmath.mpf:
    """Return the same of its halts, at counts from far below the threshold to far above."""
    counts = np.arange(0, 2 * claimed.threshold + 1, dtype=np.int64)
    edges = _edges(lambda words: ~mechanism.halts(counts, claimed.threshold, words), len(counts))
    return _worst(edges, _STOPPER, claimed.epsilon, [claimed.threshold - int(count) for count in counts])


def exact_levels(mechanism: Stopper, claimed: StopperPlan) -> mpmath.mpf:
    """Return the same of its noisy threshold."""
    zs = list(range(-4, 5))

    def below(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        levels = [mechanism.level(one) - claimed.threshold for one in words]
        return np.array([level < z for level, z in zip(levels, zs, strict=True)])

    return _worst(_edges(below, len(zs)), _STOPPER, claimed.epsilon, zs)
