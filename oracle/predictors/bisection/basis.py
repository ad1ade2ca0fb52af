"""The basis of the query space by PCA of a warm-up window (Choromanski et al., 2015, end of section 3).

PCA finds the *subspace* that the queries lie in. Which of its bases it finds is another matter: where the queries
concentrate around basis vectors with equal weights, any rotation of these is as good for PCA, and Algorithm 1 may wait
long for queries in its narrow cones. Give the basis if you know it; the `efficient` profile takes any.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.sums import dots, running_sum
from oracle.predictors.base import StateArrays

__all__ = ["BasisFinder", "principal_axes"]

_SWEEPS: Final = 60
_PART: Final = 256


class BasisFinder:
    """Sums up the second moments of the first queries.

    Formal guarantees:
        * The basis is a function of the queries in order, whatever the cuts and the machine. No bit is asked for it.

    Args:
        dimension: D.
        directions: d, from 1 to D.
        window: Queries that it takes.
    """

    def __init__(self, dimension: int, directions: int, window: int) -> None:
        self._directions = directions
        self._upper = np.triu_indices(dimension)
        self._moments = np.zeros(len(self._upper[0]) + dimension)  # of q q^T, and of q
        self._dimension = dimension
        self._window = window
        self._seen = 0

    @property
    def missing(self) -> int:
        """Queries still wanted."""
        return self._window - self._seen

    def add(self, queries: NDArray[np.float64]) -> None:
        """Take queries in, at most `missing` of them: float64[n, D]."""
        for start in range(0, len(queries), _PART):
            some = queries[start : start + _PART]
            products = some[:, self._upper[0]] * some[:, self._upper[1]]
            self._moments = running_sum(self._moments, np.concatenate([products, some], axis=1))
        self._seen += len(queries)

    def basis(self) -> NDArray[np.float64]:
        """Return the d principal axes: float64[d, D], orthonormal, each pointing to where the queries are."""
        matrix = np.zeros((self._dimension, self._dimension))
        matrix[self._upper] = self._moments[: -self._dimension]
        axes = principal_axes(matrix + np.triu(matrix, 1).T)[: self._directions]
        towards = dots(self._moments[None, -self._dimension :], axes)[:, 0]
        return np.where(towards < 0.0, -1.0, 1.0)[:, None] * axes

    def export(self) -> StateArrays:
        """Return the state."""
        return {"moments": self._moments.copy(), "seen": np.array([self._seen], dtype=np.int64)}

    def restore(self, arrays: StateArrays) -> None:
        """Take a state back."""
        self._moments = np.array(arrays["moments"], dtype=np.float64)
        self._seen = int(arrays["seen"][0])


def principal_axes(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the eigenvectors of a symmetric matrix as rows, those of the largest eigenvalues first.

    By Jacobi's rotations, whose operations have a fixed order: LAPACK's answer depends on how it was built.

    Args:
        matrix: float64[D, D].
    """
    current, axes = matrix.copy(), np.eye(len(matrix))
    tiny = 2.0**-52 * float(np.abs(matrix).max(initial=0.0))
    for _ in range(_SWEEPS):
        rotated = False
        for i in range(len(matrix)):
            for j in range(i + 1, len(matrix)):
                if abs(float(current[i, j])) > tiny:
                    _rotate(current, axes, i, j)
                    rotated = True
        if not rotated:
            break
    order = np.argsort(-np.diag(current), kind="stable")
    return axes[order]


def _rotate(matrix: NDArray[np.float64], axes: NDArray[np.float64], i: int, j: int) -> None:
    """Make element (i, j) zero, in place."""
    theta = 0.5 * float(matrix[j, j] - matrix[i, i]) / float(matrix[i, j])
    tangent = math.copysign(1.0, theta) / (abs(theta) + math.sqrt(theta * theta + 1.0))
    cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
    sine = tangent * cosine
    for target in (matrix, matrix.T, axes):
        first, second = target[i].copy(), target[j].copy()
        target[i] = cosine * first - sine * second
        target[j] = sine * first + cosine * second
