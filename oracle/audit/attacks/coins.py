"""Epsilon from one run: how many fair coins can be guessed from what was released of them?

Each coin decided what one record is, and whoever guesses sees everything but the coins. Proofs:
docs/explanation/separations.md, Proposition 1.
"""

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

__all__ = ["Guesses", "cap", "chance", "coins_needed", "judge", "least_epsilon"]

_PARTS: Final = (1, 2, 4, 8)
"""All coins are guessed, or one in so many: those that the scores say most of."""

_MOST: Final = 64.0
"""Nats: far above any claim."""

_HALVINGS: Final = 40

_COINS: Final = 1 << 30
"""More than anybody tosses: what delta adds to these is not worked out."""

_LEAST_LOST: Final = 1e-300
"""Nats; of less there is no number of coins that a float holds."""

_SHORT: Final = 1 << 14
"""Guesses that delta may add one by one; any more are bounded together."""


class Guesses(NamedTuple):
    """What guesses of fair coins prove.

    Attributes:
        coins: How many there were.
        right: How many of all were guessed right.
        guessed: How many guesses the bound counts.
        guessed_right: How many of these were right.
        lowest: Epsilon is at least this, but with the stated probability (nats; 0 if nothing is proved).
    """

    coins: int
    right: int
    guessed: int
    guessed_right: int
    lowest: float

    @property
    def share(self) -> float:
        """Share of all coins that were guessed right."""
        return self.right / self.coins


def cap(epsilon: float, delta: float) -> float:
    """Return the largest share of coins that anybody can expect to guess right (Proposition 1, a).

    >>> round(cap(1.0, 0.0), 3)
    0.731
    """
    return (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon))


def chance(right: int, guessed: int, coins: int, epsilon: float, delta: float) -> float:
    """Return a bound on the probability that so many guesses or more are right (Proposition 1, b).

    Args:
        right: Of those that were guessed.
        guessed: As many as whoever guesses had settled on.
        coins: All there were.
        epsilon: Claimed (nats).
        delta: Claimed.

    >>> round(chance(10, 10, 10, 0.0, 0.0) * 1024, 6)
    1.0
    """
    share, budget = cap(epsilon, 0.0), coins * delta
    reached = float(special.bdtrc(right - 1, guessed, share))  # quicker than `stats.binom.sf`
    if budget > 0.0 and right > 0:
        short = np.arange(1, min(right, _SHORT) + 1)
        masses = stats.binom.pmf(right - short, guessed, share)
        paid = np.cumsum(short * masses)
        afforded = int(np.searchsorted(paid, budget, side="right"))
        left = budget - (float(paid[afforded - 1]) if afforded else 0.0)
        reached += float(masses[:afforded].sum()) + left / (afforded + 1)
    return min(reached, 1.0)


def least_epsilon(right: int, guessed: int, coins: int, delta: float, miss: float) -> float:
    """Return the largest epsilon that so many right guesses refute: a lower bound, wrong with probability `miss`."""
    low, high = 0.0, _MOST
    if chance(right, guessed, coins, low, delta) > miss:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if chance(right, guessed, coins, middle, delta) <= miss else (low, middle)
    return low


def coins_needed(epsilon: float, delta: float, miss: float) -> int | None:
    """Return about how many coins, all of them guessed right, refute a claim in `judge`; None if delta forbids it.

    However many there are, the bound is at least delta (1 + exp(epsilon)): of Proposition 1 (b), take g_j in proportion
    to P[B = v - j].

    >>> coins_needed(1.0, 0.0, 1e-3), coins_needed(4.0, 0.0, 1e-3), coins_needed(9.0, 1e-6, 1e-3)
    (27, 457, None)
    """
    lost, wanted = math.log1p(math.exp(-epsilon)), miss / len(_PARTS)  # nats that a right guess takes off the chance
    if delta >= wanted * special.expit(-epsilon) or lost < _LEAST_LOST:
        return None
    alone = math.ceil(-math.log(wanted) / lost)
    if delta == 0.0 or alone > _COINS:
        return alone
    for coins in np.geomspace(alone, 1000 * alone, 300).tolist():
        count: int = math.ceil(coins)
        if chance(count, count, count, epsilon, delta) <= wanted:
            return count
    return None


def judge(scores: NDArray[np.float64], coins: NDArray[np.bool_], delta: float, miss: float) -> Guesses:
    """Guess coins by the signs of their scores, and bound epsilon.

    Formal guarantees:
        * Where the coins were fair and independent, and what the scores were made of is an (epsilon, delta)-private
          function of them (each coin changes what one record is), `lowest` exceeds epsilon with probability at most
          `miss`: a quarter of it for each number of guesses that is tried, which the scores alone choose.

    Args:
        scores: float64[n], made without the coins: above 0 guesses heads, and the further from 0 the surer.
        coins: bool[n].
        delta: Claimed.
        miss: Probability of a false alarm.
    """
    right = (scores > 0.0) == coins
    surest = right[np.argsort(-np.abs(scores), kind="stable")]
    tried = []
    for part in _PARTS:
        guessed = max(len(coins) // part, 1)
        hits = int(np.count_nonzero(surest[:guessed]))
        lowest = least_epsilon(hits, guessed, len(coins), delta, miss / len(_PARTS))
        tried.append(Guesses(len(coins), int(np.count_nonzero(right)), guessed, hits, lowest))
    return max(tried, key=lambda one: one.lowest)
