"""From labelled rows to the database vector."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.errors import DataError
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.bisection.model import BisectionPlan
from oracle.predictors.bisection.predictor import Bisection

__all__ = ["BisectionTrainer"]

_UNIT: Final = 2.0**30
"""Values are rounded to multiples of 1/_UNIT and summed as integers, so that a row moves w* by at most 1/n, exactly."""


class BisectionTrainer:
    """Takes the labelled rows in, in any number of batches, and sums them up.

    Formal guarantees:
        * w*_j = (1/n) sum of feature j over the rows with label 1, n the *declared* number: one row that is there or
          blanked moves it by at most 1/n.
        * The result is a function of (plan, secret, rows), whatever the batches.

    Args:
        plan: The plan.
        secret: 32 uniformly random bytes: the genesis key, from which every phase key is ratcheted.
    """

    def __init__(self, plan: BisectionPlan, secret: bytes) -> None:
        self._plan = plan
        self._key = PhaseKey(secret)
        self._sums = np.zeros(len(plan.features), dtype=np.int64)
        self._rows = 0

    @property
    def missing(self) -> int:
        """Rows still wanted of the declared ones."""
        return self._plan.declared - self._rows

    def add(self, features: NDArray[np.float64], labels: NDArray[np.bool_]) -> None:
        """Take rows in; those beyond the declared number are not used.

        Args:
            features: float64[n, D], from 0 to 1.
            labels: bool[n]; rows with False count as zeros.

        Raises:
            DataError: A value is out of range.
        """
        features, labels = features[: self.missing], labels[: self.missing]
        bad = ~((features >= 0.0) & (features <= 1.0)).all(axis=0)
        if bad.any():
            name = self._plan.features[int(bad.argmax())].name
            msg = f"data: column {name}: every value must be a finite number from 0 to 1"
            raise DataError(msg)
        self._sums += np.rint(features[labels] * _UNIT).astype(np.int64).sum(axis=0)
        self._rows += len(features)

    def finish(self) -> Bisection:
        """Hand the vector to the oracle and forget it.

        Raises:
            DataError: Fewer rows came than the plan declares.
        """
        if self.missing > 0:
            msg = f"data: fewer rows than model.examples = {self._plan.declared} declares"
            raise DataError(msg)
        predictor = Bisection(self._plan, self._key.ratchet(), phase=1)
        predictor.begin(self._sums / (_UNIT * self._plan.declared))
        self._sums.fill(0)
        return predictor
