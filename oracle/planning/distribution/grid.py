"""What releasing a distribution at once would take: what a plan is compared with.

Two ways, each with as many thresholds as suit it best, and rho of zCDP in all:
* each quantile is chosen among all values X of the type by the exponential mechanism, P proportional to exp(-e loss),
  where the loss of a value is by how many rows it misses the quantile. A row changes losses by -1 to 1, so each of K
  choices is e^2/2 of zCDP (PRIVACY.md, Theorem 15), and misses by more than s rows with probability |X| exp(-e s);
* the values are the leaves of a tree of b branches and L levels, and each node's count gets Gaussian noise, of variance
  L/(2 rho), as a row is in one node of each level. Quantiles are found from its root, by L (b - 1) sums of at most as
  many counts for each.
Nothing is paid for afterwards, whatever is asked, so its rows do not grow with questions; they grow with ln |X|.
"""

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from oracle.planning.distribution.model import DistributionPlan, domain_of
from oracle.planning.distribution.sizes import Sizes

__all__ = ["GridRelease", "grid_release"]

_ORDERS: Final = tuple(0.05 * 1.05**step for step in range(200))
"""From 0.05 to 800; best is about the square root of ln(1/delta) / rho."""

_BRANCHES: Final = (2, 4, 8)
_MORE: Final = tuple(1.15**step for step in range(40))
"""Thresholds looked at, as multiples of the fewest that the error allows."""

_MOST_BITS: Final = 1 << 14
_PRECISE: Final = 0.01
"""Bits."""


class GridRelease(NamedTuple):
    """What a release at once takes, beside a plan.

    Attributes:
        rows: The fewest rows for the plan's alpha, among all values of the type.
        values: Among so many values at most it would take no more rows than the plan does: 10 to the power of this.
        better: Whether it takes fewer rows than the plan.
    """

    rows: int
    values: float
    better: bool


def grid_release(plan: DistributionPlan) -> GridRelease:
    """Return what a release at once would take.

    Args:
        plan: Of profile `tight`.
    """
    rho = _budget(plan.epsilon, plan.delta)
    rows = _fewest(plan, rho, math.log2(domain_of(plan.feature).size))
    low, high = 0.0, float(_MOST_BITS)
    while high - low > _PRECISE:
        middle = (low + high) / 2.0
        low, high = (middle, high) if _fewest(plan, rho, middle) <= plan.examples else (low, middle)
    return GridRelease(rows, low * math.log10(2.0), rows < plan.examples)


def _fewest(plan: DistributionPlan, rho: float, bits: float) -> int:
    """Return the fewest rows for a plan's alpha where there are 2 to the power of `bits` values."""
    fewest = math.floor(0.5 / plan.alpha) + 1
    tried = {math.ceil(fewest * more) for more in _MORE}
    found = (
        Sizes(count, math.nan, 0, math.ceil(margin)).least_rows(plan.alpha)
        for count in tried
        for margin in _margins(count, rho, bits, plan.beta)
    )
    return min(rows for rows in found if rows is not None)


def _margins(count: int, rho: float, bits: float, failure: float) -> Iterator[float]:
    """Yield by how many rows the quantiles that each way releases are missed, but with probability `failure`."""
    yield (bits * math.log(2.0) + math.log(count / failure)) / math.sqrt(2.0 * rho / count)
    for branches in _BRANCHES:
        levels = max(math.ceil(bits / math.log2(branches)), 1)
        sums = levels * (branches - 1)
        yield math.sqrt(2.0 * math.log(count * sums / failure) * sums * levels / (2.0 * rho))


def _budget(epsilon: float, delta: float) -> float:
    """Return about the largest rho of zCDP that is (epsilon, delta)-private, by the best order (as in Theorem 5)."""

    def allowed(order: float) -> float:
        tail = (1.0 + order) * math.log(order / (1.0 + order)) - math.log(order)
        return (epsilon + (math.log(delta) - tail) / order) / (1.0 + order)

    return max(map(allowed, _ORDERS))
