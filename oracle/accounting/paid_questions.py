"""What paid questions cost: PRIVACY.md, Theorem 17 to Theorem 20, and Theorem 26.

Questions are integer functions of the data that one record moves by at most 1, either way, and another way at each
question. Free answers cost nothing; after K paid ones the data are not touched again. Logarithms of delta are rounded
up, slopes of noise down: both towards privacy.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from oracle.accounting.between_thresholds import logistic_log_delta
from oracle.accounting.events import NoisyCountEvent
from oracle.accounting.race import race_log_delta
from oracle.accounting.value_iteration import worst_log_delta
from oracle.errors import InputError
from oracle.mechanisms.noise.tables import EDGE_DISTANCE, tail_reach

__all__ = [
    "NO_UPPER",
    "PaidNoise",
    "above_log_delta",
    "noise_slope",
    "one_sided_price",
    "one_sided_slopes",
    "table_distance",
]

NO_UPPER: Final = 1 << 62
"""A gap at which Theorem 5's price is that of one threshold: exp(-e (g + 1)) is 0."""

_MOST_EXACT: Final = 2048
"""K up to which Theorem 20 is worth its time: two seconds for each slope that is tried."""

_SAFE: Final = 1e-12
"""Relative slack above the rounding of a few products and sums."""

_PRECISE: Final = 1e-7
"""Relative width at which the search for a slope ends."""


@dataclass(frozen=True, slots=True)
class PaidNoise:
    """Noise for paid questions "above", and what it leaves undecided.

    Attributes:
        law: "gumbel", or "exponential": one-sided noise on the counts and once on all thresholds.
        slope: e of the noise on counts (nats).
        threshold_slope: e of the noise on thresholds (nats); infinite where there is none.
        above: No count is paid by mistake if it lies so far below its threshold, but with half the chance of failure.
        below: No count is free by mistake if it lies so far above its threshold, but with the other half.
    """

    law: Literal["gumbel", "exponential"]
    slope: float
    threshold_slope: float
    above: float
    below: float

    @property
    def window(self) -> float:
        """Counts whose answer may be either, in all."""
        return self.above + self.below


def above_log_delta(
    slope: float, paid: int, epsilon: float, *, exact: bool = False, start: NoisyCountEvent | None = None
) -> float:
    """Return log delta of K paid questions "above" with integer Gumbel noise (or logistic), values released.

    Args:
        slope: e (nats), above 0.
        paid: K, at least 1.
        epsilon: eps (nats), above 0.
        exact: Whether to take the least of Theorem 17 and of Theorem 20, or Theorem 26 for K above 2,048.
        start: Counts that were released before: PRIVACY.md, Theorem 22.
    """
    rho = 0.0 if start is None else start.rho
    moment = logistic_log_delta(slope, NO_UPPER, paid, epsilon, rho=rho)
    if not exact:
        return moment
    many = paid > _MOST_EXACT
    return min(
        moment, race_log_delta(slope, NO_UPPER, paid, epsilon, rho=rho) if many else _worst(slope, paid, epsilon, start)
    )


@lru_cache(maxsize=256)
def _worst(slope: float, paid: int, epsilon: float, start: NoisyCountEvent | None) -> float:
    return worst_log_delta(slope, paid, epsilon, start=None if start is None else (start.epsilon, start.counts))


