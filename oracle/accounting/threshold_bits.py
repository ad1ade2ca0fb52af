"""What bits about thresholds cost: zero-concentrated differential privacy, and the rounding of doubles."""

import math
from typing import Final

from oracle.accounting.events import ThresholdBitsEvent

__all__ = ["bits_log_delta", "bits_rho"]

_BASE: Final = {"laplace": 2.0**-44, "gaussian": 2.0**-40}
"""Bound on the relative error of the smaller probability in float64, the threshold's distance being exact: the distance
itself is rounded thrice, at most 40 (8) scales long, and exp (the normal law's tail, which falls 9 times faster than
its argument grows at most) adds its own error. A test compares with mpmath."""

_STEEPNESS: Final = {"laplace": 1.0, "gaussian": 9.0}
"""How much faster than its argument, in scales, the logarithm of the smaller probability moves at most."""


def bits_rho(event: ThresholdBitsEvent) -> float:
    """Return the rho of zCDP of ideal bits.

    A bit is (shift/b)^2/2 of zCDP: Proposition 1.4 of Bun and Steinke (2016) for Laplace's law, Proposition 1.6 for the
    normal one; Lemma 1.7 adds up over bits, each chosen by the ones before.
    """
    return 0.5 * event.bits * (event.shift / event.scale) ** 2


def _rounding(event: ThresholdBitsEvent) -> float:
    """Bound on |ln P~(b) - ln P(b)| of one bit: P~ is computed from a dot product of D doubles, by in-order sums."""
    return (event.dimension + 4) * 2.0**-52 / event.scale * _STEEPNESS[event.law] + _BASE[event.law]


def bits_log_delta(event: ThresholdBitsEvent, epsilon: float) -> float:
    """Return ln(delta) at `epsilon`, -inf where delta is 0.

    rho-zCDP is (rho + 2 sqrt(rho ln(1/delta)), delta)-DP (Bun and Steinke, 2016, Proposition 1.3). Laplace's bits are
    also pure: epsilons add up. With s = bits * rounding,

        P~(S) <= e^s P(S) <= e^s (e^x Q(S) + delta) <= e^(x + 2s) Q~(S) + e^s delta.

    The conversion is valid and far from tight: exact composition has a delta 155 times less at epsilon 4, 550 times at
    1 and 1,800 times at 0.3 (PRIVACY.md, Theorem 12). Plans have about 13 to 22 % more noise than they need for it.
    """
    if event.bits == 0:
        return -math.inf
    rho, slack = bits_rho(event), event.bits * _rounding(event)
    left = math.nextafter(epsilon - 2.0 * slack, -math.inf)
    if event.law == "laplace" and left >= event.bits * event.shift / event.scale * (1.0 + 2.0**-50):
        return -math.inf
    if rho == 0.0 and left >= 0.0:
        return -math.inf
    if left <= rho:
        return 0.0
    return min(slack - (left - rho) ** 2 / (4.0 * rho) * (1.0 - 2.0**-49), 0.0)
