"""What all predictors of questions about a table have in common."""

from abc import abstractmethod
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import AnswerPaid, LedgerEvent
from oracle.errors import CorruptSnapshotError
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.base import StateArrays
from oracle.predictors.phased import Segment
from oracle.predictors.questions import QuestionPredictor
from oracle.predictors.statistics.public import Given
from oracle.predictors.statistics.sums import Rows

__all__ = ["TablePredictor"]

TablePlanT = TypeVar("TablePlanT", bound=TablePlan)


class TablePredictor(QuestionPredictor[TablePlanT]):
    """Has a table's rows, and tells of each answer what was paid."""

    def _take(self, cells: NDArray[np.int64]) -> None:
        """Take the rows in: int64[declared], each row's cell, -1 where it is blanked; in any order."""
        self._cells = np.sort(cells)
        self._rows = Rows(self._plan.layout.shape, cells)

    def _answered(self, segment: Segment, events: list[LedgerEvent]) -> NDArray[np.float64]:
        asked = np.flatnonzero(segment.present)
        before, given = self.paid, self._given(segment.part(asked))
        values = np.full(len(segment), np.nan)
        verified, bought = np.zeros((2, len(segment)), dtype=np.bool_)
        values[asked], verified[asked] = given.values, given.verified
        for number, paid in enumerate(given.released, before + 1):
            row = int(asked[paid.number])
            bought[row] = True
            events.append(AnswerPaid(round=self._round + row, paid=number, count=paid.count, above=paid.above))
        self._tell(before, bought, verified)
        return values

    @abstractmethod
    def _given(self, questions: Segment) -> Given:
        """Answer questions, all of them present."""

    @classmethod
    def _reopened(cls, plan: TablePlanT, arrays: StateArrays) -> tuple[Self, NDArray[np.int64], int]:
        """Return a predictor at the round of a state, its rows, and its paid answers.

        Raises:
            CorruptSnapshotError: It is not of the plan's sizes.
        """
        sizes = {"cells": plan.declared, "weights": plan.layout.size}
        if any(name in arrays and len(arrays[name]) != size for name, size in sizes.items()):
            raise CorruptSnapshotError("snapshot: its rows or cells are not those of its plan")
        predictor, paid = cls._reopened_at(plan, arrays)
        return predictor, np.array(arrays["cells"], dtype=np.int64), paid
