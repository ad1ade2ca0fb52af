"""Real plans of all kinds, states trained under them, and the queries that are asked of these."""

from functools import cache
from typing import Final, Literal

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.planning.bisection.model import BisectionModel, BisectionPlan
from oracle.planning.boxes.model import BoxModel
from oracle.planning.boxes.tight import plan_boxes
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.model import Feature
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.planner import as_classical, plan_sufficient
from oracle.planning.stumps.model import StumpsModel, StumpsPlan
from oracle.predictors.base import Predictor
from oracle.predictors.kinds import new_trainer, restore_predictor
from oracle.state.format import Snapshot
from tests.support.shards import SECRET, arrow_body

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
    return plan_boxes(box_model(dimension, epsilon, sides))


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
def stumps_plan(dimension: int, epsilon: float, examples: int = 1) -> StumpsPlan:
    """Return the plan of a stump over `dimension` features, of so many examples or the least number that works."""
    features = box_model(dimension, epsilon).features
    model = StumpsModel(name="stump", predictor="stumps", epsilon=epsilon, examples=examples, features=features)
    plan = plan_sufficient(model)
    assert isinstance(plan, StumpsPlan)
    return plan


@cache
def classical_plan(dimension: int, epsilon: float, examples: int = 1) -> ClassicalPlan:
    """Return the plan of a classical learner with the promises of the model of boxes."""
    model = as_classical(box_model(dimension, epsilon))
    assert model is not None
    plan = plan_sufficient(msgspec.structs.replace(model, examples=examples))
    assert isinstance(plan, ClassicalPlan)
    return plan


@cache
def bisection_plan(
    dimension: int, epsilon: float, rounds: int, profile: Literal["efficient", "paper"] = "efficient"
) -> BisectionPlan:
    """Return the plan of an online learner over as many directions as features, which learns for so many rounds."""
    model = BisectionModel(
        name="sum",
        predictor="bisection",
        profile=profile,
        epsilon=epsilon,
        alpha=0.5,
        rounds=rounds,
        examples=1,
        features=box_model(dimension, epsilon).features,
    )
    plan = plan_sufficient(model)
    assert isinstance(plan, BisectionPlan)
    return plan


@cache
def snapshot_of(plan: Plan) -> Snapshot:
    """Return the first snapshot, trained on uniform rows with the labels of `inside`."""
    trainer = new_trainer(plan, SECRET)
    source = np.random.default_rng(1)
    while trainer.missing > 0:
        rows = source.random((min(trainer.missing, _ROWS), len(plan.features)))
        trainer.add(rows, inside(rows))
    return Snapshot.first(plan.digest, trainer.finish().export())


def trained(plan: Plan) -> Predictor:
    """Return a predictor of its own, at round 0."""
    return restore_predictor(plan, snapshot_of(plan).arrays)
