"""PATE: the same teachers answer with Gaussian noise until their budget is spent (Papernot and others, 2018).

"Scalable Private Learning with PATE", arXiv:1802.08908. Everything is decided in PATE's favour: its privacy loss is
the one that depends on the data (its Theorem 6), which would have to be released with noise itself; its noise is the
one of those tried that answers the most queries.
"""

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

ORDERS: Final = np.concatenate([np.arange(1.5, 10.0, 0.5), np.geomspace(10.0, 2_000.0, 80)])
"""Renyi orders; the best of them is told."""

_SHARES: Final = (0.005, 0.01, 0.02, 0.03)
"""Standard deviations of the noise that are tried, as shares of the teachers."""


class Spent(NamedTuple):
    """What PATE answers before its budget is spent.

    Attributes:
        answers: int8[k], of the first k queries.
        plainly: How many it answers if its privacy loss is the one that does not depend on the data.
        deviation: Of the noise.
    """

    answers: NDArray[np.int8]
    plainly: int
    deviation: float


def losses(votes: NDArray[np.int32], deviation: float) -> NDArray[np.float64]:
    """Return the Renyi loss of each answer at each order, float64[m, orders]: the lesser of both bounds.

    Args:
        votes: int32[m, 2].
        deviation: Of the noise on each class's votes.
    """
    plain = ORDERS / deviation**2  # Proposition 8: one teacher moves two counts by 1
    gaps = np.abs(votes[:, 0] - votes[:, 1])
    values, where = np.unique(gaps, return_inverse=True)
    told = np.array([_by_gap(int(gap), deviation) for gap in values])
    found: NDArray[np.float64] = np.minimum(plain, told)[where]
    return found


def _by_gap(gap: int, deviation: float) -> NDArray[np.float64]:
    """Return Theorem 6's bound for an answer whose classes are so many votes apart; infinite where it has none."""
    none = np.full(len(ORDERS), math.inf)
    q = 0.5 * float(erfc(gap / (2.0 * deviation)))  # Proposition 7: chance of the answer with fewer votes
    if q == 0.0:
        return np.zeros(len(ORDERS))
    second = deviation * math.sqrt(-math.log(q))
    first = second + 1.0
    if second <= 1.0:
        return none
    loss_first, loss_second = first / deviation**2, second / deviation**2
    bound = (second - 1.0) * loss_second - second * math.log(first / (first - 1.0) * second / (second - 1.0))
    if math.log(q) > bound or math.log(q) + loss_second >= 0.0:
        return none
    small = 1.0 - math.exp((math.log(q) + loss_second) * (second - 1.0) / second)
    log_a = math.log1p(-q) - math.log(small)
    log_b = loss_first - math.log(q) / (first - 1.0)
    told = np.logaddexp(math.log1p(-q) + (ORDERS - 1.0) * log_a, math.log(q) + (ORDERS - 1.0) * log_b) / (ORDERS - 1.0)
    return np.where(first >= ORDERS, np.maximum(told, 0.0), math.inf)


def _allowed(loss: NDArray[np.float64], epsilon: float, delta: float) -> int:
    """Return how many answers, the first ones, cost at most (epsilon, delta) together (Canonne and others, 2020)."""
    spare = -np.log(delta) / (ORDERS - 1.0) + np.log1p(-1.0 / ORDERS) - np.log(ORDERS) / (ORDERS - 1.0)
    fits = np.cumsum(loss, axis=0) + spare <= epsilon
    return int(np.count_nonzero(fits.any(axis=1)))


def answer(votes: NDArray[np.int32], epsilon: float, delta: float, seed: int) -> Spent:
    """Answer until the budget is spent, with the noise that answers the most.

    Args:
        votes: int32[m, 2], of the teachers, for each query in order.
        epsilon: Of a training row.
        delta: The same.
        seed: Of the noise. (A known seed protects nobody.)
    """
    teachers = int(votes.sum(axis=1).max())
    generator = np.random.default_rng(seed)
    best = Spent(np.empty(0, dtype=np.int8), 0, 0.0)
    for share in _SHARES:
        deviation = share * teachers
        count = _allowed(losses(votes, deviation), epsilon, delta)
        if count > len(best.answers):
            noisy = votes[:count] + deviation * generator.standard_normal((count, 2))
            plain = np.tile(ORDERS / deviation**2, (len(votes), 1))
            best = Spent(noisy.argmax(axis=1).astype(np.int8), _allowed(plain, epsilon, delta), deviation)
    return best
