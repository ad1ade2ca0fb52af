"""From values to a predictor of their distribution."""

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.orders import Keys, last_key
from oracle.planning.distribution.model import DistributionPlan
from oracle.predictors.base import Predictor, StateArrays, Trainer
from oracle.predictors.distribution.paper import PaperDistribution, partition
from oracle.predictors.distribution.predictor import Distribution
from oracle.predictors.values import Values

__all__ = ["DistributionTrainer", "restore_distribution"]


class DistributionTrainer(Trainer[DistributionPlan, Predictor]):
    """Takes rows of one value in: float64[n, D], D the numbers that a value takes.

    Labels say whether a row is there (True) or blanked: then it counts to the declared number, and up to no value.
    """

    def __init__(self, plan: DistributionPlan, secret: bytes) -> None:
        super().__init__(plan, secret)
        self._values = Values(plan.features)
        self._keys: list[Keys] = []

    def _take(self, features: NDArray[np.float64], labels: NDArray[np.bool_]) -> None:
        keys = self._values.column(features, 0).copy()
        keys[~np.asarray(labels, dtype=np.bool_)] = last_key(keys.dtype)
        self._keys.append(keys)

    def _make(self) -> Predictor:
        keys = np.concatenate(self._keys)
        self._keys.clear()
        keys.sort()
        if self._plan.profile == "paper":
            paper = PaperDistribution(self._plan, self._key.ratchet(), phase=1)
            paper.begin(keys, partition(self._plan, self._addresses))
            return paper
        predictor = Distribution(self._plan, self._key.ratchet(), phase=1)
        predictor.begin(keys)
        return predictor


def restore_distribution(plan: DistributionPlan, arrays: StateArrays) -> Predictor:
    """Take back what `Predictor.export` returned, by the plan's profile."""
    kind = PaperDistribution if plan.profile == "paper" else Distribution
    return kind.restore(plan, arrays)
