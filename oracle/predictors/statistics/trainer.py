"""From rows' cells to a predictor of questions about a table."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.errors import DataError
from oracle.planning.statistics.model import StatisticsPlan, TablePlan
from oracle.predictors.base import Predictor, StateArrays, Trainer
from oracle.predictors.statistics.hypothesis import Hypothesis
from oracle.predictors.statistics.paper import PaperStatistics
from oracle.predictors.statistics.predictor import Statistics
from oracle.predictors.statistics.start import noisy_marginals, start_of

__all__ = ["StatisticsTrainer", "TableTrainer", "restore_hypothesis", "restore_statistics"]

TablePlanT = TypeVar("TablePlanT", bound=TablePlan)
PredictorT_co = TypeVar("PredictorT_co", bound=Predictor, covariant=True)


class TableTrainer(Trainer[TablePlanT, PredictorT_co]):
    """Takes rows in as the numbers of their cells: float64[n, A], A the number of attributes.

    Labels say whether a row is there (True) or blanked: then it counts to the declared number and to no cell.
    """

    def __init__(self, plan: TablePlanT, secret: bytes) -> None:
        super().__init__(plan, secret)
        self._shape = plan.layout.shape
        self._cells: list[NDArray[np.int64]] = []

    def _check(self, features: NDArray[np.float64]) -> None:
        bad = ~((features >= 0.0) & (features < self._shape) & (features == np.floor(features))).all(axis=0)
        if bad.any():
            attribute = self._plan.attributes[int(bad.argmax())]
            msg = f"data: attribute {attribute.name}: every cell must be a whole number from 0 to {attribute.cells - 1}"
            raise DataError(msg)

    def _take(self, features: NDArray[np.float64], labels: NDArray[np.bool_]) -> None:
        places = tuple(features.astype(np.int64).T)
        cells = np.ravel_multi_index(places, self._shape).astype(np.int64)
        self._cells.append(np.where(labels, cells, -1))

    def _all_cells(self) -> NDArray[np.int64]:
        """Return each row's cell, int64[declared], and forget them."""
        cells = np.concatenate(self._cells) if self._cells else np.empty(0, dtype=np.int64)
        self._cells.clear()
        return cells


class StatisticsTrainer(TableTrainer[StatisticsPlan, Predictor]):
    """Makes a `Statistics`, where the plan says so from noisy marginals; of profile `paper`, a `PaperStatistics`."""

    def _make(self) -> Predictor:
        cells = self._all_cells()
        if self._plan.profile == "paper":
            paper = PaperStatistics(self._plan, self._key.ratchet(), phase=1)
            paper.begin(cells, Hypothesis.uniform(self._shape), 0)
            return paper
        start = noisy_marginals(self._plan, cells, self._addresses)
        predictor = Statistics(self._plan, self._key.ratchet(), phase=1)
        predictor.begin(cells, start_of(self._plan, start, self.progress), start)
        return predictor


def restore_statistics(plan: StatisticsPlan, arrays: StateArrays) -> Predictor:
    """Take back what `Predictor.export` returned, by the plan's profile."""
    kind = PaperStatistics if plan.profile == "paper" else Statistics
    return kind.restore(plan, arrays)


def restore_hypothesis(plan: StatisticsPlan, arrays: StateArrays) -> NDArray[np.float64]:
    """Return the public hypothesis of an exported state: float64 of the table's shape, summing to 1."""
    kind = PaperStatistics if plan.profile == "paper" else Statistics
    return kind.restore(plan, arrays).hypothesis()