def noise_slope(  # noqa: PLR0913 -- the guarantee, and what it is for
    paid: int,
    epsilon: float,
    delta: float,
    *,
    gap_nats: float = math.inf,
    exact: bool = False,
    start: NoisyCountEvent | None = None,
) -> float:
    """Return the largest noise slope e that keeps K paid answers within (epsilon, delta), rounded down.

    Args:
        paid: K, at least 1.
        epsilon: eps (nats), above 0.
        delta: Above 0 and below 1.
        gap_nats: e g of the narrowest zone of questions "between" (logistic noise; Theorem 18); infinite for "above".
        exact: By Theorem 26 where it gives more, and for "above" and K up to 2,048 by Theorem 20.
        start: Counts that were released before.

    Raises:
        InputError: A number is outside its bound, or what was released before leaves nothing.

    >>> [round(noise_slope(paid, 1.0, 1e-6), 4) for paid in (1, 10, 50, 100, 300, 1000)]
    [0.0744, 0.0449, 0.0253, 0.019, 0.0117, 0.0066]
    """
    _check(paid, epsilon, delta)
    limit, rho = math.log(delta), 0.0 if start is None else start.rho

    def fits(slope: float) -> bool:
        gap = math.floor(gap_nats / slope) if math.isfinite(gap_nats) else NO_UPPER
        moment = logistic_log_delta(slope, gap, paid, epsilon, rho=rho)
        return moment <= limit or (exact and race_log_delta(slope, gap, paid, epsilon, rho=rho) <= limit)

    least = 1e-3 * epsilon / paid  # of which K cost about 5e-7 eps^2/K of zCDP: any delta that a float can be
    if rho and not fits(least):
        raise InputError("start", start, f"must leave something of epsilon = {epsilon} at delta = {delta}")
    slope = _largest(fits, least, epsilon * 4.0 + 8.0)
    if exact and math.isinf(gap_nats) and paid <= _MOST_EXACT:
        slope = _largest(lambda at: _worst(at, paid, epsilon, start) <= limit, slope, 1.5 * slope, precise=1e-4)
    return slope


def _largest(fits: Callable[[float], bool], low: float, high: float, precise: float = _PRECISE) -> float:
    """Return a number that fits, by bisection from `low`, which does, or `low` itself."""
    while high - low > precise * low:
        middle = (low + high) / 2.0
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def one_sided_slopes(
    paid: int, epsilon: float, questions: float, failure: float, *, monotone: bool = False
) -> PaidNoise:
    """Return the one-sided noise of Theorem 19, pure at `epsilon`, with the split that leaves the least window.

    With A = ln(2/failure) and B = 2 K ln(2 questions/failure), or half of it, the window A/eps_1 + B/eps_2 is least at
    eps_1 : eps_2 = sqrt(A) : sqrt(B): Lyu, Su and Li (2017), Algorithm 1, with exponential noise.

    Args:
        paid: K, at least 1.
        epsilon: eps (nats), above 0.
        questions: How many will be asked (utility only).
        failure: Chance that any of them is answered wrongly (utility only).
        monotone: Whether a record moves all counts the same way.
    """
    _check(paid, epsilon, failure)
    spread, epsilon = 1 if monotone else 2, epsilon * (1.0 - 2.0 * _SAFE)
    once, each = math.log(2.0 / failure), math.log(2.0 * questions / failure)
    share = math.sqrt(once) / (math.sqrt(once) + math.sqrt(spread * paid * each))
    threshold = epsilon * share
    slope = (epsilon - threshold) / (spread * paid)
    return PaidNoise("exponential", slope, threshold, each / slope, once / threshold)


def one_sided_price(slope: float, threshold_slope: float | None, paid: int, *, monotone: bool = False) -> float:
    """Return epsilon of K paid questions with one-sided noise, rounded up: Theorem 19.

    Args:
        slope: e_2 of the noise on counts (nats).
        threshold_slope: e_1 of the noise on thresholds (nats).
        paid: K, at least 1.
        monotone: Whether a record moves all counts the same way.
    """
    once = math.inf if threshold_slope is None else threshold_slope
    return (once + (1 if monotone else 2) * paid * slope) * (1.0 + _SAFE)


def table_distance(slope: float, questions: float, epsilon: float) -> float:
    """Return what noise from tables adds to delta over so many questions: PRIVACY.md, Lemma 21.

    Args:
        slope: e (nats) of the noise on counts.
        questions: Answers given, free ones too.
        epsilon: eps (nats) of the guarantee.
    """
    return (
        (1.0 + math.exp(epsilon)) * questions * (2.0 * tail_reach(slope) + 3.0) * float(EDGE_DISTANCE) * (1.0 + 1e-12)
    )


def _check(paid: int, epsilon: float, delta: float) -> None:
    if paid < 1:
        raise InputError("paid", paid, "must be at least 1")
    if not (epsilon > 0.0 and math.isfinite(epsilon)):
        raise InputError("epsilon", epsilon, "must be above 0 and finite")
    if not 0.0 < delta < 1.0:
        raise InputError("delta", delta, "must be above 0 and below 1")
