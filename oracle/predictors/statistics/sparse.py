"""A sparse vector: is the share of some rows above a threshold? A "yes" is paid for, and comes with the share.

Source: Dwork et al. (2009), in the form of PRIVACY.md, Theorem 17 (or 19): no noise on the threshold, value released.
"""

from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import AnswerPaid, LedgerEvent
from oracle.mechanisms.addresses import Purpose
from oracle.mechanisms.thresholds.paid import CLOSED, PAID
from oracle.planning.statistics.model import SparseVectorPlan
from oracle.predictors.base import Answers, StateArrays
from oracle.predictors.statistics.base import TablePredictor
from oracle.predictors.statistics.paid import paid_questions, threshold_offset
from oracle.predictors.statistics.trainer import TableTrainer

__all__ = ["SparseVector", "SparseVectorTrainer"]

_FIRST = np.zeros(1, dtype=np.uint64)


class SparseVector(TablePredictor[SparseVectorPlan]):
    """One shard's threshold questions (see `oracle.predictors.base.Predictor` for the contract).

    Formal guarantees:
        * (epsilon, delta) for every training row, over all answers for ever together, also against somebody who
          chooses the questions by them (PRIVACY.md, Theorem 17 and Theorem 19). *Nothing for questions.*
        * But for beta, over the first `questions` of them: no "above" where the share is `alpha` or more below the
          threshold, no "below" where it is as far above, and each value is within `alpha`.

    Made by `SparseVectorTrainer.finish` or by `restore`.
    """

    def begin(self, cells: NDArray[np.int64], paid: int) -> None:
        """Take the rows in.

        Args:
            cells: int64[declared], each row's cell; -1 where it is blanked.
            paid: Answers that were paid for.
        """
        self._take(cells)
        self._paid = paid
        self._centre = (self._plan.paid_noise.above - self._plan.paid_noise.below) // 2
        self._questions = paid_questions(self._plan)
        self._offset = threshold_offset(self._questions, self._addresses)

    @property
    def paid(self) -> int:
        """Answers that the data paid for so far."""
        return self._paid

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        """Answer a batch in arrival order (see `Predictor.answer`): 1 for above."""
        answers = super().answer(features, present)
        assert answers.values is not None  # noqa: S101 -- see `TablePlan.answers`
        return replace(answers, labels=np.where(present, ~np.isnan(answers.values), answers.labels).astype(np.int8))

    def _answered(
        self,
        features: NDArray[np.float64],
        present: NDArray[np.bool_],
        rounds: NDArray[np.uint64],
        hashes: NDArray[np.uint64],
        events: list[LedgerEvent],
    ) -> NDArray[np.float64]:
        outcomes, values = np.full(len(features), CLOSED, dtype=np.int8), np.full(len(features), np.nan)
        before = self._paid
        asked = np.flatnonzero(present)
        if len(asked):
            rows = features[asked]
            counts = self._rows.over(self._plan.layout.masks(rows[:, :-1])).astype(np.int64)
            thresholds = np.ceil(rows[:, -1] * self._plan.declared).astype(np.int64) + self._centre
            words = self._addresses.words(Purpose.QUESTION, rounds[asked], _FIRST, hashes[asked])[0]
            given = self._questions.ask(counts, thresholds, words, spent=before, offset=self._offset)
            outcomes[asked] = given.outcomes
            paid = given.outcomes == PAID
            values[asked[paid]] = np.clip((given.values[paid] - self._centre) / self._plan.declared, 0.0, 1.0)
            for number, (row, count) in enumerate(zip(asked[paid], given.values[paid], strict=True), before + 1):
                events.append(AnswerPaid(round=self._round + int(row), paid=number, count=int(count), above=True))
            self._paid = given.spent
        self._tell(before, outcomes == PAID, outcomes != CLOSED)
        return values

    def export(self) -> StateArrays:
        """Return the whole state as arrays whose shapes depend on the plan only."""
        return {
            **self._header(self._round, self._phase, self._phase_round, self._paid),
            "cells": self._cells.copy(),
        }

    @classmethod
    def restore(cls, plan: SparseVectorPlan, arrays: StateArrays) -> Self:
        """Take back what `export` returned, under the same plan.

        Raises:
            CorruptSnapshotError: It is not of the plan's sizes.
        """
        predictor, cells, paid = cls._reopened(plan, arrays)
        predictor.begin(cells, paid)
        return predictor


class SparseVectorTrainer(TableTrainer[SparseVectorPlan, SparseVector]):
    """Makes a `SparseVector`."""

    def _make(self) -> SparseVector:
        cells = self._all_cells()
        predictor = SparseVector(self._plan, self._key.ratchet(), phase=1)
        predictor.begin(cells, 0)
        return predictor
