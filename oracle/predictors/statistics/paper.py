"""PrivateMW with NumericSparse, as the lecture has it (Ziani, Algorithm 2; Dwork and Roth, 2014, Algorithm 3).

Its constants are the corrected ones of PRIVACY.md, section 14. Laplace noise is rounded down to whole rows, as all
noise of profiles `paper` is; no theorem with explicit constants covers that, so its epsilon is nominal.
"""

from typing import Final, Self

import mpmath
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.accounting.ledger import AnswerPaid, LedgerEvent
from oracle.errors import PlanError
from oracle.mechanisms.addresses import Purpose
from oracle.mechanisms.noise.tables import sample
from oracle.planning.statistics.model import NumericSparsePlan, StatisticsPlan
from oracle.predictors.base import StateArrays
from oracle.predictors.statistics.base import TablePredictor
from oracle.predictors.statistics.hypothesis import Hypothesis

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
            msg = "plan.paper: must be set"
            raise PlanError(msg)
        return self._plan.paper

    @property
    def paid(self) -> int:
        """Answers that the data paid for so far."""
        return self._paid

    def hypothesis(self) -> NDArray[np.float64]:
        """Return x^t: float64 of the table's shape, summing to 1."""
        return self._hypothesis.weights / self._hypothesis.total

    def _answered(
        self,
        features: NDArray[np.float64],
        present: NDArray[np.bool_],
        rounds: NDArray[np.uint64],
        hashes: NDArray[np.uint64],
        events: list[LedgerEvent],
    ) -> NDArray[np.float64]:
        values = np.full(len(features), np.nan)
        before, bought = self._paid, np.zeros(len(features), dtype=np.bool_)
        verified = np.zeros(len(features), dtype=np.bool_)
        asked = np.flatnonzero(present)
        start, size = 0, _FEW
        while start < len(asked):
            part = asked[start : start + size]
            free = self._free(features[part], rounds[part], hashes[part], values, part)
            verified[part[:free]] = self._paid < self._plan.paid
            start, size = start + free, 2 * size
            if free < len(part):
                row = int(part[free])
                values[row] = self._numeric(features[row], rounds[row : row + 1], hashes[row : row + 1], events, row)
                verified[row] = bought[row] = True
                start, size = start + 1, _FEW
        self._tell(before, bought, verified)
        return values

    def _free(
        self,
        features: NDArray[np.float64],
        rounds: NDArray[np.uint64],
        hashes: NDArray[np.uint64],
        values: NDArray[np.float64],
        part: NDArray[np.intp],
    ) -> int:
        """Answer the questions before the first that is paid for, into `values`; return how many there are."""
        masks = self._plan.layout.masks(features)
        shares = self._hypothesis.shares(masks)
        free = len(part)
        if self._paid < self._plan.paid:
            above, below = self._gaps(masks, shares)
            words = self._addresses.words(Purpose.QUESTION, rounds, _SIDES[:2], hashes)
            slope, threshold = self._sizes.slope, self._threshold()
            noisy = (above + sample("laplace", slope, words[0]), below + sample("laplace", slope, words[1]))
            paid = np.flatnonzero((noisy[0] >= threshold) | (noisy[1] >= threshold))
            free = int(paid[0]) if len(paid) else free
        values[part[:free]] = shares[:free]
        return free

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

    def _numeric(
        self,
        row: NDArray[np.float64],
        rounds: NDArray[np.uint64],
        hashes: NDArray[np.uint64],
        events: list[LedgerEvent],
        number: int,
    ) -> float:
        """Answer a question with the noisy gap, from noise of its own, and learn from it."""
        masks = self._plan.layout.masks(row[None])
        shares = self._hypothesis.shares(masks)
        gaps = self._gaps(masks, shares)
        words = self._addresses.words(Purpose.QUESTION, rounds, _SIDES, hashes)
        over = bool((gaps[0] + sample("laplace", self._sizes.slope, words[0]) >= self._threshold())[0])
        gap = int((gaps[0 if over else 1] + sample("laplace", self._sizes.value_slope, words[2]))[0])
        count = round(shares[0] * self._plan.declared) + (gap if over else -gap)
        self._paid += 1
        events.append(AnswerPaid(round=self._round + number, paid=self._paid, count=count, above=over))
        value = count / self._plan.declared
        shrunk = float(mpmath.exp(-mpmath.mpf(self._sizes.rate)))
        within, beyond = (shrunk, 1.0) if value < shares[0] else (1.0, shrunk)
        self._hypothesis.weigh([mask[0] for mask in masks], within, beyond)
        return float(min(max(value, 0.0), 1.0))

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
