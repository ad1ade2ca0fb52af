"""How many rounds pass until every side has seen enough: exact binomial tails."""

import math
from collections.abc import Callable

import scipy  # which loads its parts when they are asked for

from oracle.errors import PlanError

__all__ = ["trials_for"]

_MOST = 2**62
"""Trials at most: more are no 64-bit number."""

_CLEAR = 1e-4
"""Relative difference from the target beyond which the quick form of the tail decides; the two agree to 2e-7."""


def trials_for(successes: int, probability: float, miss: float) -> int:
    """Return the least n with P(Bin(n, probability) < successes) <= miss.

    Args:
        successes: How many are wanted, at least 1.
        probability: Of each trial, in (0, 1].
        miss: In (0, 1).

    Raises:
        PlanError: It is beyond 2^62.

    >>> trials_for(1, 0.5, 0.25)
    2
    """
    if probability >= 1.0:
        return successes
    if not successes < probability * _MOST:
        msg = f"model.alpha, gamma or a share: a side whose records come with probability {probability:.3g} never fills"
        raise PlanError(msg)

    def enough(trials: int) -> bool:
        # P(Bin(n, p) < k) = 1 - I_p(k, n - k + 1)
        tail = float(scipy.special.betaincc(float(successes), trials - successes + 1.0, probability))
        if abs(tail - miss) > _CLEAR * miss:
            return tail <= miss
        return bool(scipy.stats.binom.cdf(successes - 1, trials, probability) <= miss)

    high = max(successes, math.ceil(successes / probability))
    low = successes - 1
    while not enough(high):
        low, high = high, 2 * high
        if high > _MOST:
            msg = f"model.beta: of records with probability {probability:.3g} it takes too many to be so sure of"
            raise PlanError(msg)
    return _least(low, high, enough)


def _least(low: int, high: int, enough: Callable[[int], bool]) -> int:
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high
