"""A sharper price of questions "between", and of "above" with many paid answers.

Source: PRIVACY.md, Theorem 26. An adversary's potential is that of a race to its K-th paid arrival, measured by
(lambda - s)_+^2 in place of a power of the ratio lambda. Results are logarithms of delta, rounded up (towards privacy).
"""

import math
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import scipy  # which loads its parts when they are asked for
from numpy.typing import NDArray

from oracle.accounting.between_thresholds import best_order, logistic_log_delta

__all__ = ["between_log_delta", "race_log_delta"]

_Column = NDArray[np.float64]

_ROUNDING: Final = 1e-11
"""Bound on the relative rounding of scipy's incomplete gamma functions: they are right to about 1e-13."""

_SAFE: Final = 1e-6
"""Slack on log delta, above the rounding of logarithms of factorials."""

_LEAST_ORDER: Final = 1.05
"""Least theta that s is taken from."""

_CHUNKS: Final = 8
"""Numbers of arrivals are counted in so many chunks for each standard deviation, each as if all were its largest."""

_SPREAD: Final = 11.0
"""Standard deviations of the number of arrivals that are looked at; the rest is bounded."""


_MOST_FREE: Final = 0.98
"""Nothing is claimed where more of the arrivals are free, as weighted by the moment: too many would be looked at."""

_MOST_COUNTS: Final = 5_000_000
"""Nothing is claimed where more numbers of arrivals would have to be looked at."""

_HUGE: Final = 700.0
"""Nats of a bound that is of no use; exp of it is a float."""


class _Arrivals(NamedTuple):
    """How many arrivals come up to the K-th paid one, K + f, in chunks.

    Attributes:
        most: float64[n], the largest number of each chunk.
        weights: float64[n], its probability, rounded up.
        rest: Bound on the sum of the probabilities beyond, each times exp(kappa(theta)) to the number of arrivals.
    """

    most: _Column
    weights: _Column
    rest: float


def between_log_delta(scale: float, gap: int, paid: int, epsilon: float, *, rho: float = 0.0) -> float:
    """Return log delta at `epsilon` by Theorem 5 or Theorem 26, whichever is less, where noise comes from tables.

    Args:
        scale: e (nats), above 0.
        gap: g.
        paid: K, at least 1; Theorem 26 is taken with K + 1, for the tables.
        epsilon: eps (nats), above 0.
        rho: Of what was released before.
    """
    moment = logistic_log_delta(scale, gap, paid, epsilon, rho=rho)
    return min(moment, race_log_delta(scale, gap, paid + 1, epsilon, rho=rho))


@lru_cache(maxsize=4096)
def race_log_delta(scale: float, gap: int, paid: int, epsilon: float, *, rho: float = 0.0) -> float:
    """Return log delta of Theorem 26 at `epsilon`, for ideal noise, values released.

    delta = E_Q (lambda - s)_+^2 / (4 (exp(eps) - s)), lambda = exp(m T - N e), where N arrivals come until the K-th
    paid one, at the time T. Any s below exp(eps) gives a bound, so the choice of s needs no care.

    Args:
        scale: e (nats), above 0.
        gap: g; `NO_UPPER` for questions "above".
        paid: K, at least 1.
        epsilon: eps (nats), above 0.
        rho: Of what was released before.

    Returns:
        log delta, at most 0, rounded up; 0 where the theorem gives nothing.
    """
    if scale > 1.0 or epsilon > _HUGE / 2.0:  # s^2 would be no float
        return 0.0
    growth, free = math.expm1(scale), math.exp(-scale * (gap + 1))
    if growth * growth + free >= 1.0 - _SAFE:
        return 0.0
    order = max(best_order(scale, gap, paid, epsilon, rho), _LEAST_ORDER)
    if order * growth >= 1.0 or free * math.exp(_price(order, scale)) >= _MOST_FREE:
        return 0.0
    arrivals = _arrivals(paid, free, _price(order, scale))
    log_s = epsilon + math.log1p(-1.0 / order)
    potential = _potential(paid + arrivals.most, scale, log_s, rho)
    # exp(eps) - s = exp(eps)/theta; beyond, (lambda - s)_+^2 / lambda is at most so much times lambda^theta
    beyond = 2.0 * math.log(2.0) + (order - 1.0) * math.log(order - 1.0) - (order + 1.0) * math.log(order + 1.0)
    beyond += (1.0 - order) * log_s + order * (1.0 + order) * rho
    if beyond > _HUGE:
        return 0.0
    with np.errstate(invalid="ignore"):  # no bound times no weight: nothing is claimed
        total = math.fsum(arrivals.weights * potential) + arrivals.rest * math.exp(beyond)
    if not total > 0.0:
        return 0.0
    return min(math.log(total) + math.log(order / 4.0) - epsilon + _SAFE, 0.0)


