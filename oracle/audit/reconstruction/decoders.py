"""Two decoders: from numbers that are nearly linear in secret counts back to the counts.

Kasiviswanathan, Rudelson and Smith (2013), Section 2; docs/explanation/reconstruction.md, Propositions 2 and 3. An
unknown is how many of some rows that look alike have the secret bit; of a row that looks like no other it is the bit.
"""

from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse, special

from oracle.errors import PlanError

__all__ = ["Equations", "helmert", "least_squares", "linear_program", "predicted_share"]

Floats = NDArray[np.float64]

_EXACT: Final = 0.01
"""Deviation that is taken for that of numbers without noise: it settles what they leave open, and nothing else."""

_FITS: Final = 1e-6
_DENSE: Final = 0.2


class Equations(NamedTuple):
    """What was told: `matrix` times the counts is `told`, nearly.

    Attributes:
        matrix: float64[m, g].
        told: float64[m].
        slack: float64[m]; the truth is known to be within so much of `told` (0 where that is not known).
        deviation: float64[m], standard deviation of the noise (0 where there is none).
    """

    matrix: Floats
    told: Floats
    slack: Floats
    deviation: Floats

    @classmethod
    def of(cls, matrix: Floats, told: Floats, deviation: float = 0.0) -> "Equations":
        """Return equations without slack and with noise of one deviation."""
        return cls(matrix, told, np.zeros(len(told)), np.full(len(told), deviation))

    @property
    def spread(self) -> Floats:
        """Standard deviation of what `told` is off, where slack is spread evenly: float64[m], above 0."""
        return np.maximum(np.sqrt(self.deviation**2 + self.slack**2 / 3.0), _EXACT)

    def turned(self, shapes: tuple[tuple[int, ...], ...]) -> "Equations":
        """Return whole tables in the basis of their contrasts: of bits these are parities (Proposition 4).

        It is a rotation, so that normal noise stays what it is. Slack has no meaning in another basis, and is left out.

        Args:
            shapes: Of the tables that the equations are of, one after the other; their cells in C order.
        """
        matrix, told = np.empty_like(self.matrix), np.empty_like(self.told)
        start = 0
        for shape in shapes:
            end = start + int(np.prod(shape))
            cells = np.column_stack([self.matrix[start:end], self.told[start:end]]).reshape(*shape, -1)
            for axis, count in enumerate(shape):
                cells = np.moveaxis(np.tensordot(helmert(count), cells, axes=(1, axis)), 0, axis)
            flat = cells.reshape(end - start, -1)
            matrix[start:end], told[start:end] = flat[:, :-1], flat[:, -1]
            start = end
        return self._replace(matrix=matrix, told=told, slack=np.zeros(len(told)))


def helmert(count: int) -> Floats:
    """Return a rotation whose first row is constant and whose others are contrasts: float64[count, count].

    >>> helmert(2).round(3).tolist()
    [[0.707, 0.707], [0.707, -0.707]]
    """
    basis: Floats = linalg.helmert(count, full=True)
    return basis


def least_squares(equations: Equations, sizes: Floats, share: float) -> Floats:
    """Return the counts' mean given what was told, were they normal beforehand: float64[g] (Proposition 2).

    That is least squares drawn towards what is known without it. A shift of all numbers by as much as noise is one more
    unknown: so noise that was drawn once hides nothing.

    Args:
        equations: What was told.
        sizes: float64[g], the rows that an unknown counts.
        share: Share of all rows that have the bit, above 0 and below 1, by which each has it beforehand.
    """
    before, variance = share * sizes, share * (1.0 - share) * sizes
    scaled = equations.matrix / equations.spread[:, None] * np.sqrt(variance)
    if equations.deviation.any():
        scaled = np.column_stack([scaled, equations.deviation / equations.spread])
    left = (equations.told - equations.matrix @ before) / equations.spread
    gram = scaled.T @ scaled
    gram[np.diag_indices_from(gram)] += 1.0
    found: Floats = before + np.sqrt(variance) * linalg.solve(gram, scaled.T @ left, assume_a="pos")[: len(sizes)]
    return found


def linear_program(equations: Equations, sizes: Floats, guess: Floats | None = None) -> Floats:
    """Return counts from 0 to `sizes` whose numbers are nearest to what was told: float64[g] (Proposition 3).

    Nearest is the least sum of distances, each beyond its slack.

    Args:
        equations: What was told.
        sizes: float64[g].
        guess: float64[g]; where the nearest whole counts fit all that was told, they are the answer.

    Raises:
        PlanError: HiGHS gave up.
    """
    if guess is not None:
        whole = np.clip(np.rint(guess), 0.0, sizes)
        if (np.abs(equations.matrix @ whole - equations.told) <= equations.slack + _FITS).all():
            return whole
    count, unknowns = equations.matrix.shape
    loose = np.flatnonzero(equations.slack)
    one = sparse.eye_array(count, format="csr")
    system: Any = sparse.hstack([sparse.csr_array(equations.matrix), one, -one, one[:, loose]], format="csr")
    slack = equations.slack[loose]
    lowest = np.concatenate([np.zeros(unknowns + 2 * count), -slack])
    highest = np.concatenate([sizes, np.full(2 * count, np.inf), slack])
    cost = np.concatenate([np.zeros(unknowns), np.ones(2 * count), np.zeros(len(loose))])
    bounds: Any = np.column_stack([lowest, highest])  # the stubs know neither arrays here nor sparse systems
    dense = np.count_nonzero(equations.matrix) > _DENSE * equations.matrix.size
    method: Literal["highs-ipm", "highs-ds"] = "highs-ipm" if dense else "highs-ds"  # whichever is quicker
    solved = optimize.linprog(cost, A_eq=system, b_eq=equations.told, bounds=bounds, method=method)
    if solved.x is None:
        raise PlanError(f"the linear program was not solved: {solved.message}")
    found: Floats = np.asarray(solved.x, dtype=np.float64)[:unknowns]
    return found


def predicted_share(equations: Equations) -> float:
    """Return the share of single bits that plain least squares gets right of independent normal noise.

    That is the mean of Phi(1/(2 s_i)), s_i^2 the i-th variance on the diagonal of (A^T W A)^-1; 1/2 where the equations
    leave a bit open.
    """
    scaled = equations.matrix / equations.spread[:, None]
    values, vectors = linalg.eigh(scaled.T @ scaled)
    kept = values > values.max() * len(values) * np.finfo(np.float64).eps
    open_ = (vectors[:, ~kept] ** 2).sum(axis=1) > np.sqrt(np.finfo(np.float64).eps)
    deviations = np.sqrt((vectors[:, kept] ** 2 / values[kept]).sum(axis=1))
    right = np.where(open_, 0.5, special.ndtr(0.5 / deviations))
    return float(right.mean())
