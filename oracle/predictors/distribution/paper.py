"""AdaptiveThresholds, as the paper has it (Bun, Steinke and Ullman, 2017, Figs. 7 to 10).

Cuts are the running maximum of the paper's, from 1 to n + 1: else chunks could overlap, and a row would be in several.
Laplace noise is rounded down to whole rows, as all noise of profiles `paper` is; no theorem with explicit constants
covers that, so its epsilon is nominal.
"""

from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import AnswerPaid, LedgerEvent
from oracle.errors import CorruptSnapshotError, PlanError
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.noise.tables import sample
from oracle.mechanisms.orders import Keys, blank_keys, load_keys, plain_keys
from oracle.planning.distribution.model import DistributionPlan, PartitionPlan
from oracle.predictors.base import StateArrays
from oracle.predictors.distribution.base import AT, SortedRows
from oracle.predictors.phased import Segment

__all__ = ["PaperDistribution", "partition"]

_ONE: Final = np.zeros(1, dtype=np.uint64)


def partition(plan: DistributionPlan, addresses: Addresses) -> NDArray[np.int64]:
    """Return where chunks begin, and at last n: int64[M + 1] (Fig. 10, less 1, as rows count from 0 here).

    Args:
        plan: Of profile `paper`.
        addresses: The genesis key's functions.
    """
    chunks, depth = plan.paid, plan.paid.bit_length() - 1
    nodes = np.arange(2 * chunks, dtype=np.uint64)  # of the string s of l bits: 2^l and s
    noise = sample("laplace", _sizes(plan).partition_slope, addresses.words(Purpose.SLICE, nodes, _ONE, None)[0])
    inner = np.arange(1, chunks)
    shifts = sum(noise[(chunks + inner) >> level] for level in range(depth + 1))
    cuts = inner * plan.declared // chunks + shifts
    return np.concatenate(([0], np.clip(np.maximum.accumulate(cuts), 1, plan.declared + 1) - 1, [plan.declared]))


def _sizes(plan: DistributionPlan) -> PartitionPlan:
    if not plan.partition:
        raise PlanError("plan.partition: must be set")
    return plan.partition


