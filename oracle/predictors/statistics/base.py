"""What all predictors of questions about a table have in common."""

from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.errors import CorruptSnapshotError
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.base import StateArrays
from oracle.predictors.questions import QuestionPredictor
from oracle.predictors.statistics.sums import Rows

__all__ = ["TablePredictor"]

TablePlanT = TypeVar("TablePlanT", bound=TablePlan)


class TablePredictor(QuestionPredictor[TablePlanT]):
    """Has a table's rows."""

    def _take(self, cells: NDArray[np.int64]) -> None:
        """Take the rows in: int64[declared], each row's cell, -1 where it is blanked; in any order."""
        self._cells = np.sort(cells)
        self._rows = Rows(self._plan.layout.shape, cells)

    @classmethod
    def _reopened(cls, plan: TablePlanT, arrays: StateArrays) -> tuple[Self, NDArray[np.int64], int]:
        """Return a predictor at the round of a state, its rows, and its paid answers.

        Raises:
            CorruptSnapshotError: It is not of the plan's sizes.
        """
        sizes = {"cells": plan.declared, "weights": plan.layout.size}
        if any(name in arrays and len(arrays[name]) != size for name, size in sizes.items()):
            msg = "snapshot: its rows or cells are not those of its plan"
            raise CorruptSnapshotError(msg)
        predictor, paid = cls._reopened_at(plan, arrays)
        return predictor, np.array(arrays["cells"], dtype=np.int64), paid
