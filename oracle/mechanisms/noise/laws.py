"""Known noise laws with a density, as a learner of noisy bits has to know them, and what a bit under each costs.

Of a draw E only one comparison is ever made, so a law is asked for tail probabilities, not for draws.
"""

import math
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import numpy as np
import scipy.special
from numpy.typing import NDArray

from oracle.errors import InputError

__all__ = ["CLIP", "CostUnit", "FrozenLaw", "Gaussian", "Laplace", "NoiseLaw", "Uniform", "named_law"]

CostUnit = Literal["zcdp", "total-variation", "none"]
"""What a bit's cost is counted in: rho of zero-concentrated differential privacy (Bun and Steinke, 2016), or the total
variation between its laws in the two worlds. "none": no claim is made."""

CLIP: Final = {"laplace": 40.0, "gaussian": 8.0}
"""Thresholds further from the exact answer, in units of the noise's scale, are moved to here, so that the smaller of
two probabilities is never so small that rounding matters. A threshold so moved is at most as far from the one of
another world as before, and both are functions of what the noise hides, so no bit costs more."""

_Probabilities = tuple[NDArray[np.float64], NDArray[np.bool_]]


class NoiseLaw(Protocol):
    """The law of E."""

    @property
    def density(self) -> float:
        """Density at 0, above 0."""
        ...

    @property
    def cost_unit(self) -> CostUnit:
        """What `bit_cost` is counted in."""
        ...

    def above(self, threshold: float) -> float:
        """Return P(E > threshold)."""
        ...

    def smaller_side(self, thresholds: NDArray[np.float64]) -> _Probabilities:
        """Return the smaller of P(E > t) and P(E <= t), and where it is the former."""
        ...

    def bit_cost(self, shifts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what the bit [E > t] costs whom a change moves t by at most `shifts`; infinite if unknown."""
        ...


def _refuse_scale(scale: float) -> None:
    if not (scale > 0.0 and math.isfinite(scale)):
        raise InputError("noise scale", scale, "must be above 0 and finite")


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace's law: P(E > t) = exp(-t/b) / 2 for t >= 0.

    Formal guarantees:
        * Both probabilities of a bit change by a factor of at most exp(shift / b), so it is (shift/b, 0)-differentially
          private and (shift/b)^2 / 2 of zCDP (Bun and Steinke, 2016, Proposition 1.4).

    Args:
        scale: b.
    """

    scale: float

    def __post_init__(self) -> None:
        """Check the scale."""
        _refuse_scale(self.scale)

    @property
    def density(self) -> float:
        """1 / 2b."""
        return 0.5 / self.scale

    @property
    def cost_unit(self) -> CostUnit:
        """Of zCDP."""
        return "zcdp"

    def above(self, threshold: float) -> float:
        """Return P(E > threshold)."""
        tail = 0.5 * math.exp(-abs(threshold) / self.scale)
        return tail if threshold >= 0.0 else 1.0 - tail

    def smaller_side(self, thresholds: NDArray[np.float64]) -> _Probabilities:
        """Return the smaller of both probabilities, and where it is that of E > t."""
        distance = np.minimum(np.abs(thresholds) / self.scale, CLIP["laplace"])
        return 0.5 * np.exp(-distance), thresholds >= 0.0

    def bit_cost(self, shifts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rho = (shift/b)^2 / 2."""
        return 0.5 * np.square(shifts / self.scale)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """The normal law with mean 0.

    Formal guarantees:
        * A bit is a function of the Gaussian mechanism's output: shift^2 / (2 s^2) of zCDP (Bun and Steinke, 2016,
          Proposition 1.6 and Lemma 1.8).

    Args:
        scale: s, the standard deviation.
    """

    scale: float

    def __post_init__(self) -> None:
        """Check the scale."""
        _refuse_scale(self.scale)

    @property
    def density(self) -> float:
        """1 / (s sqrt(2 pi))."""
        return 1.0 / (self.scale * math.sqrt(2.0 * math.pi))

    @property
    def cost_unit(self) -> CostUnit:
        """Of zCDP."""
        return "zcdp"

    def above(self, threshold: float) -> float:
        """Return P(E > threshold)."""
        return 0.5 * math.erfc(threshold / (self.scale * math.sqrt(2.0)))

    def smaller_side(self, thresholds: NDArray[np.float64]) -> _Probabilities:
        """Return the smaller of both probabilities, and where it is that of E > t."""
        distance = np.minimum(np.abs(thresholds) / self.scale, CLIP["gaussian"])
        return scipy.special.ndtr(-distance), thresholds >= 0.0

    def bit_cost(self, shifts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rho = shift^2 / (2 s^2)."""
        return 0.5 * np.square(shifts / self.scale)


@dataclass(frozen=True, slots=True)
class Uniform:
    """The uniform law on [-u, u].

    Formal guarantees:
        * The total variation between a bit's laws in two worlds is at most shift / 2u. There is no finite epsilon with
          delta = 0: a bit that only one of the worlds can give has a positive probability.

    Args:
        scale: u.
    """

    scale: float

    def __post_init__(self) -> None:
        """Check the scale."""
        _refuse_scale(self.scale)

    @property
    def density(self) -> float:
        """1 / 2u."""
        return 0.5 / self.scale

    @property
    def cost_unit(self) -> CostUnit:
        """Total variation."""
        return "total-variation"

    def above(self, threshold: float) -> float:
        """Return P(E > threshold)."""
        return min(max(0.5 - 0.5 * threshold / self.scale, 0.0), 1.0)

    def smaller_side(self, thresholds: NDArray[np.float64]) -> _Probabilities:
        """Return the smaller of both probabilities, and where it is that of E > t."""
        return np.maximum(0.5 - 0.5 * np.abs(thresholds) / self.scale, 0.0), thresholds >= 0.0

    def bit_cost(self, shifts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return shift / 2u, at most 1."""
        return np.minimum(0.5 * shifts / self.scale, 1.0)


@dataclass(frozen=True, slots=True)
class FrozenLaw:
    """Any continuous law that scipy knows. No privacy is claimed for its bits.

    Args:
        frozen: A frozen continuous distribution of `scipy.stats`, with a positive density at 0.
    """

    frozen: Any

    def __post_init__(self) -> None:
        """Check the density."""
        if not (self.density > 0.0 and math.isfinite(self.density)):
            raise InputError("noise density at 0", self.density, "must be above 0 and finite")

    @property
    def density(self) -> float:
        """The density at 0."""
        return float(self.frozen.pdf(0.0))

    @property
    def cost_unit(self) -> CostUnit:
        """None."""
        return "none"

    def above(self, threshold: float) -> float:
        """Return P(E > threshold)."""
        return float(self.frozen.sf(threshold))

    def smaller_side(self, thresholds: NDArray[np.float64]) -> _Probabilities:
        """Return the smaller of both probabilities, and where it is that of E > t."""
        above, below = self.frozen.sf(thresholds), self.frozen.cdf(thresholds)
        return np.minimum(above, below), above <= below

    def bit_cost(self, shifts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return infinity, or 0 where nothing moves."""
        return np.where(shifts > 0.0, math.inf, 0.0)


def named_law(name: Literal["laplace", "gaussian", "uniform"], scale: float) -> NoiseLaw:
    """Return the law that a plan names."""
    laws: dict[str, type[Laplace | Gaussian | Uniform]] = {"laplace": Laplace, "gaussian": Gaussian, "uniform": Uniform}
    return laws[name](scale)
