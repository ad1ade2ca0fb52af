"""The demo's rule of flight, and the model file that declares it to the planner."""

import tomllib
from typing import TYPE_CHECKING, Final, cast

import numpy as np
from numpy.typing import NDArray

from oracle.planning.boxes.tight import least_examples
from oracle.planning.model_file import parse_model

if TYPE_CHECKING:
    from oracle.planning.boxes.model import BoxModel

__all__ = ["EPSILON", "FIRST_SHARE", "LEAST_VISIBILITY", "MOST_WIND", "allowed", "least_flights", "model", "model_text"]

LEAST_VISIBILITY: Final = 3.0
"""Statute miles: basic VFR weather minimums in controlled airspace below 10,000 feet, 14 CFR 91.155; also what a
student pilot needs by day, 14 CFR 61.89(a)(6)."""

MOST_WIND: Final = 12.0
"""Knots: a limit of the kind that flight schools set for a student's solo flights (14 CFR 61.87 leaves it to them)."""

EPSILON: Final = 4.0
"""The smallest round epsilon at which the first phase ends well before the year does, so that the demo shows how the
oracle renews itself. Without it 1.5 is enough for these flights (see `report.what_next`)."""

FIRST_SHARE: Final = 0.12
"""Of the error budget, for phase 1. The planner's own choice (about 0.8) needs fewer examples, but its first phase
lasts five times as many queries as the demo has."""

_TEXT: Final = """\
# May a student pilot take off by sight? Yes if the visibility is at least {visibility:g} statute miles (14 CFR 91.155)
# and the wind at most {wind:g} knots (a flight school's limit). The oracle is told neither number.

[model]
name = "flights"
predictor = "rectangles"
epsilon = {epsilon:g}
delta = 1e-3       # bound on the sum of delta over the training set and all queries, for ever
alpha = 0.1        # at most this error
gamma = 1.0        # every query is an ordinary one; an adversary's share would be 1 - gamma
examples = {examples}  # declared, never counted from the data
{first_share}
# Only the sides that the box can have: each side needs rows of its own.
[[model.features]]
name = "visibility"  # statute miles
sides = "lower"

[[model.features]]
name = "wind"  # knots
sides = "upper"
"""


def allowed(visibility: NDArray[np.float64], wind: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether the rule allows a flight.

    Args:
        visibility: float64[n], statute miles.
        wind: float64[n], knots.
    """
    return (visibility >= LEAST_VISIBILITY) & (wind <= MOST_WIND)


def model_text(examples: int, *, epsilon: float = EPSILON, first_share: float | None = FIRST_SHARE) -> str:
    """Return the model file (TOML); a `first_share` of None is left to the planner."""
    line = "" if first_share is None else f"first_share = {first_share:g}  # small: short phases, more examples\n"
    return _TEXT.format(
        visibility=LEAST_VISIBILITY, wind=MOST_WIND, epsilon=epsilon, examples=examples, first_share=line
    )


def model(examples: int, *, epsilon: float = EPSILON, first_share: float | None = FIRST_SHARE) -> "BoxModel":
    """Return the same as a checked `Model`."""
    document = tomllib.loads(model_text(examples, epsilon=epsilon, first_share=first_share))
    return cast("BoxModel", parse_model(document))


def least_flights(examples: int) -> int:
    """Return how many labelled flights this rule would need at epsilon 1, with everything left to the planner."""
    return least_examples(model(examples, epsilon=1.0, first_share=None))
