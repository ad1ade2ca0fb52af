"""Theorem 4 and Theorem 5: what a BetweenThresholds instance costs until its K-th medium.

Source: PRIVACY.md, Theorem 4 and Theorem 5. Results are logarithms of delta, rounded up (towards privacy).
"""

import math
from functools import lru_cache
from typing import Final

import numpy as np
import scipy  # which loads its parts when they are asked for
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.mechanisms.noise.tables import EDGE_DISTANCE, Law

__all__ = [
    "SIDES_REACH",
    "TABLE_GAP",
    "TABLE_REACH",
    "best_order",
    "kappa",
    "laplace_log_delta",
    "log_answer_law",
    "logistic_fits",
    "logistic_log_delta",
    "randomized_response_log_delta",
    "table_slack",
]

_SAFE: Final = 1e-9
"""Relative slack on kappa and absolute slack on log delta, above the rounding of the sums."""

TABLE_REACH: Final = 65.0
"""Largest e (M + 1), in nats, for `table_slack`: there every answer at depths 0 to M has probability at least
exp(-e (M + 1)) / 8 (for g e >= 0.3), so 2 * 2^-128 is at most a 2^-30th of it."""

TABLE_GAP: Final = 0.3
"""Least g e, in nats, for `table_slack`."""

SIDES_REACH: Final = 63.0
"""Largest e (M + g + 3), in nats, for `table_slack` where a medium's side of the middle is told (Lemma 27)."""

_GOLDEN: Final = (math.sqrt(5.0) - 1.0) / 2.0

_CLEAR: Final = 1e-6
"""Nats of log delta beyond which the rounding of two searches for the best theta cannot matter."""

_NEWTON: Final = 12
"""Steps after which Newton's method is given up; it takes 3 to 6."""


def _supremum(theta: float, scale: float, gap: int) -> float:
    """Theorem 5's closed form, not yet rounded up; +inf where it has no value."""
    growth = theta * math.expm1(scale)
    if growth >= 1.0:
        return math.inf
    beyond = math.exp(-scale * (gap + 1))
    inner = math.exp(theta * scale) * (1.0 - growth) - beyond
    if inner <= 0.0:
        return math.inf
    # ln(1 - c) - ln(exp(theta e)(1 - theta(exp(e)-1)) - c), as one log1p of the small difference
    shrink = -(math.expm1(theta * scale) - growth * math.exp(theta * scale))
    return -math.log1p(-shrink / (1.0 - beyond))


@lru_cache(maxsize=4096)
def kappa(theta: float, scale: float, gap: int) -> float:
    """Return the price of one medium: the supremum over depths and both orders of -ln((1 - r_L - r_H)/r_M).

    r_o = P(o)^(1+theta) Q(o)^(-theta), P and Q the answer laws (logistic noise) at neighbouring depths. The supremum
    has a closed form (PRIVACY.md, Theorem 5), which is rounded up.

    Args:
        theta: Order of the moment, above 0.
        scale: e (nats).
        gap: g = t_h - t_l, at least 0.

    Returns:
        kappa(theta), or +inf where no finite bound holds.
    """
    if theta <= 0.0:
        raise InputError("theta", theta, "must be above 0")
    return _supremum(theta, scale, gap) * (1.0 + _SAFE) + 1e-14


def logistic_log_delta(scale: float, gap: int, mediums: int, epsilon: float, *, rho: float = 0.0) -> float:
    """Return log delta of Theorem 5 at `epsilon`, for logistic noise and at most `mediums` mediums.

    delta = min over theta of exp(K kappa(theta) + theta (1 + theta) rho - theta eps) (theta/(1+theta))^(1+theta)/theta.
    Every theta gives a valid bound, so the search for the best one need not be exact.

    The term with rho is for what was released before and armed the instance: if its privacy loss L_0 has
    ln E exp(theta L_0) <= theta (1 + theta) rho, then, given whatever it released, exp(theta L - kappa * mediums)
    starts at exp(theta L_0) and is a supermartingale, so E exp(theta L - K kappa) <= exp(theta (1 + theta) rho).

    Args:
        scale: e (nats), above 0.
        gap: g.
        mediums: K, at least 1.
        epsilon: eps (nats), above 0.
        rho: Of what was released before (zero-concentrated differential privacy, Bun and Steinke, 2016).

    Returns:
        log delta, at most 0, rounded up; 0 where the theorem gives nothing.
    """
    theta = best_order(scale, gap, mediums, epsilon, rho)
    price = kappa(theta, scale, gap)
    if not math.isfinite(price):
        return 0.0
    return min(_log_delta(theta, price, mediums, epsilon, rho) + _SAFE, 0.0)


