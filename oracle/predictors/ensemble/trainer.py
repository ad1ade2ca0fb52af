"""From labelled rows to an ensemble's first life."""

from typing import Final

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.errors import DataError
from oracle.mechanisms.addresses import Purpose
from oracle.mechanisms.noise.tables import sample
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.ensemble.tight import rows_of_class
from oracle.predictors.base import Trainer
from oracle.predictors.ensemble.dealing import owners_of
from oracle.predictors.ensemble.pool import EMPTY, Pool
from oracle.predictors.ensemble.predictor import Ensemble

__all__ = ["EnsembleTrainer"]

_ONE: Final = np.zeros(1, dtype=np.uint64)


class EnsembleTrainer(Trainer[EnsemblePlan, Ensemble]):
    """Takes the labelled rows in, counts the classes with noise, and fits the teachers of the first life.

    Formal guarantees:
        * A training row is in one teacher of the first life, by its number, and in the noisy counts of the classes,
          where shares are not declared; nowhere else (PRIVACY.md, Theorem 29).

    Attributes:
        margin: By how many rows the rarest class exceeds what it needs, with the noise of the counts, once finished;
            None where shares are declared.
    """

    def __init__(self, plan: EnsemblePlan, secret: bytes) -> None:
        super().__init__(plan, secret)
        self._pool = Pool(max(plan.declared, plan.phases[0].slots), plan.width)
        self._counts = np.zeros(len(plan.classes), dtype=np.int64)
        self.margin: int | None = None

    def _take(self, features: NDArray[np.float64], labels: NDArray[np.int8] | NDArray[np.bool_]) -> None:
        numbers = labels.astype(np.int8)
        if ((numbers < EMPTY) | (numbers >= len(self._plan.classes))).any():
            raise DataError("data: every label must be one of the model's classes")
        records = np.arange(self._rows, self._rows + len(labels), dtype=np.uint64)
        self._pool.add(features, numbers, owners_of(self._addresses, records, self._plan.teachers))
        self._counts += np.bincount(numbers[numbers != EMPTY], minlength=len(self._counts))

    def _make(self) -> Ensemble:
        counts = self._noisy_counts()
        if len(counts):
            self.margin = int(counts.min()) - rows_of_class(self._plan)
        predictor = Ensemble(self._plan, self._key.ratchet(), phase=1, counts=counts)
        predictor.begin(self._pool)
        return predictor

    def _noisy_counts(self) -> NDArray[np.int64]:
        if self._plan.share_slope is UNSET:
            return np.empty(0, dtype=np.int64)
        numbers = np.arange(len(self._counts), dtype=np.uint64)
        words = self._addresses.words(Purpose.THRESHOLD, numbers, _ONE, None)[0]  # of the genesis key: no other has it
        return self._counts + sample("discrete-laplace", self._plan.share_slope, words)
