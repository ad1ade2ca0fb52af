"""PrivateMW with NumericSparse, as the lecture has it (Ziani, Algorithm 2; Dwork and Roth, 2014, Algorithm 3).

Its constants are the corrected ones of PRIVACY.md, section 14. Laplace noise is rounded down to whole rows, as all
noise of profiles `paper` is; no theorem with explicit constants covers that, so its epsilon is nominal.
"""

from typing import Final, Self

import mpmath
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.errors import PlanError
from oracle.mechanisms.addresses import Purpose
from oracle.mechanisms.noise.tables import sample
from oracle.planning.statistics.model import NumericSparsePlan, StatisticsPlan
from oracle.predictors.base import StateArrays
from oracle.predictors.phased import Segment
from oracle.predictors.statistics.base import TablePredictor
from oracle.predictors.statistics.hypothesis import Hypothesis
from oracle.predictors.statistics.public import Given, PaidAnswer

__all__ = ["PaperStatistics"]

_FEW: Final = 64
_SIDES: Final = np.arange(3, dtype=np.uint64)
"""Sides of a noise address: is there more than expected, is there less, and the value."""


class PaperStatistics(TablePredictor[StatisticsPlan]):
    """One shard of profile `paper` (see `oracle.predictors.base.Predictor` for the contract).

    Made by `StatisticsTrainer.finish` or by `restore`.
    """

    def begin(self, cells: NDArray[np.int64], hypothesis: Hypothesis, paid: int) -> None:
        """Take the rows in: int64[declared], each row's cell, -1 where it is blanked."""
        self._take(cells)
        self._hypothesis = hypothesis
        self._paid = paid

    @property
    def _sizes(self) -> NumericSparsePlan:
        if self._plan.paper is UNSET:
            raise PlanError("plan.paper: must be set")
        return self._plan.paper

    @property
    def paid(self) -> int:
        """Answers that the data paid for so far."""
        return self._paid

    def hypothesis(self) -> NDArray[np.float64]:
        """Return x^t: float64 of the table's shape, summing to 1."""
        return self._hypothesis.weights / self._hypothesis.total

    def _given(self, questions: Segment) -> Given:
        count = len(questions)
        values, verified = np.empty(count), np.empty(count, dtype=np.bool_)
        released: list[PaidAnswer] = []
        start, size = 0, _FEW
        while start < count:
            part = questions.part(slice(start, start + size))
            shares = self._free(part)
            stop = start + len(shares)
            values[start:stop], verified[start:stop] = shares, self._paid < self._plan.paid
            start, size = stop, 2 * size
            if len(shares) < len(part):
                released.append(self._numeric(questions.part(slice(stop, stop + 1)), stop))
                values[stop], verified[stop] = min(max(released[-1].count / self._plan.declared, 0.0), 1.0), True
                start, size = stop + 1, _FEW
        return Given(values, verified, released)

    def _free(self, questions: Segment) -> NDArray[np.float64]:
        """Return the answers to the questions before the first that is paid for."""
        masks = self._plan.layout.masks(questions.features)
        shares = self._hypothesis.shares(masks)
        free = len(questions)
        if self._paid < self._plan.paid:
            above, below = self._gaps(masks, shares)
            words = self._addresses.words(Purpose.QUESTION, questions.rounds, _SIDES[:2], questions.hashes)
            slope, threshold = self._sizes.slope, self._threshold()
            noisy = (above + sample("laplace", slope, words[0]), below + sample("laplace", slope, words[1]))
            paid = np.flatnonzero((noisy[0] >= threshold) | (noisy[1] >= threshold))
            free = int(paid[0]) if len(paid) else free
        return shares[:free]

    def _gaps(
        self, masks: list[NDArray[np.bool_]], shares: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return by how many rows the data exceed the hypothesis, and fall short of it: int64[n] each, rounded down."""
        counts = self._rows.over(masks).astype(np.int64)
        expected = shares * self._plan.declared
        return counts - np.ceil(expected).astype(np.int64), np.floor(expected).astype(np.int64) - counts

    def _threshold(self) -> int:
        """Return the noisy threshold, in rows: drawn anew behind each paid answer."""
        number = np.array([self._paid], dtype=np.uint64)
        words = self._addresses.words(Purpose.THRESHOLD, number, _SIDES[:1], None)[0]
        noise = int(sample("laplace", self._sizes.threshold_slope, words)[0])
        return int(np.ceil(self._sizes.threshold * self._plan.declared)) + noise

    def _numeric(self, question: Segment, number: int) -> PaidAnswer:
        """Answer a question with the noisy gap, from noise of its own, and learn from it."""
        masks = self._plan.layout.masks(question.features)
        shares = self._hypothesis.shares(masks)
        gaps = self._gaps(masks, shares)
        words = self._addresses.words(Purpose.QUESTION, question.rounds, _SIDES, question.hashes)
        over = bool((gaps[0] + sample("laplace", self._sizes.slope, words[0]) >= self._threshold())[0])
        gap = int((gaps[0 if over else 1] + sample("laplace", self._sizes.value_slope, words[2]))[0])
        count = round(shares[0] * self._plan.declared) + (gap if over else -gap)
        self._paid += 1
        value = count / self._plan.declared
        shrunk = float(mpmath.exp(-mpmath.mpf(self._sizes.rate)))
        within, beyond = (shrunk, 1.0) if value < shares[0] else (1.0, shrunk)
        self._hypothesis.weigh([mask[0] for mask in masks], within, beyond)
        return PaidAnswer(number, above=over, count=count)

    def export(self) -> StateArrays:
        """Return the whole state as arrays whose shapes depend on the plan only."""
        return {
            **self._header(self._round, self._phase, self._phase_round, self._paid),
            "cells": self._cells.copy(),
            "weights": self._hypothesis.weights.reshape(-1).copy(),
        }

    @classmethod
    def restore(cls, plan: StatisticsPlan, arrays: StateArrays) -> Self:
        """Take back what `export` returned, under the same plan.

        Raises:
            CorruptSnapshotError: It is not of the plan's sizes.
        """
        predictor, cells, paid = cls._reopened(plan, arrays)
        weights = np.array(arrays["weights"], dtype=np.float64).reshape(plan.layout.shape)
        predictor.begin(cells, Hypothesis(weights), paid)
        return predictor