def best_order(scale: float, gap: int, mediums: int, epsilon: float, rho: float = 0.0) -> float:
    """Return about the best theta of `logistic_log_delta`, by golden section."""
    low, high = (math.log(theta) for theta in _theta_range(scale, mediums, epsilon, rho))

    def objective(log_theta: float) -> float:
        theta = math.exp(log_theta)
        price = _supremum(theta, scale, gap)
        return _log_delta(theta, price, mediums, epsilon, rho) if math.isfinite(price) else math.inf

    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = objective(left), objective(right)
    while high - low > 1e-5:  # noqa: PLR2004 -- nats of log theta: flat to 1e-10 in log delta
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = objective(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = objective(right)
    return math.exp((low + high) / 2.0)


def logistic_fits(  # noqa: PLR0913, PLR0917 -- the numbers of one theorem
    scale: float, gap: int, mediums: int, epsilon: float, log_delta: float, rho: float = 0.0
) -> bool:
    """Return whether `logistic_log_delta` is at most `log_delta`; mostly much quicker.

    For a planner's search only, never for a guarantee. Newton's method finds the best theta in a few steps; where
    the comparison is close, or where it does not converge, the other search decides.
    """
    theta = _best_theta(scale, gap, mediums, epsilon, rho)
    if theta is not None:
        value = _log_delta(theta, _supremum(theta, scale, gap), mediums, epsilon, rho)
        if abs(value - log_delta) > _CLEAR:
            return min(value, 0.0) <= log_delta
    return logistic_log_delta(scale, gap, mediums, epsilon, rho=rho) <= log_delta


def _log_delta(theta: float, price: float, mediums: int, epsilon: float, rho: float) -> float:
    spent = mediums * price + theta * (1.0 + theta) * rho
    return spent - theta * epsilon + (1.0 + theta) * math.log(theta / (1.0 + theta)) - math.log(theta)


def _theta_range(scale: float, mediums: int, epsilon: float, rho: float) -> tuple[float, float]:
    """Return where the best theta is looked for."""
    largest = 1.0 / math.expm1(scale)
    guess = max(epsilon / (mediums * scale * scale + 2.0 * rho) - 0.5, 1e-3)
    return min(guess, largest) / 30.0, min(guess * 30.0, largest * (1.0 - 1e-12))


def _best_theta(scale: float, gap: int, mediums: int, epsilon: float, rho: float) -> float | None:
    """Return the root of the derivative of `_log_delta` with the tail form, or None where it was not found.

    With m = exp(e) - 1, c = exp(-e (g + 1)) and h = exp(theta e) (1 - theta m) the tail form is
    -ln((h - c)/(1 - c)); h is concave in theta, so the whole is convex and the root is the minimum.
    """
    least, most = _theta_range(scale, mediums, epsilon, rho)
    growth, beyond = math.expm1(scale), math.exp(-scale * (gap + 1))
    theta = min(30.0 * least, 0.5 * most)
    for _ in range(_NEWTON):
        power = math.exp(theta * scale)
        inner = power * (1.0 - theta * growth) - beyond
        if inner <= 0.0:
            return None
        first = power * (scale - theta * growth * scale - growth) / inner
        second = power * scale * (scale - theta * growth * scale - 2.0 * growth) / inner
        slope = -mediums * first + (1.0 + 2.0 * theta) * rho - epsilon + math.log(theta / (1.0 + theta))
        bend = mediums * (first * first - second) + 2.0 * rho + 1.0 / (theta * (1.0 + theta))
        step = slope / bend
        found = abs(step) < 1e-5 * theta  # flat to far below `_CLEAR`
        theta = max(theta - step, 0.25 * theta)
        if found:
            return theta if least < theta < most else None
    return None


def table_slack(scale: float, answers: int = 3) -> float:
    """Return s such that table noise multiplies Theorem 5's delta by at most exp(s) for every answer given.

    Let |P~(o) - P(o)| <= h = 2 * 2^-128 for each answer o (two edges), and h/P(o) <= 2^-30 within `TABLE_REACH`. Then
    r~_o <= r_o exp((1+theta) h/P + 1.01 theta h/Q), and as P/Q <= exp(e) for every answer at neighbouring depths,
    r_L~ + r_H~ + r_M~ exp(-kappa) <= 1 + 1.02 * 3 h (1 + 2 theta) exp(e (1 + theta)); and e theta < 1.

    Args:
        scale: e (nats).
        answers: Told apart by each question: 3, or 4 where a medium's side is told.
    """
    distance = 2.0 * float(EDGE_DISTANCE)
    return 1.02 * answers * distance * (1.0 + 2.0 / scale) * math.exp(1.0 + scale)


def randomized_response_log_delta(count: int, scale: float, epsilon: float) -> float:
    """Return log of delta_RR(n, e, eps): `count` adaptively composed randomized responses of `scale` nats each.

    delta_RR = sum_i P(Bin(n, exp(e)/(1+exp(e))) = i) (1 - exp(eps - e (2i - n)))_+  (exact: Kairouz et al., 2015).
    """
    if count * scale <= epsilon:
        return -math.inf
    successes = np.arange(count + 1)
    log_odds = epsilon - scale * (2.0 * successes - count)
    kept = log_odds < 0.0
    weights = scipy.stats.binom.logpmf(successes[kept], count, 1.0 / (1.0 + math.exp(-scale)))
    return (
        float(scipy.special.logsumexp(weights + np.log(-np.expm1(log_odds[kept])))) + 1e-7
    )  # scipy's logpmf: about 1e-9


def laplace_log_delta(scale: float, gap: int, mediums: int, epsilon: float) -> float:
    """Return log delta of Theorem 4 at `epsilon`, for discrete Laplace noise and at most `mediums` mediums.

    delta = min over n0 of delta_RR(n0, e0, eps) + P(Bin(n0, q) < K), q(e0, g) = (1 - exp(-e0 (g+1)))/(1 + exp(e0)).

    Args:
        scale: e0 (nats), above 0.
        gap: g.
        mediums: K, at least 1.
        epsilon: eps (nats), above 0.
    """
    success = -math.expm1(-scale * (gap + 1)) / (1.0 + math.exp(scale))

    def log_delta(trials: int) -> float:
        too_few = float(scipy.stats.binom.logcdf(mediums - 1, trials, success)) + 1e-7
        return float(np.logaddexp(randomized_response_log_delta(trials, scale, epsilon), too_few))

    low, high = mediums, math.ceil((mediums + 60.0 * math.sqrt(mediums) + 2000.0) / success)
    while high - low > 2:  # noqa: PLR2004 -- any n0 is valid; near the minimum the sum of a rising and a falling term is unimodal
        left, right = low + (high - low) // 3, high - (high - low) // 3
        if log_delta(left) <= log_delta(right):
            high = right
        else:
            low = left
    return min(*(log_delta(trials) for trials in range(low, high + 1)), 0.0)


def log_answer_law(
    law: Law, scale: float, low: int, high: int, depths: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return log P(low), log P(medium), log P(high) at each depth, accurate in every tail.

    Args:
        law: Law of Z.
        scale: e.
        low: t_l.
        high: t_h.
        depths: int64[n], any integers.
    """
    if law == "laplace":
        raise InputError("law", law, "must be logistic or discrete-laplace: Laplace's has no accountant here")
    tail = _log_upper_logistic if law == "logistic" else _log_upper_laplace
    log_low = tail(scale, depths - low + 1)  # P(Z <= t_l - f - 1) = P(Z >= f - t_l + 1) by symmetry
    log_high = tail(scale, high - depths + 1)  # P(Z >= t_h - f + 1)
    # medium: P(Z >= t_l - f) - P(Z >= t_h - f + 1), or mirrored where that difference cancels less
    upper = _log_difference(tail(scale, low - depths), log_high)
    lower = _log_difference(tail(scale, depths - high), log_low)
    return log_low, np.where(2 * depths > low + high, lower, upper), log_high


def _log_upper_logistic(scale: float, z: NDArray[np.int64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = -np.logaddexp(0.0, scale * (z - 0.5))
    return result


def _log_upper_laplace(scale: float, z: NDArray[np.int64]) -> NDArray[np.float64]:
    outer = -scale * np.maximum(z, 1) - np.log1p(np.exp(-scale))
    inner = np.log1p(-np.exp(-scale * np.maximum(1 - z, 1) - np.log1p(np.exp(-scale))))
    result: NDArray[np.float64] = np.where(z >= 1, outer, inner)
    return result


def _log_difference(larger: NDArray[np.float64], smaller: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = larger + np.log(-np.expm1(smaller - larger))
    return result
