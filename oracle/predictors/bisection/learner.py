"""What both profiles' learners have in common."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.sums import dots
from oracle.predictors.base import StateArrays

__all__ = ["Ask", "Learner", "clipped", "in_range"]

Ask = Callable[[NDArray[np.intp], NDArray[np.float64]], NDArray[np.bool_]]
"""Asks the oracle about some rows of the current batch, in order, each against its threshold; called once a row."""


class Learner(Protocol):
    """Answers queries, and learns from the oracle's bits.

    Formal guarantees:
        * Answers and state are the same for any cut of the stream, bit for bit. They are functions of the queries and
          the bits: who holds no other data learns no more than the bits tell.
    """

    def learn(self, queries: NDArray[np.float64], usable: NDArray[np.bool_], ask: Ask) -> NDArray[np.float64]:
        """Answer queries in order, and ask about those that it can learn from.

        Args:
            queries: float64[n, D]; those that are usable are `in_range`.
            usable: bool[n], which may be asked about.
            ask: Asks the oracle.

        Returns:
            float64[n].
        """
        ...

    def hypothesis(self) -> NDArray[np.float64]:
        """Return w: float64[D] whose dot product with a query is the next answer, but for clipping."""
        ...

    def export(self) -> StateArrays:
        """Return the state, of a size that depends on d only."""
        ...

    def restore(self, arrays: StateArrays) -> None:
        """Take a state back."""
        ...


def in_range(queries: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which queries have 0 <= q_i <= 1 for all i, as Choromanski et al. (2015), section 2, has it."""
    inside: NDArray[np.bool_] = np.logical_and.reduce((queries >= 0.0) & (queries <= 1.0), axis=1)
    return inside


def clipped(queries: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values, moved to where w*.q can be: from 0 to the sum of q_i, for queries that are `in_range`.

    Args:
        queries: float64[n, D].
        values: float64[n].
    """
    most = dots(queries, np.ones((1, queries.shape[1])))[0]
    return np.where(in_range(queries), np.minimum(np.maximum(values, 0.0), most), values)
