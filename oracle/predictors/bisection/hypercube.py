"""OnlineBisection as written: Choromanski, Rostamizadeh and Syed (2015), Algorithms 1 and 2, Lemma 5.1.

The memory is two bounds and two counts for each of the d directions: O(log T) bits each. A query takes O(dD) steps.

The text takes m for the *maximum* of f.(-q), so (m + M)/2 would be half the width of [min f.q, max f.q]; its own words
("the smallest and largest possible value") make m the minimum, and that is what is done here. Its proof takes queries
of length 1: of a query in the cone that is shorter, a bit tells less than Algorithm 2 takes it to.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.noise.laws import NoiseLaw
from oracle.mechanisms.sums import dots
from oracle.planning.bisection.bound import SHRINK, critical_count, final_side, probability_near
from oracle.predictors.base import StateArrays
from oracle.predictors.bisection.learner import Ask

__all__ = ["OnlineBisection", "closed_form"]

_NARROW: Final = 64.0
"""phi = 2 arcsin(1/(64 sqrt d))."""


def closed_form(
    low: NDArray[np.float64], high: NDArray[np.float64], coordinates: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the largest f.q over low <= f <= high (Lemma 5.1).

    Args:
        low: float64[d], x_i.
        high: float64[d], y_i.
        coordinates: float64[d, n], e^i.q of each query.
    """
    least, most = np.zeros(coordinates.shape[1]), np.zeros(coordinates.shape[1])
    for x, y, c in zip(low, high, coordinates, strict=True):
        positive = c >= 0.0
        most += np.where(positive, y, x) * c
        least += np.where(positive, x, y) * c
    return least, most


class OnlineBisection:
    """A hypercube that holds w*'s projection, shrunk by what the bits say of queries close to a basis vector.

    Formal guarantees:
        * Theorem 2.1: average error O~(1/sqrt T) with high probability, if enough queries lie in every cone, each of
          length 1 or more.

    Args:
        basis: float64[d, D], orthonormal rows e^1, ..., e^d.
        law: The law of E; the oracle's noise is D E.
        horizon: T (>= 2).
    """

    def __init__(self, basis: NDArray[np.float64], law: NoiseLaw, horizon: int) -> None:
        self._basis = basis
        self._law = law
        self._horizon = horizon
        count, dimension = basis.shape
        self._dimension = dimension
        self._cosine = math.cos(2.0 * math.asin(1.0 / (_NARROW * math.sqrt(count))))
        self._final = final_side(horizon, count)
        self._low = np.full(count, -math.sqrt(dimension))
        self._high = np.full(count, math.sqrt(dimension))
        self._votes = np.zeros((2, count), dtype=np.int64)  # N^+ and N^-

    @property
    def sides(self) -> NDArray[np.float64]:
        """|I_i|: float64[d]."""
        sides: NDArray[np.float64] = self._high - self._low
        return sides

    @property
    def finished(self) -> bool:
        """Whether the hypercube is small enough, so that nothing is asked any more."""
        return bool((self.sides <= self._final).all())

    def learn(self, queries: NDArray[np.float64], usable: NDArray[np.bool_], ask: Ask) -> NDArray[np.float64]:
        """Answer by the hypercube's centre (see `Learner.learn`)."""
        coordinates = dots(queries, self._basis)
        lengths = np.sqrt(dots(np.square(queries), np.ones((1, self._dimension)))[0])
        cones = (coordinates >= self._cosine * lengths) & (usable & (lengths > 0.0))  # zeros have no direction
        cones[1:] &= ~np.logical_or.accumulate(cones, axis=0)[:-1]  # the first such i
        values = np.empty(len(queries))
        start = 0
        while start < len(queries):
            stop = start + self._until_shrink(cones[:, start:])
            rows = slice(start, stop)
            least, most = closed_form(self._low, self._high, coordinates[:, rows])
            values[rows] = 0.5 * (least + most)
            if not self.finished:
                self._vote(cones[:, rows], values[rows], start, ask)
                if (self._votes.sum(axis=0) >= self._critical()).all():
                    self._shrink()
            start = stop
        return values

    def _critical(self) -> float:
        return critical_count(self._law, float(self.sides[0]), self._dimension, self._horizon)

    def _until_shrink(self, cones: NDArray[np.bool_]) -> int:
        """Return how many rows there are up to and with the one that completes the counts, or all."""
        count = int(cones.shape[1])
        if self.finished:
            return count
        missing = self._critical() - self._votes.sum(axis=0)
        reached = 0
        for hits, wanted in zip(cones, missing, strict=True):
            rows = np.flatnonzero(hits)
            if wanted <= 0.0:
                continue
            if len(rows) < wanted:
                return count
            reached = max(reached, int(rows[math.ceil(wanted) - 1]) + 1)
        return max(reached, 1)

    def _vote(self, cones: NDArray[np.bool_], thresholds: NDArray[np.float64], start: int, ask: Ask) -> None:
        rows = np.flatnonzero(cones.any(axis=0))
        bits = ask(rows + start, thresholds[rows])
        self._votes[0] += np.count_nonzero(cones[:, rows] & bits, axis=1)
        self._votes[1] += np.count_nonzero(cones[:, rows] & ~bits, axis=1)

    def _shrink(self) -> None:
        """Algorithm 2."""
        side = float(self.sides[0])
        above = self._law.above(side / (8.0 * self._dimension))  # p_1
        near = probability_near(self._law, side, self._dimension)  # Delta p
        counts = self._votes.sum(axis=0)
        upper = self._votes[0] > counts * above + 0.5 * counts * near
        length = SHRINK * self.sides
        self._low = np.where(upper, self._high - length, self._low)
        self._high = np.where(upper, self._high, self._low + length)
        self._votes[:] = 0

    def hypothesis(self) -> NDArray[np.float64]:
        """Return the hypercube's centre as a vector: float64[D]."""
        weights: NDArray[np.float64] = dots(self._basis.T, 0.5 * (self._low + self._high)[None])[0]
        return weights

    def export(self) -> StateArrays:
        """Return the state."""
        return {"low": self._low.copy(), "high": self._high.copy(), "votes": self._votes.copy()}

    def restore(self, arrays: StateArrays) -> None:
        """Take a state back."""
        self._low = np.array(arrays["low"], dtype=np.float64)
        self._high = np.array(arrays["high"], dtype=np.float64)
        self._votes = np.array(arrays["votes"], dtype=np.int64)
