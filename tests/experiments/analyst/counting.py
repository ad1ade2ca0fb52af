"""What as many Gaussian counts would err by: the plain way, which has to know how many questions there will be.

Source: Balle and Wang (2018), "Improving the Gaussian mechanism for differential privacy", Theorem 8.
"""

import math
from typing import Final

import scipy.optimize
import scipy.stats

from oracle.planning.statistics.model import TablePlan

__all__ = ["counts_epsilon", "counts_error", "last_within"]

_MOST: Final = 2**40


def counts_error(plan: TablePlan, questions: int) -> float:
    """Return the median of the largest error of so many counts, as a share of the rows.

    They cost a row together what the plan does; one row changes each by at most 1.
    """
    return _largest(questions) * _deviation(plan.epsilon, plan.delta) / plan.declared


def counts_epsilon(plan: TablePlan, questions: int, error: float) -> float:
    """Return what so many counts cost a row, at the plan's delta, where the median of their largest error is this."""

    def beyond(epsilon: float) -> float:
        return _largest(questions) * _deviation(epsilon, plan.delta) / plan.declared - error

    return float(scipy.optimize.brentq(beyond, 1e-3, 100.0))


def last_within(plan: TablePlan) -> int:
    """Return how many questions counts answer within the plan's error; 0 for none."""
    low, high = 0, _MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if counts_error(plan, middle) <= plan.alpha else (low, middle)
    return low


def _largest(questions: int) -> float:
    """Return the median of the largest of so many counts' noise, in standard deviations of one count alone."""
    within = math.exp(-math.log(2.0) / questions)  # each, so that all are with probability 1/2
    return math.sqrt(questions) * float(scipy.stats.norm.isf(0.5 * (1.0 - within)))


def _deviation(epsilon: float, delta: float) -> float:
    """Return the least standard deviation of one count, in rows, that is (epsilon, delta)-private."""

    def excess(deviation: float) -> float:
        half, far = 0.5 / deviation, epsilon * deviation
        tail = scipy.stats.norm.logcdf(-half - far)
        return float(scipy.stats.norm.cdf(half - far) - math.exp(epsilon + tail)) - delta

    return float(scipy.optimize.brentq(excess, 1e-3, 1e6))
