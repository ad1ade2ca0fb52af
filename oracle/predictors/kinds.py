"""The kinds of predictors, by the name that a model file gives: who trains them, and who takes their state back.

Their models and plans stand in `oracle.planning.kinds`; both tables have the same names.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.statistics.model import SparseVectorPlan, StatisticsPlan
from oracle.planning.stumps.model import StumpsPlan
from oracle.predictors.base import Predictor, StateArrays, Trainer
from oracle.predictors.bisection.predictor import Bisection
from oracle.predictors.bisection.trainer import BisectionTrainer
from oracle.predictors.classical import ClassicalPredictor, ClassicalTrainer
from oracle.predictors.distribution.trainer import DistributionTrainer, restore_distribution
from oracle.predictors.ensemble.predictor import Ensemble
from oracle.predictors.ensemble.trainer import EnsembleTrainer
from oracle.predictors.rectangles import RectanglesPERP, RectanglesTrainer
from oracle.predictors.statistics.sparse import SparseVector, SparseVectorTrainer
from oracle.predictors.statistics.trainer import StatisticsTrainer, restore_statistics
from oracle.predictors.stumps import StumpsPERP, StumpsTrainer

__all__ = ["PREDICTORS", "PredictorKind", "new_trainer", "points_beyond", "restore_predictor"]

PlanT = TypeVar("PlanT", bound=Plan)


class PredictorKind(NamedTuple, Generic[PlanT]):
    """What makes and restores one kind of predictor.

    Attributes:
        trainer: Of a plan and the genesis key: 32 uniformly random bytes, which only it and what it makes may know.
        restore: Of a plan and what `Predictor.export` returned under it. A state's noise, hashes and tags must all
            follow from the array `key`: a fork exchanges it.
    """

    trainer: Callable[[PlanT, bytes], Trainer[PlanT, Predictor]]
    restore: Callable[[PlanT, StateArrays], Predictor]


PREDICTORS: Final[Mapping[str, PredictorKind[Any]]] = {
    "rectangles": PredictorKind[BoxPlan](RectanglesTrainer, RectanglesPERP.restore),
    "stumps": PredictorKind[StumpsPlan](StumpsTrainer, StumpsPERP.restore),
    "bisection": PredictorKind[BisectionPlan](BisectionTrainer, Bisection.restore),
    "classical": PredictorKind[ClassicalPlan](ClassicalTrainer, ClassicalPredictor.restore),
    "sparse-vector": PredictorKind[SparseVectorPlan](SparseVectorTrainer, SparseVector.restore),
    "ensemble": PredictorKind[EnsemblePlan](EnsembleTrainer, Ensemble.restore),
    "distribution": PredictorKind[DistributionPlan](DistributionTrainer, restore_distribution),
    "statistics": PredictorKind[StatisticsPlan](StatisticsTrainer, restore_statistics),
}
"""Every kind there is, as in `oracle.planning.kinds.KINDS`."""


def new_trainer(plan: Plan, secret: bytes) -> Trainer[Any, Predictor]:
    """Return a trainer of the plan's predictor.

    Args:
        plan: The plan.
        secret: 32 uniformly random bytes: the genesis key.
    """
    return PREDICTORS[plan.predictor].trainer(plan, secret)


def points_beyond(trainer: Trainer[Any, Predictor]) -> int | None:
    """Return what a finished trainer released of its rows (`RectanglesTrainer.margin`), if its plan has it."""
    return trainer.margin if isinstance(trainer, RectanglesTrainer | EnsembleTrainer) else None


def restore_predictor(plan: Plan, arrays: StateArrays) -> Predictor:
    """Return the predictor whose state `Predictor.export` returned, under the same plan."""
    return PREDICTORS[plan.predictor].restore(plan, arrays)
