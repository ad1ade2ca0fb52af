"""What a plan of boxes pays for the edges of its stripes and for one noisy count, and what share of a stripe is sure.

The rule `faces` sends a positive record to a side beyond whose edge it lies (`oracle.mechanisms.choice.stripes`). The
edges are released once, when a state is made; so is the least number of points that a side holds more than it needs.
"""

import math
from typing import Final

import numpy as np

from oracle.planning.boxes.model import BoxModel
from oracle.planning.plan import CheckPlan, InstancePlan, ScalePlan

__all__ = ["check_plan", "counted", "fewest_ones", "reserve", "scale_plan", "start_rho", "stripes_share"]

_SCALE_SHARE: Final = 0.04
"""e sqrt(S) / epsilon of the edges' choices: beside an instance that costs a training record about a twentieth of
epsilon, and for S = 8 and epsilon = 2 edges are off by less than a tenth of a stripe's records."""

_CHECK_SHARE: Final = 0.03
"""Part of epsilon that the count's noise has for its own; beside an instance it costs about as much of it."""

_ONES: Final = (0.25, 0.5)
"""Between these, and twice alpha, is the part of the rows that a plan takes to be labelled 1 at least: the fewer, the
more often stripes overlap."""

_MISS: Final = 0.5
"""Part of beta with which an edge is further off than planned, and with which the count's noise is larger."""

_NATS: Final = 12.0
"""ln of how many times more places are far from the wanted rank than near it. It is 44 at most (`learn_edge`), where
values lie so that each next one is many times further out; in all that was tried it was below 3."""

_DEVIATIONS: Final = 3.0
"""By so many a stripe may hold more records than on average."""


def _scale(model: BoxModel, sides: int) -> float:
    return _SCALE_SHARE * model.epsilon / math.sqrt(sides)


def _edge_error(model: BoxModel, sides: int) -> int:
    """Return by how many ranks an edge is taken to be off at most; utility only, and `init` checks what comes of it."""
    return math.ceil((_NATS + math.log(sides / (_MISS * model.beta))) / _scale(model, sides))


def scale_plan(model: BoxModel, sides: int, mass: float, rows: int) -> ScalePlan:
    """Return how the edges are learned: with all that all phases' stripes hold beyond each of them.

    Args:
        model: The promises.
        sides: S, above 1.
        mass: Of all phases' stripes of all sides.
        rows: n.
    """
    held = rows * mass / sides
    rank = math.ceil(held + _DEVIATIONS * math.sqrt(held)) + _edge_error(model, sides)
    return ScalePlan(rank=rank, scale=_scale(model, sides))


def fewest_ones(alpha: float) -> float:
    """Return the part of the rows that a plan takes to be labelled 1 at least."""
    low, high = _ONES
    return min(max(low, 2.0 * alpha), high)


def stripes_share(model: BoxModel, sides: int, mass: float, rows: float) -> float:
    """Return the part of a side's stripe that it gets where features are independent and enough rows are labelled 1.

    A record lies beyond a side's edge with a chance q of at most (rank + error) / (n pi), pi as in `fewest_ones`. Of
    one feature it lies beyond the one edge, or the other, or, where q is above 1/2, perhaps beyond both, and it goes to
    one of all sides beyond whose edge it lies: E[1/N], of those that lie beyond the side's own.

    Args:
        model: The promises.
        sides: S.
        mass: Of all phases' stripes of all sides.
        rows: n; infinite for what very many rows get.
    """
    held = mass / sides
    beyond = held + _DEVIATIONS * math.sqrt(held / rows) + 2.0 * _edge_error(model, sides) / rows
    chance = min(beyond / fewest_ones(model.alpha), 1.0)
    both = max(2.0 * chance - 1.0, 0.0)
    either = 2.0 * chance - both
    counts = {"none": [1.0], "lower": [1.0 - chance, chance], "both": [1.0 - either, either - both, both]}
    counts["upper"] = counts["lower"]
    return min(
        _mean_part(
            [1.0 - both / chance, both / chance] if feature.sides == "both" else [1.0],
            [counts[other.sides] for other in model.features if other is not feature],
        )
        for feature in model.features
        if feature.sides != "none"
    )


def _mean_part(own: list[float], others: list[list[float]]) -> float:
    """Return E[1/(1 + N)], N the sum of independent numbers with these laws."""
    law = np.array(own)
    for other in others:
        law = np.convolve(law, other)
    return float(law @ (1.0 / np.arange(1.0, len(law) + 1.0)))


def start_rho(model: BoxModel, sides: int, *, scaled: bool) -> float:
    """Return rho of what is released before phase 1: S choices whose losses change within 2, and the count."""
    edges = sides * (2.0 * _scale(model, sides)) ** 2 / 8.0 if scaled else 0.0
    return edges + (_CHECK_SHARE * model.epsilon) ** 2 / 2.0


def _noise(model: BoxModel) -> int:
    """Return what the count's noise stays below, but with probability beta/2 on either side."""
    return math.ceil(-math.log(_MISS * model.beta) / (_CHECK_SHARE * model.epsilon))


def reserve(model: BoxModel) -> int:
    """Return how many points more than it needs a side is to hold, so that the noisy count confirms them."""
    return 2 * _noise(model)


def counted(check: CheckPlan, sides: int, beyond: int) -> str:
    """Return in words what the count of the points says.

    Args:
        check: How it was made.
        sides: S.
        beyond: By how many points the side that holds the least exceeds what it needs.
    """
    if check.stripe:
        found = f"a side has {max(check.needed + beyond, 0):,} of its outermost {check.stripe:,} rows labelled 1"
        short = "so it starves" if beyond < 0 else "so it may starve"
        return f"{found} and needs {check.needed:,}, {short}"
    needed = sides * check.needed
    return f"there are {max(needed + beyond, 0):,} rows labelled 1, and the sides need {needed:,}"


def check_plan(model: BoxModel, start: InstancePlan, stripe: int) -> CheckPlan:
    """Return how `init` checks that no side starves.

    Args:
        model: The promises.
        start: What phase 1's sides are armed with.
        stripe: Records of a side's stripe; 0 where the positive records are counted as a whole.
    """
    return CheckPlan(
        epsilon=_CHECK_SHARE * model.epsilon,
        needed=start.points + start.trim,
        margin=_noise(model),
        miss=_MISS * model.beta,
        stripe=stripe,
    )