def _price(order: float, scale: float) -> float:
    """Return Theorem 17's kappa."""
    return -order * scale - math.log1p(-order * math.expm1(scale))


def _arrivals(paid: int, free: float, price: float) -> _Arrivals:
    """Return the law of f, the free ones among K + f arrivals, each free with probability `free`."""
    if not free:
        return _Arrivals(np.zeros(1), np.ones(1), 0.0)
    tilted = free * math.exp(price)
    (low, _), (centre, width) = ((paid * part / (1.0 - part), _width(paid, part)) for part in (free, tilted))
    first = max(0, math.floor(low - _SPREAD * _width(paid, free)))
    step = max(1, math.floor(width / _CHUNKS))
    count = math.ceil((centre + _SPREAD * width + 40.0 - first) / step) + 1
    if count * step > _MOST_COUNTS:
        return _Arrivals(np.zeros(1), np.ones(1), math.inf)
    log_law = _log_law(np.arange(first, first + count * step + 1), paid, free)
    weights = np.exp(log_law[:-1]).reshape(count, step).sum(axis=1) * (1.0 + _SAFE)
    weights[0] = max(float(weights[0]), 1.0 - float(weights[1:].sum())) + _ROUNDING  # and all that are fewer
    last = first + count * step
    ratio = tilted * (paid + last) / (last + 1.0)
    log_rest = float(log_law[-1]) + (paid + last) * price + _SAFE
    rest = math.exp(log_rest) / (1.0 - ratio) if ratio < 1.0 and log_rest < _HUGE else math.inf
    return _Arrivals(first + np.arange(1.0, count + 1.0) * step - 1.0, weights, rest)


def _width(paid: int, free: float) -> float:
    return math.sqrt(paid * free) / (1.0 - free)


def _log_law(count: NDArray[np.int64], paid: int, free: float) -> _Column:
    """Return log P(f), negative binomial."""
    many = scipy.special.gammaln(count + float(paid)) - scipy.special.gammaln(count + 1.0) - math.lgamma(paid)
    law: _Column = many + paid * math.log1p(-free) + count * math.log(free)
    return law


def _potential(arrivals: _Column, scale: float, log_s: float, rho: float) -> _Column:
    """Return a bound on E_Q (lambda - s)_+^2 after so many arrivals, and after what was released before.

    lambda exceeds s where T exceeds a time; T is a gamma variable of rate 1 in P, of rate exp(e) in Q, and of rate
    1 - m where a probability of P is weighted by lambda.
    """
    growth, s = math.expm1(scale), math.exp(log_s)
    time = np.maximum((log_s + arrivals * scale) / growth, 0.0)
    tail = scipy.special.gammaincc
    square = np.exp(np.minimum(arrivals * _price(1.0, scale), _HUGE)) * tail(arrivals, (1.0 - growth) * time)
    linear, constant = s * tail(arrivals, time), s * s * tail(arrivals, (1.0 + growth) * time)
    slack = _ROUNDING * (square + 2.0 * linear + constant)
    value = np.maximum(square - 2.0 * linear + constant, 0.0) + slack
    if not rho:
        return np.asarray(value)
    least = value - 2.0 * slack  # its slope is the steeper, the less it is; where it may be 0 nothing is claimed
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope = (square - constant + slack) / np.maximum(least, 0.0)
        found = value * np.exp(slope * (1.0 + slope) * rho)
    return np.fmin.accumulate(found[::-1])[::-1]  # it grows with the number of arrivals
