"""Plans that several tests read: each is made once a session."""

from collections.abc import Callable
from functools import cache
from typing import Literal

import pytest

from oracle.planning.boxes.model import BoxModel
from oracle.planning.boxes.tight import plan_tight
from oracle.planning.model import Feature
from oracle.planning.plan import BoxPlan

Planner = Callable[[BoxModel], BoxPlan]


def feature(name: str, sides: Literal["lower", "upper", "both", "none"] = "both") -> Feature:
    """Return a feature with bounds [0, 1]."""
    return Feature(name=name, sides=sides, bounds=(0.0, 1.0))


def model_of(sides: int, epsilon: float, examples: int, **others: object) -> BoxModel:
    """Return the model of a threshold (1 side) or of a rectangle in the plane (4 sides)."""
    features = (feature("a", "upper"),) if sides == 1 else (feature("a"), feature("b"))
    fields = {"name": "m", "predictor": "rectangles", "epsilon": epsilon, "examples": examples, "features": features}
    return BoxModel(**(fields | others))  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def planned() -> Planner:
    """Return the planner with a memory."""
    return cache(plan_tight)
