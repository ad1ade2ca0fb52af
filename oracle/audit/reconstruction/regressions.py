"""Regressions of a secret bit, each on one public column, whose coefficients are published.

Kasiviswanathan, Rudelson and Smith (2013), Section 4; docs/explanation/reconstruction.md, Proposition 6. At its minimum
the loss has derivative 0, which is a sum over all rows, and so linear in the bits.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

__all__ = ["LOSSES", "Loss", "Regressions"]

Floats = NDArray[np.float64]

_WIDEST: Final = 30.0
_HALVINGS: Final = 60
_BEND: Final = 0.5
"""Residual from where the robust loss grows like its absolute value."""


class Loss(NamedTuple):
    """The derivative of a row's loss by the coefficient, at column value x: `none` + s `change` for a secret bit s.

    Attributes:
        none: Where the bit is 0, by coefficient and x.
        change: What a 1 adds.
        fixed: Whether what a 1 adds is the same for all coefficients: then noise on the sum is noise on counts.
    """

    none: Callable[[Floats, Floats], Floats]
    change: Callable[[Floats, Floats], Floats]
    fixed: bool


def _bent(residual: Floats) -> Floats:
    return residual / np.sqrt(1.0 + (residual / _BEND) ** 2)


LOSSES: Final = {
    "linear": Loss(lambda theta, x: theta * x * x, lambda theta, x: -x + 0.0 * theta, fixed=True),
    "logistic": Loss(lambda theta, x: x * special.expit(theta * x), lambda theta, x: -x + 0.0 * theta, fixed=True),
    "robust": Loss(
        lambda theta, x: x * _bent(theta * x),
        lambda theta, x: -x * (_bent(1.0 - theta * x) + _bent(theta * x)),
        fixed=False,
    ),
}
"""Least squares, logistic regression, and an M-estimator: the loss sqrt(1 + 4 r^2)/4 of a residual r (pseudo-Huber)."""


class Regressions(NamedTuple):
    """Coefficients of the secret bit on each of some columns, without intercept.

    Attributes:
        columns: float64[d, g], public: each column at every kind of row.
        sizes: float64[g], rows that look alike.
        loss: What was minimised.
    """

    columns: Floats
    sizes: Floats
    loss: Loss

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Coefficients are no tables."""
        return ()

    @property
    def matrix(self) -> Floats:
        """What a bit changes of the sums that noise is added to: float64[d, g]."""
        return self.columns

    def release(self, counts: Floats, noise: Floats) -> Floats:
        """Return the coefficients, with noise on the sums that they solve: float64[d]."""
        low, high = np.full(len(self.columns), -_WIDEST), np.full(len(self.columns), _WIDEST)
        for _ in range(_HALVINGS):  # the derivative grows with the coefficient, as the loss is convex
            middle = (low + high) / 2.0
            matrix, told = self.equations(middle)
            above = told - matrix @ counts - noise < 0.0
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        found: Floats = (low + high) / 2.0
        return found

    def equations(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Return what a bit changes of each derivative, and what that comes to at these coefficients."""
        theta = numbers[:, None]
        return -self.loss.change(theta, self.columns), self.loss.none(theta, self.columns) @ self.sizes
