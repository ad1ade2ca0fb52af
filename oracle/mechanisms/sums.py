"""Sums whose last bit depends neither on how a stream was cut nor on the machine: added one after another, in order.

A BLAS product, and NumPy's pairwise sum, group their terms by length, alignment and processor.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["dots", "running_sum"]


def dots(queries: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the dot product of each vector with each query, its terms added in the order of the columns.

    Args:
        queries: float64[n, D].
        vectors: float64[k, D].

    Returns:
        float64[k, n].
    """
    columns = np.ascontiguousarray(queries.T)
    total = np.zeros((len(vectors), len(queries)))
    for weights, column in zip(vectors.T, columns, strict=True):
        total += weights[:, None] * column
    return total


def running_sum(start: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `start` with the rows added to it one after another.

    Args:
        start: float64[k].
        rows: float64[n, k].
    """
    total: NDArray[np.float64] = np.add.accumulate(np.concatenate([start[None], rows]), axis=0)[-1]
    return total