class PaperDistribution(SortedRows):
    """One shard of profile `paper` (see `oracle.predictors.base.Predictor` for the contract).

    Made by `DistributionTrainer.finish` or by `restore`.
    """

    def begin(self, keys: Keys, cuts: NDArray[np.int64]) -> None:
        """Take the rows in.

        Args:
            keys: [declared] keys in order, those of blanked rows beyond all others.
            cuts: int64[M + 1], where chunks begin.
        """
        plan, sizes = self._plan, _sizes(self._plan)
        self._take(keys)
        self._cuts, self._sizes = cuts, sizes
        self._halted = np.zeros(plan.paid, dtype=np.bool_)
        self._pivots = blank_keys(plan.paid, keys.dtype)
        self._asked = 0
        self._chunks = np.arange(plan.paid, dtype=np.uint64)
        words = self._addresses.words(Purpose.THRESHOLD, _ONE, self._chunks, None)[:, 0]
        self._shifts = sample("laplace", sizes.threshold_slope, words)

    @property
    def paid(self) -> int:
        """Chunks that have halted."""
        return int(np.count_nonzero(self._halted))

    def _answered(self, segment: Segment, events: list[LedgerEvent]) -> NDArray[np.float64]:
        features, count = segment.features, len(segment)
        found, values = features[:, :-1].copy(), np.full(count, np.nan)
        before, bought = self.paid, np.zeros(count, dtype=np.int64)
        verified = np.zeros(count, dtype=np.bool_)
        for row in np.flatnonzero(segment.present).tolist():
            spent, ask = self.paid, _Question(self, segment.part(slice(row, row + 1)))
            if features[row, -1] != AT:
                found[row] = self._quantile(features[row, -1], ask)
            values[row] = ask(self._key_of(found[row]))
            verified[row] = self._asked <= self._plan.comparisons
            bought[row] = self.paid - spent
            told = round(values[row] * self._plan.declared)
            paid = range(spent + 1, self.paid + 1)
            events += [AnswerPaid(round=self._round + row, paid=number, count=told) for number in paid]
        self._tell(before, bought, verified)
        self._found.append(found)
        return values

    def _quantile(self, share: float, ask: "_Question") -> NDArray[np.float64]:
        """Return the numbers of a quantile: Fig. 6, over all values there are, numbered from 1."""
        low, high = 0, self._domain.size
        while high - low > 1:
            middle = (low + high + 1) // 2
            low, high = (low, middle) if ask(self._key_of(self._row_at(middle - 1))) >= share else (middle, high)
        return self._row_at(high - 1)

    def share(self, key: Any, words: NDArray[np.uint64]) -> float:  # noqa: ANN401 -- a float, or bytes
        """Return the share of chunks that answer R to a value (Fig. 9).

        Args:
            key: The value's key.
            words: uint64[M, 2], uniform bits that serve nothing else.
        """
        self._asked += 1
        inner = np.minimum(np.diff(self._cuts), self._sizes.rows)  # what is missing of a chunk is beyond all values
        noisy = np.clip(self._count(key) - self._cuts[:-1], 0, inner) + sample("laplace", self._sizes.slope, words)
        low = noisy < self._sizes.low + self._shifts
        top = ~self._halted & ~low & ~(noisy > self._sizes.high - self._shifts)
        right = np.where(self._halted, self._pivots <= np.array(key, dtype=self._keys.dtype), ~low)
        self._pivots[top], self._halted = key, self._halted | top
        return int(np.count_nonzero(right)) / self._plan.paid

    def words(self, question: Segment, step: int) -> NDArray[np.uint64]:
        """Return the words of all chunks for a question of a round: uint64[M, 2]."""
        return self._addresses.words(
            Purpose.QUESTION, question.rounds, self._chunks, question.hashes ^ np.uint64(step)
        )[:, 0]

    def export(self) -> StateArrays:
        """Return the whole state as arrays whose shapes depend on the plan only."""
        chunks = {"cuts": self._cuts.copy(), "halted": self._halted.copy(), "pivots": plain_keys(self._pivots).copy()}
        return {**self._exported(self._asked), **chunks}

    @classmethod
    def restore(cls, plan: DistributionPlan, arrays: StateArrays) -> Self:
        """Take back what `export` returned, under the same plan.

        Raises:
            CorruptSnapshotError: It is not of the plan's sizes.
        """
        predictor, keys, asked = cls._reopened(plan, arrays)
        predictor.begin(keys, np.array(arrays["cuts"], dtype=np.int64))
        predictor._take_back(arrays, asked)  # noqa: SLF001 -- of this class
        return predictor

    def _take_back(self, arrays: StateArrays, asked: int) -> None:
        """Take back which chunks have halted, and where."""
        self._halted = np.array(arrays["halted"], dtype=np.bool_)
        self._pivots = load_keys(arrays["pivots"], self._keys.dtype)
        self._asked = asked
        if not len(self._halted) == len(self._pivots) == len(self._cuts) - 1 == self._plan.paid:
            raise CorruptSnapshotError("snapshot: its chunks are not those of its plan")


class _Question:
    """The questions of one round, each with noise of its own.

    Args:
        predictor: Whose rows are asked.
        question: The round's row.
    """

    def __init__(self, predictor: PaperDistribution, question: Segment) -> None:
        self._predictor, self._question = predictor, question
        self._step = 0

    def __call__(self, key: Any) -> float:  # noqa: ANN401 -- a float, or bytes
        """Return the noisy share of rows up to a value."""
        words = self._predictor.words(self._question, self._step)
        self._step += 1
        return self._predictor.share(key, words)
