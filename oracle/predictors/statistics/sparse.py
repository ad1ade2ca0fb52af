"""A sparse vector: is the share of some rows above a threshold? A "yes" is paid for, and comes with the share.

Source: Dwork et al. (2009), in the form of PRIVACY.md, Theorem 17 (or 19): no noise on the threshold, value released.
"""

from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.addresses import Purpose
from oracle.mechanisms.thresholds.paid import PAID
from oracle.planning.statistics.model import SparseVectorPlan
from oracle.predictors.base import Answers, StateArrays
from oracle.predictors.phased import Segment
from oracle.predictors.statistics.base import TablePredictor
from oracle.predictors.statistics.paid import paid_questions, threshold_offset
from oracle.predictors.statistics.public import Asked, Given, PaidAnswer, Questions
from oracle.predictors.statistics.thresholds import PublicThresholds
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
        * What follows from answers is not asked again, and costs nothing: `PublicThresholds`.

    Made by `SparseVectorTrainer.finish` or by `restore`.
    """

    def begin(self, cells: NDArray[np.int64]) -> None:
        """Take the rows in: int64[declared], each row's cell; -1 where it is blanked."""
        self._take(cells)
        self._public = PublicThresholds(self._plan)
        self._questions = paid_questions(self._plan)
        self._offset = threshold_offset(self._questions, self._addresses)

    @property
    def paid(self) -> int:
        """Answers that the data paid for so far."""
        return self._public.paid

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        """Answer a batch in arrival order (see `Predictor.answer`): 1 for above."""
        answers = super().answer(features, present)
        assert answers.values is not None  # noqa: S101 -- see `TablePlan.answers`
        return replace(answers, labels=np.where(present, ~np.isnan(answers.values), answers.labels).astype(np.int8))

    def _given(self, questions: Segment) -> Given:
        rows = questions.features
        asked = Questions(rows, questions.rounds, questions.hashes, self._cells_of(rows))
        return self._public.answer(asked, self._ask)

    def _cells_of(self, rows: NDArray[np.float64]) -> NDArray[np.uint64]:
        """Return keyed hashes of what questions ask for, whatever their thresholds: uint64[n]."""
        cells = rows.copy()
        cells[:, -1] = 0.0
        return self._addresses.hashes(cells, np.ones(len(cells), dtype=np.bool_))

    def _ask(self, asked: Asked) -> PaidAnswer | None:
        """Ask the rows."""
        counts = self._rows.over(asked.masks).astype(np.int64)
        thresholds = np.ceil(asked.expected).astype(np.int64) + self._plan.shift
        words = self._addresses.words(Purpose.QUESTION, asked.rounds, _FIRST, asked.hashes)[0]
        given = self._questions.ask(counts, thresholds, words, spent=self._public.paid, offset=self._offset)
        paid = np.flatnonzero(given.outcomes == PAID)
        return PaidAnswer(int(paid[0]), above=True, count=int(given.values[paid[0]])) if len(paid) else None

    def export(self) -> StateArrays:
        """Return the whole state as arrays whose shapes depend on the plan only."""
        return {
            **self._header(self._round, self._phase, self._phase_round, self._public.paid),
            "cells": self._cells.copy(),
            **self._public.export(),
        }

    @classmethod
    def restore(cls, plan: SparseVectorPlan, arrays: StateArrays) -> Self:
        """Take back what `export` returned, under the same plan.

        Raises:
            CorruptSnapshotError: It is not of the plan's sizes.
        """
        predictor, cells, paid = cls._reopened(plan, arrays)
        predictor.begin(cells)
        predictor._public.take_back(arrays, paid)  # noqa: SLF001 -- of this class
        return predictor


class SparseVectorTrainer(TableTrainer[SparseVectorPlan, SparseVector]):
    """Makes a `SparseVector`."""

    def _make(self) -> SparseVector:
        cells = self._all_cells()
        predictor = SparseVector(self._plan, self._key.ratchet(), phase=1)
        predictor.begin(cells)
        return predictor
