"""A short search for the numbers in a box that make a figure small, and what is tried where these do not do."""

import itertools
from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np
import scipy  # which loads its parts when they are asked for
from numpy.typing import NDArray

from oracle.errors import PlanError

__all__ = ["first_enough", "least_in_box"]

ResultT = TypeVar("ResultT")

_REFUSED: Final = 1e3
"""The figure of a point that has none: above the logarithm of any number, and finite, as the search subtracts."""


def least_in_box(  # noqa: PLR0913 -- a box, where to begin, and how long
    objective: Callable[[NDArray[np.float64]], float],
    lowest: NDArray[np.float64],
    highest: NDArray[np.float64],
    guess: NDArray[np.float64],
    *,
    steps: int,
    progress: Callable[[int], None],
) -> NDArray[np.float64]:
    """Minimise by Nelder-Mead in the box's logit coordinates, over numbers of four decimal places.

    Args:
        objective: What is to be small; a point at which it raises `PlanError` is the worst.
        lowest: float64[k], the box's lower corner.
        highest: float64[k], its upper corner.
        guess: float64[k], inside.
        steps: Points that are tried at most.
        progress: Called before each with its number, from 1.

    Returns:
        float64[k], the best point.
    """

    def inside(point: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.round(lowest + (highest - lowest) / (1.0 + np.exp(-np.clip(point, -30.0, 30.0))), 4)

    numbers = itertools.count(1)

    def figure(point: NDArray[np.float64]) -> float:
        progress(next(numbers))
        try:
            return objective(inside(point))
        except PlanError:
            return _REFUSED

    unit = (guess - lowest) / (highest - lowest)
    found = scipy.optimize.minimize(
        figure,
        np.log(unit / (1.0 - unit)),
        method="Nelder-Mead",
        options={"maxfev": steps, "xatol": 3e-2, "fatol": 3e-4},
    )
    return inside(found.x)


def first_enough(*ways: Callable[[], ResultT], enough: Callable[[ResultT], bool]) -> ResultT:
    """Return the result of the first way that is enough, or else of the first that has any.

    Raises:
        PlanError: None has; it is the first way's.
    """
    results: list[ResultT] = []
    refusals: list[PlanError] = []
    for way in ways:
        try:
            results.append(way())
            if enough(results[-1]):
                return results[-1]
        except PlanError as exc:
            refusals.append(exc)
    if not results:
        raise refusals[0]
    return results[0]
