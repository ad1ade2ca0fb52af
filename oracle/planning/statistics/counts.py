"""What a Gaussian count for each question would err: what a table's plan is compared with.

k counts with Gaussian noise of standard deviation s cost a row exactly what one of s/sqrt(k) does, so the analytic
Gaussian mechanism (Balle and Wang, 2018, Theorem 8) says the least s there is for (epsilon, delta), and no accounting
does better.
"""

import math
from functools import lru_cache
from typing import Final

import scipy  # which loads its parts when they are asked for

__all__ = ["counts_error", "gaussian_deviation", "questions_to_win"]

_PRECISION: Final = 1e-9
_MOST: Final = 2**63
"""Questions beyond which no line is followed."""


@lru_cache(maxsize=256)
def gaussian_deviation(epsilon: float, delta: float) -> float:
    """Return the least standard deviation of noise on one count that is (epsilon, delta)-private.

    Args:
        epsilon: Above 0 (nats).
        delta: Above 0 and below 1.
    """
    low, high = 1e-3, 1e6
    while high > low * (1.0 + _PRECISION):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _log_delta(middle, epsilon) <= math.log(delta) else (middle, high)
    return high


def _log_delta(deviation: float, epsilon: float) -> float:
    """Return ln of Phi(1/(2 s) - epsilon s) - exp(epsilon) Phi(-1/(2 s) - epsilon s)."""
    first = float(scipy.special.log_ndtr(0.5 / deviation - epsilon * deviation))
    second = epsilon + float(scipy.special.log_ndtr(-0.5 / deviation - epsilon * deviation))
    return first + math.log(-math.expm1(min(second - first, -1e-300)))


def counts_error(questions: int, rows: int, epsilon: float, delta: float, failure: float) -> float:
    """Return what the worst of so many Gaussian counts errs, as a share of the rows, but with some probability.

    Args:
        questions: k, all told before: their noise is chosen for k.
        rows: n.
        epsilon: Of a row, for all of them (nats).
        delta: Of a row, for all of them.
        failure: The probability.
    """
    each = -math.expm1(math.log1p(-failure) / questions)  # of independent noise: exact
    reach = -float(scipy.special.ndtri(each / 2.0))
    return reach * math.sqrt(questions) * gaussian_deviation(epsilon, delta) / rows


def questions_to_win(alpha: float, rows: int, epsilon: float, delta: float, failure: float) -> int:
    """Return the fewest questions of which Gaussian counts err by more than alpha.

    Args:
        alpha: A share of the rows.
        rows: n.
        epsilon: Of a row, for all questions (nats).
        delta: Of a row, for all questions.
        failure: Chance that any of them errs by more.
    """
    low, high = 0, 1
    while high < _MOST and counts_error(high, rows, epsilon, delta, failure) <= alpha:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if counts_error(middle, rows, epsilon, delta, failure) > alpha else (middle, high)
    return high
