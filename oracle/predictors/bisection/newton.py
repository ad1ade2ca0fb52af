"""The `efficient` profile: every query is asked, against the current estimate.

With E's density rho at 0, a bit asked against the threshold v.u has the mean P(E > 0) + (rho/D) (v* - v).u + ..., so

    v <- v + gain (D/rho) H^-1 sum (bit - P(E > 0)) u,      H = ridge I + sum of u u^T over all queries asked

is a stochastic Newton step towards v* = the projection of w*: recursive least squares, no cone needed. The steps are
longer than 1/k (gain k^(1/4)), and what answers is the iterates' average (Polyak and Juditsky, 1992), in which later
ones weigh more. While the estimate may still be off by more than the noise's width, a bit says little of how far: until
then the steps are those of a noise of width 1/sqrt(k), so that they reach anything in the cube. Steps are taken at the
ends of blocks of queries, counted in queries asked, so the answers depend neither on a batch's cut nor on rounds
without a query; blocks grow with the count, up to 256.

All sums are in order and the d x d system is solved with Python's own floats: any machine gives the same answers.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.noise.laws import NoiseLaw
from oracle.mechanisms.sums import dots, running_sum
from oracle.predictors.base import StateArrays
from oracle.predictors.bisection.learner import Ask, clipped

__all__ = ["StochasticNewton"]

_FLAT: Final = 2.0**-40
"""The ridge is at least this part of the largest diagonal entry. Where the noise is small its own is smaller; queries
that all lie in one line would then leave a system that is singular, or of either sign, by rounding."""

_LONGEST_BLOCK: Final = 256
_PART: Final = 8
"""A block is this part of the queries asked before it, at most."""


def block_length(asked: int) -> int:
    """Return the length of the block that starts after so many queries."""
    return min(max(asked // _PART, 1), _LONGEST_BLOCK)


class StochasticNewton:
    """Averaged stochastic Newton steps over all queries.

    Formal guarantees:
        * None on the error. Asymptotically it is that of D sqrt(d) / (2 rho sqrt t) after t queries; experiments
          support it.

    Args:
        basis: float64[d, D], orthonormal rows.
        law: The law of E; the oracle's noise is D E.
    """

    def __init__(self, basis: NDArray[np.float64], law: NoiseLaw) -> None:
        self._basis = basis
        count, dimension = basis.shape
        self._dimension = dimension
        self._reach = math.sqrt(dimension)
        self._slope = dimension / law.density
        self._offset = law.above(0.0)
        # the noise's variance over that of a coordinate that may be anything in [0, sqrt(D)]
        self._ridge = 12.0 * dimension * (0.5 / law.density) ** 2
        self._upper = np.triu_indices(count)
        centre = dots(np.full((1, dimension), 0.5), basis)[:, 0]
        self._raw, self._mean = centre, centre.copy()
        self._weight = 0.0
        self._asked = 0
        self._block = 0  # queries asked in the current block
        self._sums = np.zeros(len(self._upper[0]) + count)  # of u u^T over all, of (bit - P) u over the block

    def learn(self, queries: NDArray[np.float64], usable: NDArray[np.bool_], ask: Ask) -> NDArray[np.float64]:
        """Answer by the average, and ask against the last iterate (see `Learner.learn`)."""
        coordinates = dots(queries, self._basis)
        rows = np.flatnonzero(usable)
        values = np.empty(len(queries))
        start = done = 0
        while start < len(queries):
            fits = block_length(self._asked - self._block) - self._block
            mine = rows[done : done + fits]
            ends = len(mine) == fits
            stop = int(mine[-1]) + 1 if ends else len(queries)
            values[start:stop] = dots(coordinates[:, start:stop].T, self._mean[None])[0]
            self._take(coordinates[:, mine], mine, ask)
            if ends:
                self._step()
            start, done = stop, done + len(mine)
        return clipped(queries, values)

    def _take(self, coordinates: NDArray[np.float64], rows: NDArray[np.intp], ask: Ask) -> None:
        bits = ask(rows, dots(coordinates.T, self._raw[None])[0])
        surprise = bits - self._offset
        products = coordinates[self._upper[0]] * coordinates[self._upper[1]]
        self._sums = running_sum(self._sums, np.concatenate([products, coordinates * surprise]).T)
        self._asked += len(rows)
        self._block += len(rows)

    def _step(self) -> None:
        count = len(self._raw)
        squares, gradient = self._sums[:-count], self._sums[-count:]
        gain = min(math.sqrt(math.sqrt(self._asked)), max(0.5 * self._asked / self._block, 1.0))
        matrix = np.zeros((count, count))
        matrix[self._upper] = squares
        matrix[np.diag_indices(count)] += max(self._ridge, _FLAT * float(matrix.diagonal().max()))
        step = np.array(solve(matrix.tolist(), gradient.tolist()))
        slope = max(self._slope, self._dimension / math.sqrt(self._asked))
        self._raw = np.clip(self._raw + gain * slope * step, -self._reach, self._reach)
        weight = float(self._block) * self._asked
        self._weight += weight
        self._mean = self._mean + weight / self._weight * (self._raw - self._mean)
        self._sums[-count:] = 0.0
        self._block = 0

    def hypothesis(self) -> NDArray[np.float64]:
        """Return the average as a vector: float64[D]."""
        weights: NDArray[np.float64] = dots(self._basis.T, self._mean[None])[0]
        return weights

    def export(self) -> StateArrays:
        """Return the state."""
        return {
            "raw": self._raw.copy(),
            "mean": self._mean.copy(),
            "weight": np.array([self._weight]),
            "asked": np.array([self._asked, self._block], dtype=np.int64),
            "sums": self._sums.copy(),
        }

    def restore(self, arrays: StateArrays) -> None:
        """Take a state back."""
        self._raw = np.array(arrays["raw"], dtype=np.float64)
        self._mean = np.array(arrays["mean"], dtype=np.float64)
        self._weight = float(arrays["weight"][0])
        self._asked, self._block = (int(value) for value in arrays["asked"])
        self._sums = np.array(arrays["sums"], dtype=np.float64)


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve a symmetric positive definite system by Cholesky's method, in a fixed order of operations.

    Args:
        matrix: Its upper triangle is read.
        right: The right side.

    >>> solve([[4.0, 2.0], [0.0, 5.0]], [8.0, 8.0])
    [1.5, 1.0]
    """
    size = len(right)
    rows: list[list[float]] = []  # of R with R^T R = matrix; row i holds R[i][i:]
    partial = [matrix[i][i:] for i in range(size)]
    values = list(right)
    for i in range(size):
        root = math.sqrt(partial[i][0])
        row = [entry / root for entry in partial[i]]
        values[i] /= root
        for j in range(i + 1, size):
            factor = row[j - i]
            values[j] -= factor * values[i]
            partial[j] = [entry - factor * other for entry, other in zip(partial[j], row[j - i :], strict=True)]
        rows.append(row)
    for i in reversed(range(size)):
        row = rows[i]
        total = values[i]
        for j in range(i + 1, size):
            total -= row[j - i] * values[j]
        values[i] = total / row[0]
    return values
