"""Known noise laws with a density, as a learner of noisy bits has to know them, and what a bit under each costs.

Of a draw E only one comparison is ever made, so a law is asked for tail probabilities, not for draws.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import scipy.special
from numpy.typing import NDArray

from oracle.errors import InputError

__all__ = ["CLIP", "CostUnit", "NoiseLaw", "frozen_law", "named_law"]

CostUnit = Literal["zcdp", "total-variation", "none"]
"""What a bit's cost is counted in: rho of zero-concentrated differential privacy (Bun and Steinke, 2016), or the total
variation between its laws in the two worlds. "none": no claim is made."""

CLIP: Final = {"laplace": 40.0, "gaussian": 8.0}
"""Thresholds further from the exact answer, in units of the noise's scale, are moved to here, so that the smaller of
two probabilities is never so small that rounding matters. A threshold so moved is at most as far from the one of
another world as before, and both are functions of what the noise hides, so no bit costs more."""

_Floats = NDArray[np.float64]


class _Row(NamedTuple):
    """A symmetric law, as functions of thresholds (or shifts) and of its scale.

    Attributes:
        density: At 0.
        above: P(E > threshold).
        tail: P(E > |threshold|), of many thresholds.
        unit: What a bit's cost is counted in.
        cost: Of the bit [E > t] whose t a change moves by at most so many scales.
    """

    density: Callable[[float], float]
    above: Callable[[float, float], float]
    tail: Callable[[_Floats, float], _Floats]
    unit: CostUnit
    cost: Callable[[_Floats], _Floats]


def _laplace_above(threshold: float, scale: float) -> float:
    tail = 0.5 * math.exp(-abs(threshold) / scale)
    return tail if threshold >= 0.0 else 1.0 - tail


_ROWS: Final[Mapping[str, _Row]] = {
    # P(E > t) = exp(-t/b) / 2 for t >= 0. Both probabilities of a bit change by a factor of at most exp(shift / b), so
    # it is (shift/b, 0)-DP and (shift/b)^2 / 2 of zCDP (Bun and Steinke, 2016, Proposition 1.4).
    "laplace": _Row(
        density=lambda scale: 0.5 / scale,
        above=_laplace_above,
        tail=lambda distances, scale: 0.5 * np.exp(-np.minimum(distances / scale, CLIP["laplace"])),
        unit="zcdp",
        cost=lambda shifts: 0.5 * np.square(shifts),
    ),
    # Normal, of standard deviation s. A bit is a function of the Gaussian mechanism's output: shift^2 / (2 s^2) of zCDP
    # (Bun and Steinke, 2016, Proposition 1.6 and Lemma 1.8).
    "gaussian": _Row(
        density=lambda scale: 1.0 / (scale * math.sqrt(2.0 * math.pi)),
        above=lambda threshold, scale: 0.5 * math.erfc(threshold / (scale * math.sqrt(2.0))),
        tail=lambda distances, scale: scipy.special.ndtr(-np.minimum(distances / scale, CLIP["gaussian"])),
        unit="zcdp",
        cost=lambda shifts: 0.5 * np.square(shifts),
    ),
    # On [-u, u]. The total variation between a bit's laws in two worlds is at most shift / 2u. There is no finite
    # epsilon with delta = 0: a bit that only one of the worlds can give has a positive probability.
    "uniform": _Row(
        density=lambda scale: 0.5 / scale,
        above=lambda threshold, scale: min(max(0.5 - 0.5 * threshold / scale, 0.0), 1.0),
        tail=lambda distances, scale: np.maximum(0.5 - 0.5 * distances / scale, 0.0),
        unit="total-variation",
        cost=lambda shifts: np.minimum(0.5 * shifts, 1.0),
    ),
}


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """The law of E; made by `named_law` or `frozen_law`.

    Attributes:
        density: Density at 0, above 0.
        above: Of a threshold t, P(E > t).
        smaller_side: Of float64[n] thresholds, the smaller of P(E > t) and P(E <= t), and where it is the former.
        cost_unit: What `bit_cost` is counted in.
        bit_cost: Of float64[n] shifts, what each bit [E > t] costs whom a change moves t by so much at most; infinite
            if that is not known.
    """

    density: float
    above: Callable[[float], float]
    smaller_side: Callable[[_Floats], tuple[_Floats, NDArray[np.bool_]]]
    cost_unit: CostUnit
    bit_cost: Callable[[_Floats], _Floats]


def named_law(name: Literal["laplace", "gaussian", "uniform"], scale: float) -> NoiseLaw:
    """Return the law that a plan names; `scale` is b, the standard deviation, or u.

    Raises:
        InputError: The scale is not above 0 and finite.
    """
    if not (scale > 0.0 and math.isfinite(scale)):
        raise InputError("noise scale", scale, "must be above 0 and finite")
    row = _ROWS[name]
    return NoiseLaw(
        density=row.density(scale),
        above=lambda threshold: row.above(threshold, scale),
        smaller_side=lambda thresholds: (row.tail(np.abs(thresholds), scale), thresholds >= 0.0),
        cost_unit=row.unit,
        bit_cost=lambda shifts: row.cost(shifts / scale),
    )


def frozen_law(frozen: Any) -> NoiseLaw:  # noqa: ANN401 -- scipy has no type for it
    """Return any continuous law that scipy knows, frozen, with a density at 0. No privacy is claimed for its bits.

    Raises:
        InputError: The density at 0 is not above 0 and finite.
    """
    density = float(frozen.pdf(0.0))
    if not (density > 0.0 and math.isfinite(density)):
        raise InputError("noise density at 0", density, "must be above 0 and finite")

    def smaller_side(thresholds: _Floats) -> tuple[_Floats, NDArray[np.bool_]]:
        above, below = frozen.sf(thresholds), frozen.cdf(thresholds)
        return np.minimum(above, below), above <= below

    return NoiseLaw(
        density=density,
        above=lambda threshold: float(frozen.sf(threshold)),
        smaller_side=smaller_side,
        cost_unit="none",
        bit_cost=lambda shifts: np.where(shifts > 0.0, math.inf, 0.0),
    )
