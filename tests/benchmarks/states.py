"""Real plans and trained states of boxes, and the queries that are asked of them."""

from functools import cache
from typing import Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.planning.box_model import BoxModel
from oracle.planning.model import Feature
from oracle.planning.plan import BoxPlan
from oracle.planning.tight import plan_or_wish
from oracle.predictors.rectangles import RectanglesPERP, RectanglesTrainer
from oracle.state.format import Snapshot
from tests.support.shards import SECRET, arrow_body

__all__ = ["box_model", "box_plan", "inside", "queries", "query_body", "snapshot_of", "trained"]

_MARGIN: Final = 0.05
"""Part of each feature's range that lies outside the box, on each side."""

_ROWS: Final = 50_000

Sides = Literal["lower", "upper", "both"]


def box_model(dimension: int, epsilon: float, sides: Sides = "both") -> BoxModel:
    """Return a model of `dimension` features with bounds [0, 1] that leaves the number of examples to the planner."""
    features = tuple(Feature(name=f"x{index}", sides=sides, bounds=(0.0, 1.0)) for index in range(dimension))
    return BoxModel(name="box", predictor="rectangles", epsilon=epsilon, examples=1, features=features)


@cache
def box_plan(dimension: int, epsilon: float, sides: Sides = "both") -> BoxPlan:
    """Return its plan; it declares the least number of examples that works."""
    return plan_or_wish(box_model(dimension, epsilon, sides))


def queries(count: int, dimension: int, seed: int) -> NDArray[np.float64]:
    """Return uniform rows: float64[count, dimension]."""
    return np.random.default_rng(seed).random((count, dimension))


def inside(rows: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which rows lie in the box that the states are trained on."""
    return np.asarray(((rows > _MARGIN) & (rows < 1.0 - _MARGIN)).all(axis=1))


def query_body(rows: NDArray[np.float64]) -> bytes:
    """Return rows as one Arrow message."""
    return arrow_body(pa.table({f"x{index}": column for index, column in enumerate(rows.T)}))


@cache
def snapshot_of(plan: BoxPlan) -> Snapshot:
    """Return the first snapshot, trained on uniform rows with the labels of `inside`."""
    trainer = RectanglesTrainer(plan, SECRET)
    source = np.random.default_rng(1)
    while trainer.missing > 0:
        rows = source.random((min(trainer.missing, _ROWS), len(plan.features)))
        trainer.add(rows, inside(rows))
    return Snapshot.first(plan.digest, trainer.finish().export())


def trained(plan: BoxPlan) -> RectanglesPERP:
    """Return a predictor of its own, at round 0."""
    return RectanglesPERP.restore(plan, snapshot_of(plan).arrays)
