"""Statistics, served: private multiplicative weights over a table, with paid questions.

Source: Hardt and Rothblum (2010), as in Ziani's lecture, Algorithm 2; PRIVACY.md, section 14.
"""

from dataclasses import replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import LedgerEvent, MarginalsReleased
from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.addresses import Purpose
from oracle.mechanisms.thresholds.paid import PAID
from oracle.planning.statistics.model import StatisticsPlan
from oracle.predictors.base import Answers, StateArrays
from oracle.predictors.phased import Segment
from oracle.predictors.statistics.base import TablePredictor
from oracle.predictors.statistics.hypothesis import Hypothesis
from oracle.predictors.statistics.paid import paid_questions, threshold_offset
from oracle.predictors.statistics.public import Asked, Given, PaidAnswer, PublicSide, Questions
from oracle.predictors.statistics.released import Interval
from oracle.predictors.statistics.repeats import Repeats
from oracle.predictors.statistics.start import others, split_marginals

__all__ = ["Statistics"]

_ABOVE: Final = 0
_BELOW: Final = 1
_SIDES: Final = np.array([_ABOVE, _BELOW], dtype=np.uint64)
"""Sides of a noise address: is there more than expected, is there less."""


class Statistics(TablePredictor[StatisticsPlan]):
    """One shard's answers about a table (see `oracle.predictors.base.Predictor` for the contract).

    Formal guarantees:
        * (epsilon, delta) for every training row, over all answers for ever together, also against somebody who sees
          them all and chooses the questions by them (PRIVACY.md, Theorem 23): everything but the rows is in a
          `PublicSide`, which learns of the rows by `PaidQuestions`, and by the noisy marginals of the start.
        * *Nothing for questions.* They are used in the clear, and what one of them taught decides later answers.
        * Utility: PRIVACY.md, Theorem 24, under the plan's conditions.

    Made by `StatisticsTrainer.finish` or by `restore`.
    """

    def begin(self, cells: NDArray[np.int64], hypothesis: Hypothesis, start: NDArray[np.int64]) -> None:
        """Take the rows in.

        Args:
            cells: int64[declared], each row's cell; -1 where it is blanked. In any order.
            hypothesis: What to start from; changed by and by.
            start: int64, what `noisy_marginals` released.
        """
        self._take(cells)
        self._start = start
        self._public = PublicSide(self._plan, hypothesis, start)
        self._questions = paid_questions(self._plan)
        self._offset = threshold_offset(self._questions, self._addresses)

    def hypothesis(self) -> NDArray[np.float64]:
        """Return h: float64 of the table's shape, summing to 1. It may be given away."""
        return self._public.hypothesis.weights / self._public.hypothesis.total

    def others(self) -> list[tuple[str, float]]:
        """Return which attributes have many rows of no declared category, and their share: public."""
        return others(self._plan, self._start)

    @property
    def paid(self) -> int:
        """Answers that the data paid for so far."""
        return self._public.paid

    @property
    def moved(self) -> float:
        """KL of all moves onto what was paid for, together, in nats; not those onto marginals. Public."""
        return self._public.moved

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        """Answer a batch in arrival order (see `Predictor.answer`)."""
        started = self._started() if self._round == 0 and len(features) else []
        answers = super().answer(features, present)
        return replace(answers, events=[*started, *answers.events])

    def _started(self) -> list[LedgerEvent]:
        """Return what is public of the start."""
        if not len(self._start):
            return []
        counts = tuple(tuple(part.reshape(-1).tolist()) for part in split_marginals(self._plan, self._start))
        return [MarginalsReleased(round=0, counts=counts)]

    def _given(self, questions: Segment) -> Given:
        hashes = questions.hashes
        return self._public.answer(Questions(questions.features, questions.rounds, hashes, hashes), self._ask)

    def _ask(self, asked: Asked) -> PaidAnswer | None:
        """Ask the rows: more than expected, and if not, less?"""
        counts = self._rows.over(asked.masks).astype(np.int64)
        words = self._addresses.words(Purpose.QUESTION, asked.rounds, _SIDES, asked.hashes)
        margin = self._plan.margin_at(self._public.paid)
        above = self._paid(counts, np.ceil(asked.expected).astype(np.int64) + margin, words[_ABOVE])
        below = self._paid(-counts, margin - np.floor(asked.expected).astype(np.int64), words[_BELOW])
        if above is None and below is None:
            return None
        if below is None or (above is not None and above[0] <= below[0]):
            assert above is not None  # noqa: S101 -- one of the two is
            return PaidAnswer(above[0], above=True, count=above[1])
        return PaidAnswer(below[0], above=False, count=-below[1])

    def _paid(
        self, counts: NDArray[np.int64], thresholds: NDArray[np.int64], words: NDArray[np.uint64]
    ) -> tuple[int, int] | None:
        """Return the first question that is paid for, and its noisy count."""
        answers = self._questions.ask(counts, thresholds, words, spent=self._public.paid, offset=self._offset)
        paid = np.flatnonzero(answers.outcomes == PAID)
        return (int(paid[0]), int(answers.values[paid[0]])) if len(paid) else None

    def export(self) -> StateArrays:
        """Return the whole state as arrays whose shapes depend on the plan only."""
        public = self._public
        return {
            **self._header(self._round, self._phase, self._phase_round, public.paid, len(public.released)),
            "cells": self._cells.copy(),
            "start": self._start.copy(),
            "weights": public.hypothesis.weights.reshape(-1).copy(),
            "moved": np.array([public.moved]),
            "released": public.released.questions,
            "released_bounds": public.released.bounds,
            **public.repeats.export(),
        }

    @classmethod
    def restore(cls, plan: StatisticsPlan, arrays: StateArrays) -> Self:
        """Take back what `export` returned, under the same plan.

        Raises:
            CorruptSnapshotError: It is not of the plan's sizes.
        """
        predictor, cells, paid = cls._reopened(plan, arrays)
        weights = np.array(arrays["weights"], dtype=np.float64).reshape(plan.layout.shape)
        start = np.array(arrays["start"], dtype=np.int64)
        predictor.begin(cells, Hypothesis(weights), start)
        predictor._take_back(arrays, paid)  # noqa: SLF001 -- of this class
        return predictor

    def _take_back(self, arrays: StateArrays, paid: int) -> None:
        """Take back what was learned from paid answers, and what was answered last."""
        released = int(arrays["counters"][4])
        if released > paid:
            raise CorruptSnapshotError("snapshot: more was released than was paid for")
        public = self._public
        public.paid, public.moved = paid, float(arrays["moved"][0])
        for row, (low, high) in zip(arrays["released"][:released], arrays["released_bounds"][:released], strict=True):
            public.released.add(np.asarray(row, dtype=np.float64), Interval(float(low), float(high)))
        public.repeats = Repeats.restore(arrays)
