"""BetweenThresholds with integer noise: is a depth low, medium or high?

Source: Stemmer (2024), Algorithm 3 (after Bun, Steinke and Ullman, 2017): fresh noise Z per query, low if f + Z < t_l,
high if f + Z > t_h, else medium. The `tight` profile takes integer noise and accounts for it exactly; the `paper`
profile takes Laplace's, as written.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.mechanisms.noise.tables import Edges, Law, edges

__all__ = ["HIGH", "LOW", "MEDIUM", "BetweenThresholds", "log_answer_law"]

LOW: Final = 0
MEDIUM: Final = 1
HIGH: Final = 2


@dataclass(frozen=True)
class BetweenThresholds:
    """The public parameters of one instance.

    Formal guarantees:
        * Adding or removing one of the instance's points moves every depth by at most 1; the answers up to the
          K-th medium are then (epsilon, delta)-indistinguishable by `oracle.accounting.between_thresholds`.
        * An answer is a pure function of (depth, 128 uniform bits).

    Args:
        law: Law of Z.
        scale: e (nats per point).
        low: t_l.
        high: t_h, not below t_l.
        points: M, the largest depth there can be, not below t_h.
    """

    law: Law
    scale: float
    low: int
    high: int
    points: int

    def __post_init__(self) -> None:
        """Check the order of the thresholds."""
        if not 0 < self.low <= self.high <= self.points:
            raise InputError("thresholds", (self.low, self.high, self.points), "must satisfy 0 < low <= high <= points")

    @property
    def gap(self) -> int:
        """The distance g = t_h - t_l."""
        return self.high - self.low

    @cached_property
    def _edges(self) -> tuple[Edges, Edges]:
        """Edges C(z) of "not high" and of "low", reversed: depth f finds C(top - f) and C(t_l - f) at its own place."""
        table = edges(self.law, self.scale, self.low - self.points, self._top)
        high, low, shift = table.high[::-1].copy(), table.low[::-1].copy(), self._top - self.low
        return Edges(0, high, low), Edges(0, high[shift:], low[shift:])

    @property
    def _top(self) -> int:
        """The z with "not high" = (Z < z) at depth 0; Laplace noise meets t_h with probability 0, integer noise may."""
        return self.high if self.law == "laplace" else self.high + 1

    def answers(self, depths: NDArray[np.intp], words: NDArray[np.uint64]) -> NDArray[np.int8]:
        """Answer a column of depths.

        Args:
            depths: intp[n], each from 0 to M.
            words: uint64[n, 2], fresh uniform bits for each.

        Returns:
            int8[n] of LOW, MEDIUM, HIGH.
        """
        not_high_edges, low_edges = self._edges
        not_high = not_high_edges.exceed(depths, words)  # f + Z <= t_h
        low = low_edges.exceed(depths, words)  # f + Z < t_l
        return HIGH - not_high.astype(np.int8) - low.astype(np.int8)


def log_answer_law(
    law: Law, scale: float, low: int, high: int, depths: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return log P(low), log P(medium), log P(high) at each depth, accurate in every tail.

    Args:
        law: Law of Z.
        scale: e.
        low: t_l.
        high: t_h.
        depths: int64[n], any integers.
    """
    if law == "laplace":
        raise InputError("law", law, "must be logistic or discrete-laplace: Laplace's has no accountant here")
    tail = _log_upper_logistic if law == "logistic" else _log_upper_laplace
    log_low = tail(scale, depths - low + 1)  # P(Z <= t_l - f - 1) = P(Z >= f - t_l + 1) by symmetry
    log_high = tail(scale, high - depths + 1)  # P(Z >= t_h - f + 1)
    # medium: P(Z >= t_l - f) - P(Z >= t_h - f + 1), or mirrored where that difference cancels less
    upper = _log_difference(tail(scale, low - depths), log_high)
    lower = _log_difference(tail(scale, depths - high), log_low)
    return log_low, np.where(2 * depths > low + high, lower, upper), log_high


def _log_upper_logistic(scale: float, z: NDArray[np.int64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = -np.logaddexp(0.0, scale * (z - 0.5))
    return result


def _log_upper_laplace(scale: float, z: NDArray[np.int64]) -> NDArray[np.float64]:
    outer = -scale * np.maximum(z, 1) - np.log1p(np.exp(-scale))
    inner = np.log1p(-np.exp(-scale * np.maximum(1 - z, 1) - np.log1p(np.exp(-scale))))
    result: NDArray[np.float64] = np.where(z >= 1, outer, inner)
    return result


def _log_difference(larger: NDArray[np.float64], smaller: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = larger + np.log(-np.expm1(smaller - larger))
    return result
