"""What all predictors of questions about a table have in common."""

from dataclasses import replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.base import Answers, StateArrays
from oracle.predictors.phased import PhasedPredictor
from oracle.predictors.statistics.sums import Rows

__all__ = ["TablePredictor"]

TablePlanT = TypeVar("TablePlanT", bound=TablePlan)


class TablePredictor(PhasedPredictor[TablePlanT]):
    """Has a table's rows, and tells of each answer what was paid, and whether it is verified."""

    def _take(self, cells: NDArray[np.int64]) -> None:
        """Take the rows in: int64[declared], each row's cell, -1 where it is blanked; in any order."""
        self._cells = np.sort(cells)
        self._rows = Rows(self._plan.layout.shape, cells)
        self._told: list[tuple[NDArray[np.int64], NDArray[np.bool_]]] = []

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        """Answer a batch in arrival order (see `Predictor.answer`)."""
        self._told = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_))]
        answers = super().answer(features, present)
        paid, verified = map(np.concatenate, zip(*self._told, strict=True))
        self._told = []
        return replace(answers, paid=paid, verified=verified)

    def _tell(self, before: int, bought: NDArray[np.bool_], verified: NDArray[np.bool_]) -> None:
        """Note what is told of a segment's answers.

        Args:
            before: Paid answers before it.
            bought: bool[n], whether the round's answer was paid.
            verified: bool[n].
        """
        self._told.append((before + np.cumsum(bought), verified))

    @classmethod
    def _reopened(cls, plan: TablePlanT, arrays: StateArrays) -> tuple[Self, NDArray[np.int64], int]:
        """Return a predictor at the round of a state, its rows, and its paid answers.

        Raises:
            CorruptSnapshotError: It is not of the plan's sizes.
        """
        rounds, phase, phase_round, paid = arrays["counters"][:4].tolist()
        sizes = {"cells": plan.declared, "weights": plan.layout.size}
        if any(name in arrays and len(arrays[name]) != size for name, size in sizes.items()) or paid > plan.paid:
            msg = "snapshot: its rows, cells or paid answers are not those of its plan"
            raise CorruptSnapshotError(msg)
        predictor = cls(plan, PhaseKey(arrays["key"].tobytes()), phase=phase)
        predictor._round, predictor._phase_round = rounds, phase_round
        return predictor, np.array(arrays["cells"], dtype=np.int64), paid
