"""From labelled rows to the database vector."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.errors import DataError
from oracle.planning.bisection.model import BisectionPlan
from oracle.predictors.base import Trainer
from oracle.predictors.bisection.predictor import Bisection

__all__ = ["BisectionTrainer"]

_UNIT: Final = 2.0**30
"""Values are rounded to multiples of 1/_UNIT and summed as integers, so that a row moves w* by at most 1/n, exactly."""


class BisectionTrainer(Trainer[BisectionPlan, Bisection]):
    """Takes the labelled rows in, in any number of batches, and sums them up.

    Formal guarantees:
        * w*_j = (1/n) sum of feature j over the rows with label 1, n the *declared* number: one row that is there or
          blanked moves it by at most 1/n.
    """

    def __init__(self, plan: BisectionPlan, secret: bytes) -> None:
        super().__init__(plan, secret)
        self._sums = np.zeros(len(plan.features), dtype=np.int64)

    def _check(self, features: NDArray[np.float64]) -> None:
        bad = ~((features >= 0.0) & (features <= 1.0)).all(axis=0)
        if bad.any():
            name = self._plan.features[int(bad.argmax())].name
            raise DataError(f"data: column {name}: every value must be a finite number from 0 to 1")

    def _take(self, features: NDArray[np.float64], labels: NDArray[np.bool_]) -> None:
        """Add the rows up; those with label 0 count as zeros."""
        self._sums += np.rint(features[labels] * _UNIT).astype(np.int64).sum(axis=0)

    def _make(self) -> Bisection:
        predictor = Bisection(self._plan, self._key.ratchet(), phase=1)
        predictor.begin(self._sums / (_UNIT * self._plan.declared))
        self._sums.fill(0)
        return predictor
