"""Distributions, served: thresholds on all rows, each of which retires when a comparison with it is paid for.

Source: Bun, Steinke and Ullman (2017), Section 5, without a partition: PRIVACY.md, section 16.
"""

from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import AnswerPaid, LedgerEvent
from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.addresses import MAX_SIDES, Purpose
from oracle.mechanisms.orders import Keys
from oracle.mechanisms.thresholds.paid import PAID, PaidQuestions
from oracle.planning.distribution.model import DistributionPlan
from oracle.predictors.base import StateArrays
from oracle.predictors.distribution.base import AT, SortedRows
from oracle.predictors.distribution.ladder import Ladder, Outcome
from oracle.predictors.phased import Segment

__all__ = ["Distribution"]

_STEPS: Final = 16
"""Draws that are made together; a power of 2 below `MAX_SIDES`."""


class Distribution(SortedRows):
    """One shard's answers about a distribution (see `oracle.predictors.base.Predictor` for the contract).

    Formal guarantees:
        * (epsilon, delta) for every training row, over all answers for ever together, also against somebody who sees
          them all and chooses the questions by them (PRIVACY.md, Theorem 30): everything but the rows is in a
          `Ladder`, which learns of the rows by `PaidQuestions`.
        * *Nothing for questions.* They are used in the clear, and what one of them taught decides later answers.
        * Utility: PRIVACY.md, Theorem 31, for the first so many comparisons (`DistributionPlan.comparisons`).

    Made by `DistributionTrainer.finish` or by `restore`.
    """

    def begin(self, keys: Keys) -> None:
        """Take the rows in: [declared] keys in order, those of blanked rows beyond all others."""
        plan = self._plan
        self._take(keys)
        self._ladder = Ladder(plan, keys.dtype, self._domain)
        self._questions = PaidQuestions("logistic", plan.thresholds.slope, plan.paid)
        self._lows = np.array(plan.lows, dtype=np.int64)
        middles = (self._lows[1:] + self._lows[:-1] + plan.thresholds.gap) / (2.0 * plan.declared)
        self._levels = np.concatenate(([plan.error], middles, [1.0 - plan.error]))
        self._quantiles: dict[int, NDArray[np.float64]] = {}

    @property
    def paid(self) -> int:
        """Answers that the data paid for so far."""
        return self._ladder.paid

    def _answered(self, segment: Segment, events: list[LedgerEvent]) -> NDArray[np.float64]:
        ladder, count, features = self._ladder, len(segment), segment.features
        found, before = features[:, :-1].copy(), ladder.paid
        thresholds = np.searchsorted(self._levels, features[:, -1], side="right") - 1
        unknown = self._fill(found, segment.present & (features[:, -1] != AT), thresholds)
        slots, closed = ladder.slots(self._values.column(found, 0))
        values, verified = np.empty(count), np.full(count, ladder.verified)
        bought, start = np.zeros(count, dtype=np.bool_), 0
        for row in np.flatnonzero(segment.present & (unknown | ~closed)).tolist():
            shares, ask = ladder.shares, _Comparisons(self, segment.part(slice(row, row + 1)))
            if unknown[row]:
                rank = ladder.search(int(thresholds[row]), ask, lambda rank: self._key_of(self._row_at(rank)))
                found[row] = self._row_at(rank)
            slots[row] = ladder.close(self._key_of(found[row]), ask)
            verified[row:] = ladder.verified
            if ask.paid is not None:
                values[start:row] = shares[slots[start:row]]
                bought[row], start = True, row
                events.append(AnswerPaid(round=self._round + row, paid=ladder.paid, count=ask.paid))
        values[start:] = ladder.shares[slots[start:]]
        self._tell(before, bought, verified)
        self._found.append(found)
        return values

    def _fill(
        self, found: NDArray[np.float64], asked: NDArray[np.bool_], thresholds: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Put the quantiles in that are known; return which rows ask for others: bool[n]."""
        unknown = np.zeros(len(found), dtype=np.bool_)
        for threshold in np.unique(thresholds[asked]).tolist():
            rows = asked & (thresholds == threshold)
            quantile = self._known(threshold)
            if quantile is None:
                unknown |= rows
            else:
                found[rows] = quantile
        return unknown

    def _known(self, threshold: int) -> NDArray[np.float64] | None:
        """Return the numbers of the quantile at a threshold, None if it is not known yet."""
        if threshold not in self._quantiles:
            rank = self._ladder.found(threshold) if 0 <= threshold < self._plan.paid else self._end(threshold)
            if rank is None:
                return None
            self._quantiles[threshold] = self._row_at(rank)
        return self._quantiles[threshold]

    def _end(self, threshold: int) -> int:
        """Return the rank of the first value of all, or of the last one: within the error of what is asked for."""
        return 0 if threshold < 0 else self._domain.size - 1

    def compare(self, key: Any, threshold: int, words: NDArray[np.uint64]) -> Outcome:  # noqa: ANN401
        """Compare the count up to a value with a threshold.

        Args:
            key: The value's key.
            threshold: Number of the threshold.
            words: uint64[1, 2], uniform bits that serve nothing else.
        """
        lows = self._lows[threshold : threshold + 1]
        told = self._questions.ask(
            np.array([self._count(key)]),
            lows,
            words,
            spent=self._ladder.paid,
            highs=lows + self._plan.thresholds.gap,
        )
        return Outcome(int(told.outcomes[0]), int(told.values[0]))

    def words(self, question: Segment, step: int) -> NDArray[np.uint64]:
        """Return the words of `_STEPS` comparisons of a round from a step on, a multiple of it: uint64[16, 1, 2]."""
        part, side = divmod(step, MAX_SIDES)
        sides = np.arange(side, side + _STEPS, dtype=np.uint64)
        return self._addresses.words(Purpose.QUESTION, question.rounds, sides, question.hashes ^ np.uint64(part))

    def export(self) -> StateArrays:
        """Return the whole state as arrays whose shapes depend on the plan only."""
        return {**self._exported(self._ladder.comparisons), **self._ladder.export()}

    @classmethod
    def restore(cls, plan: DistributionPlan, arrays: StateArrays) -> Self:
        """Take back what `export` returned, under the same plan.

        Raises:
            CorruptSnapshotError: It is not of the plan's sizes.
        """
        predictor, keys, comparisons = cls._reopened(plan, arrays)
        predictor.begin(keys)
        predictor._ladder.take_back(arrays, comparisons)  # noqa: SLF001 -- of this class
        if predictor.paid != int(arrays["counters"][3]):
            raise CorruptSnapshotError("snapshot: its paid answers are not those that it counts")
        return predictor


class _Comparisons:
    """The comparisons of one round, each with noise of its own.

    Args:
        predictor: Whose rows are asked.
        question: The round's row.

    Attributes:
        paid: The noisy count that was paid for, if one was.
    """

    def __init__(self, predictor: Distribution, question: Segment) -> None:
        self._predictor, self._question = predictor, question
        self._step = 0
        self.paid: int | None = None

    def __call__(self, key: Any, threshold: int) -> Outcome:  # noqa: ANN401 -- a float, or bytes
        """See `Asker`."""
        place = self._step % _STEPS
        if place == 0:
            self._words = self._predictor.words(self._question, self._step)
        self._step += 1
        outcome = self._predictor.compare(key, threshold, self._words[place])
        if outcome.answer == PAID:
            self.paid = outcome.value
        return outcome
