"""What Turbo's answers cost a row: Renyi privacy (Mironov, 2017) of Laplace counts and of sparse vectors, summed."""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

_ORDERS: Final = 1.0 + np.geomspace(0.05, 1e6, 1000)
"""Of the divergence. Turbo has 21 of them, up to 10,000; more cost it nothing."""


@dataclass(frozen=True)
class Spent:
    """What was paid for, so far.

    Attributes:
        check: Epsilon of a sparse vector's noise, and of the count behind a question that fails it.
        count: Epsilon of the count of a question that bypasses the histogram.
        resets: Sparse vectors begun, 3 `check` each.
        failed: Counts behind failed questions.
        bypassed: Counts of others.
    """

    check: float
    count: float
    resets: int = 0
    failed: int = 0
    bypassed: int = 0

    @property
    def paid(self) -> int:
        """Counts that were paid for."""
        return self.failed + self.bypassed

    def counted(self, *, failed: bool) -> "Spent":
        """Return this and one count more."""
        return replace(self, failed=self.failed + failed, bypassed=self.bypassed + (not failed))

    def epsilon(self, delta: float, noise: float = 1.0) -> float:
        """Return what all of it costs (nats), had the noise been so many times as large, of as many rows more.

        The conversion is that of Canonne, Kamath and Steinke (2020), Proposition 12, as in Turbo's accountant. That the
        least over the orders holds for costs that depend on answers is Lecuyer (2021).
        """
        sums = self.resets * pure(3.0 * self.check / noise, _ORDERS)
        sums = sums + self.failed * laplace(self.check / noise, _ORDERS)
        sums = sums + self.bypassed * laplace(self.count / noise, _ORDERS)
        ends = np.log1p(-1.0 / _ORDERS) - (math.log(delta) + np.log(_ORDERS)) / (_ORDERS - 1.0)
        return max(0.0, float((sums + ends).min())) if self.resets + self.paid else 0.0

    def noise_for(self, epsilon: float, delta: float) -> float:
        """Return how many times as large the noise has to be for this epsilon: so many times the rows, at one error."""

        def above(power: float) -> float:
            return self.epsilon(delta, math.exp(power)) - epsilon

        return math.exp(float(brentq(above, -20.0, 20.0)))


def laplace(epsilon: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the divergences of a count with Laplace noise of scale 1/epsilon (Mironov, 2017, Proposition 6)."""
    shares = np.log(orders / (2.0 * orders - 1.0)), np.log((orders - 1.0) / (2.0 * orders - 1.0))
    return np.logaddexp(shares[0] + (orders - 1.0) * epsilon, shares[1] - orders * epsilon) / (orders - 1.0)


def pure(epsilon: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest that epsilon allows (Bun and Steinke, 2016): ln(cosh((a - 1/2) e)/cosh(e/2))/(a - 1)."""

    def ln_cosh(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(values + np.log1p(np.exp(-2.0 * values)) - math.log(2.0))

    return (ln_cosh((orders - 0.5) * epsilon) - ln_cosh(np.full_like(orders, 0.5 * epsilon))) / (orders - 1.0)
