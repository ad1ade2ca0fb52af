"""The noise of paid questions about a table: the largest slopes for a row's guarantee, and what they leave open.

Whatever comes out is handed to the accountant by `oracle.planning.statistics.tight`; here it is only found.
"""

import math
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from oracle.accounting.events import NoisyCountEvent
from oracle.accounting.paid_questions import above_log_delta, one_sided_slopes, table_distance
from oracle.errors import PlanError
from oracle.planning.questions import ROUNDS, STEEPEST
from oracle.planning.statistics.model import NoisePlan

__all__ = ["Budget", "exact_noise", "quick_noise", "start_of", "table_draws", "windows"]

_START_SHARE: Final = 0.2
"""Part of the budget, in zCDP, that pays for the marginals that a hypothesis starts from."""

_CLOSE: Final = 0.08
"""How far below its limit log delta may stay, for less time: 0.3 % of the slope at delta = 1e-6."""

_TRIES: Final = 6
_UP: Final = 1.0 + 1e-12
"""Above the rounding of a few operations."""


class Budget(NamedTuple):
    """What the noise of paid questions may cost a row, and what it is for.

    Attributes:
        paid: K.
        epsilon: Of the row (nats).
        delta: Of the row.
        questions: Questions to the mechanism, both signs and repeated ones, that none of `failure` is for.
        failure: Chance that any of them is answered wrongly.
        start: Counts that are released before, if there are any.
    """

    paid: int
    epsilon: float
    delta: float
    questions: int
    failure: float
    start: NoisyCountEvent | None = None


def start_of(epsilon: float, delta: float, marginals: int) -> NoisyCountEvent:
    """Return the noise on marginals: a row is in one cell of each, which makes m e^2/2 of zCDP, a fifth of the budget.

    Args:
        epsilon: Of the row (nats).
        delta: Of the row.
        marginals: m.
    """
    budget = (math.sqrt(math.log(1.0 / delta) + epsilon) - math.sqrt(math.log(1.0 / delta))) ** 2
    return NoisyCountEvent(math.sqrt(2.0 * _START_SHARE * budget / marginals), marginals)


def table_draws(paid: int) -> int:
    """Return how many draws from tables there may be: two a round, two a paid answer, and one of thresholds."""
    return 2 * (ROUNDS + paid) + 1


def quick_noise(budget: Budget) -> NoisePlan:
    """Return the noise with the smaller window, by Theorem 17 and Theorem 19."""
    return _better(budget, _moment_slope(budget, math.log(budget.delta)))


@lru_cache(maxsize=256)
def exact_noise(budget: Budget) -> NoisePlan:
    """Return the noise with the smaller window, by Theorem 20 too where it can be had.

    Raises:
        PlanError: The noise tables alone cost more than delta.
    """
    slope = _moment_slope(budget, math.log(budget.delta))
    tables = 2.0 * table_distance(slope, table_draws(budget.paid), budget.epsilon)
    left = budget.delta * (1.0 - 1e-9) - tables
    if not left > 0.5 * budget.delta:
        msg = f"model.delta = {budget.delta!r}: the noise tables of so many answers cost {tables:.2g} of it"
        raise PlanError(f"{msg}; take a larger delta or a smaller epsilon")
    # the accountant takes 0 off epsilon, rounded down: at the same figure it need not iterate again
    budget = budget._replace(delta=left, epsilon=math.nextafter(budget.epsilon, 0.0))
    return _better(budget, _exact_slope(budget))


def _exact_slope(budget: Budget) -> float:
    """Return about the largest slope by Theorem 20, or 17: their log deltas differ by what hardly depends on e or K."""
    limit = math.log(budget.delta)
    safe = _moment_slope(budget, limit)
    few = budget._replace(paid=max(budget.paid // 8, 1))
    gained = _gained(few, _moment_slope(few, limit + 1.0)) - 0.85 * _CLOSE
    for _ in range(_TRIES):
        slope = _moment_slope(budget, limit + gained)
        more = _gained(budget, slope)
        if limit - _CLOSE <= _moment(budget, slope) - more <= limit:
            return slope
        gained = more - 0.1 * _CLOSE
    return safe


def _gained(budget: Budget, slope: float) -> float:
    """Return how much less log delta is by Theorem 20 than by Theorem 17."""
    return _moment(budget, slope) - above_log_delta(slope, budget.paid, budget.epsilon, exact=True, start=budget.start)


def _moment(budget: Budget, slope: float) -> float:
    return above_log_delta(slope, budget.paid, budget.epsilon, start=budget.start)


def _moment_slope(budget: Budget, limit: float) -> float:
    """Return the largest slope whose log delta by Theorem 17 is at most `limit`, rounded down."""
    low, high = 1e-3 * budget.epsilon / budget.paid, min(4.0 * budget.epsilon + 8.0, STEEPEST)
    if _moment(budget, low) > limit:
        return low
    while high - low > 1e-7 * low:
        middle = (low + high) / 2.0
        low, high = (middle, high) if _moment(budget, middle) <= limit else (low, middle)
    return low


def _better(budget: Budget, slope: float) -> NoisePlan:
    gumbel = _plan("gumbel", slope, None, budget)
    spent = 0.0 if budget.start is None else budget.start.epsilon * budget.start.counts
    left = (budget.epsilon - spent) * (1.0 - 1e-9)
    if left <= 0.0:
        return gumbel
    pure = one_sided_slopes(budget.paid, left, budget.questions, budget.failure)
    other = _plan("exponential", min(pure.slope, STEEPEST), min(pure.threshold_slope, STEEPEST), budget)
    return min(gumbel, other, key=lambda noise: noise.above + noise.below)


def _plan(law: Literal["gumbel", "exponential"], slope: float, threshold: float | None, budget: Budget) -> NoisePlan:
    bare = NoisePlan(law=law, slope=slope, threshold_slope=UNSET if threshold is None else threshold, above=0, below=0)
    above, below = windows(bare, budget.questions, budget.failure)
    return msgspec.structs.replace(bare, above=above, below=below)


def windows(noise: NoisePlan, questions: int, failure: float) -> tuple[int, int]:
    """Return U and D (`NoisePlan`) in whole rows, rounded up.

    By a union bound over M questions, A = ln(2 M/failure): P(Z >= U) <= exp(-e U) for both laws; P(Z < -D) =
    exp(-exp(e D)) for Gumbel noise, and P(rho > D) <= exp(-e_1 D) once for one-sided noise.

    Args:
        noise: Its law and slopes.
        questions: M.
        failure: Chance that any of them is answered wrongly.
    """
    each = math.log(2.0 * questions / failure) * _UP
    if noise.law == "exponential":
        below = math.log(2.0 / failure) * _UP / (noise.threshold_slope or math.nan)
    else:
        below = math.log(each) * _UP / noise.slope
    return math.ceil(each / noise.slope), math.ceil(below)
