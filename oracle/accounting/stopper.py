"""PRIVACY.md, Theorem 7: the chance that a Stopper lets more mediums pass than its cap, and that it halts too early."""

import math
from functools import lru_cache

import numpy as np
import scipy  # which loads its parts when they are asked for
from numpy.typing import NDArray

from oracle.errors import InputError

__all__ = ["cap_slack", "early_slack", "log_overflow"]

_SAFE = 5e-9
"""Slack on the logarithm, above the rounding of the sums."""

_TAIL = 120.0
"""Nats of rho's law kept explicitly; the mass beyond is added plainly."""


def _log_mass(epsilon: float, values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return log P(DLap = z) = log tanh(e/2) - e |z|."""
    return math.log(math.tanh(epsilon / 2.0)) - epsilon * np.abs(values)


def _log_below(epsilon: float, values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return log P(DLap < z)."""
    shift = math.log1p(math.exp(-epsilon))
    upper = np.log1p(-np.exp(-epsilon * np.maximum(values, 1) - shift))
    lower = -epsilon * np.maximum(1 - values, 1) - shift  # P(nu < z) = P(nu >= 1 - z)
    return np.where(values >= 1, upper, lower)


@lru_cache(maxsize=4096)
def log_overflow(epsilon: float, threshold: int, cap: int) -> float:
    """Return the log of a bound on P(the Stopper has not halted although it counted `cap` mediums and was asked).

    E over rho of prod_{j=0}^{cap-1} P(nu < rho - s + j), s = cap - threshold: every count from 1 to the cap was asked
    about at least once. Leaving factors out can only raise it, so the product stops where they reach 1.

    Args:
        epsilon: eps_S (nats), above 0.
        threshold: k, at least 1.
        cap: K, at least k.
    """
    if not 1 <= threshold <= cap:
        raise InputError("stopper cap", cap, f"must be at least the threshold ({threshold})")
    slack = cap - threshold
    reach = math.ceil(_TAIL / epsilon)
    factors = min(cap, slack + 2 * reach)
    rho = np.arange(-reach, reach + 1, dtype=np.int64)
    first, last = int(rho[0]) - slack, int(rho[-1]) - slack + factors - 1
    factor = _log_below(epsilon, np.arange(first, last + 1, dtype=np.int64))
    above = np.concatenate((np.cumsum(factor[::-1])[::-1], [0.0]))  # from the small end: differences stay exact
    start = rho - slack - first
    terms = _log_mass(epsilon, rho) + above[start] - above[start + factors]
    beyond = -epsilon * (reach + 1)  # P(rho > reach) <= exp(-e (reach + 1)); there the product is at most 1
    return min(float(np.logaddexp(scipy.special.logsumexp(terms), beyond)) + _SAFE, 0.0)


def cap_slack(epsilon: float, log_delta_cap: float, threshold: int) -> int:
    """Return the least s with P(overflow of K = threshold + s) <= exp(log_delta_cap).

    The logarithm falls by about epsilon with each unit of s, which says where to look next.
    """
    low, high, slack = 0, 0, max(math.ceil(-log_delta_cap / epsilon), 1)
    while high - low != 1:
        left = (log_overflow(epsilon, threshold, threshold + slack) - log_delta_cap) / epsilon
        if left > 0.0:
            low, slack = slack, slack + math.ceil(left)
        else:
            high, slack = slack, slack - max(math.floor(-left), 1)
        if high and not low < slack < high:
            slack = (low + high) // 2
    return high


def early_slack(epsilon: float, rounds: float, probability: float) -> int:
    """Return an s' such that no Stopper of the phase halts more than s' below its threshold (utility only).

    Union bound over the rounds: rounds * P(nu - rho > s') <= probability, with the tail of the difference of two
    DLap(e) at m >= 0 bounded by (1 + e m) exp(-e m).
    """
    target = math.log(rounds / probability)
    nats = target
    for _ in range(60):
        nats = target + math.log1p(nats)
    return max(math.ceil(nats / epsilon), 1)
