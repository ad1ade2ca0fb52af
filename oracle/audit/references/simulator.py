"""A public simulator: answers about a table from the plan, the messages and the ledger, and from nothing else.

Whoever is given these can write every answer down byte for byte, so no answer tells more of the rows than the ledger.
It has no rows, no key and no noise; where the predictor has keyed hashes, it numbers questions as they come.
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.base import Deliveries, Delivery
from oracle.accounting.ledger import AnswerPaid, LedgerEvent, MarginalsReleased
from oracle.codec.kinds import codec_of
from oracle.planning.statistics.model import SparseVectorPlan, StatisticsPlan, TablePlan
from oracle.predictors.base import NO_LABEL, Answers
from oracle.predictors.statistics.public import Asked, Asker, PaidAnswer, PublicSide, Questions
from oracle.predictors.statistics.start import start_of
from oracle.predictors.statistics.thresholds import PublicThresholds

__all__ = ["Simulator", "Told"]

_Columns = tuple[NDArray[np.int8], NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]
"""Labels, values, paid and verified."""


class Told:
    """Asks the ledger instead of the rows: an `Asker` of whoever sees what is public, and nothing else.

    Args:
        ledger: All that a shard's ledger says, line by line.
    """

    def __init__(self, ledger: Sequence[bytes]) -> None:
        events = [msgspec.json.decode(line, type=LedgerEvent) for line in ledger]
        self.paid = {event.round: event for event in events if isinstance(event, AnswerPaid)}
        counts = [event.counts for event in events if isinstance(event, MarginalsReleased)]
        self.start = np.array([count for part in counts[0] for count in part] if counts else [], dtype=np.int64)

    def __call__(self, asked: Asked) -> PaidAnswer | None:
        """Return the first of some questions that was paid for."""
        for number, place in enumerate(asked.rounds.tolist()):
            if place in self.paid:
                return PaidAnswer(number, self.paid[place].above is True, self.paid[place].count)
        return None


class Simulator:
    """Answers as one shard did.

    Args:
        plan: Of `statistics` in its tight profile, or of `sparse-vector`.
        told: What the ledger says.
        ask: What is asked instead of `told`, and gives its answers.
        hashed: The keyed hash of a question's row, for who has the key.
    """

    def __init__(
        self,
        plan: TablePlan,
        told: Told,
        ask: Asker | None = None,
        hashed: Callable[[Sequence[float]], int] | None = None,
    ) -> None:
        self._plan = plan
        self._told = told
        self._ask, self._hashed = ask or told, hashed
        self._codec = codec_of(plan)
        self._numbers: dict[bytes, int] = {}
        self._round = 0
        if isinstance(plan, StatisticsPlan):
            self._public = PublicSide(plan, start_of(plan, told.start), told.start)
        elif isinstance(plan, SparseVectorPlan):
            self._thresholds = PublicThresholds(plan)

    def answer(self, deliveries: Sequence[Delivery]) -> list[bytes]:
        """Return the replies to some messages, in order."""
        batch = self._codec.decode(Deliveries.of(deliveries))
        labels, values, paid, verified = (
            self._statistics(batch.features, batch.present)
            if isinstance(self._plan, StatisticsPlan)
            else self._sparse(batch.features, batch.present)
        )
        phases = np.ones(len(labels), dtype=np.int64)
        tag = np.zeros(2, dtype=np.uint64)
        answers = Answers(labels, self._round, phases, tag, [], values, paid, verified)
        self._round += len(labels)
        return list(self._codec.encode(batch, answers).bodies)

    def _statistics(self, rows: NDArray[np.float64], present: NDArray[np.bool_]) -> _Columns:
        before = self._public.paid
        asked, rounds, hashes = self._numbered(rows, present)
        block = self._public.answer(Questions(rows[asked], rounds, hashes, hashes), self._ask)
        values, verified = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=np.bool_)
        values[asked], verified[asked] = block.values, block.verified
        return np.where(present, np.int8(0), np.int8(NO_LABEL)), values, self._paid(before, len(rows)), verified

    def _sparse(self, rows: NDArray[np.float64], present: NDArray[np.bool_]) -> _Columns:
        before = self._thresholds.paid
        cells = np.where(np.arange(rows.shape[1]) < rows.shape[1] - 1, rows, 0.0)
        asked, rounds, numbers = self._numbered(cells, present)
        _, _, hashes = self._numbered(rows, present)
        questions = Questions(rows[asked], rounds, hashes, numbers)
        given = self._thresholds.answer(questions, self._ask)
        values, answered = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=np.bool_)
        values[asked], answered[asked] = given.values, given.verified
        labels = np.where(present, ~np.isnan(values), np.int8(NO_LABEL)).astype(np.int8)
        return labels, values, self._paid(before, len(rows)), answered

    def _numbered(
        self, rows: NDArray[np.float64], present: NDArray[np.bool_]
    ) -> tuple[NDArray[np.intp], NDArray[np.uint64], NDArray[np.uint64]]:
        """Return which rows ask, their rounds, and numbers for hashes."""
        asked = np.flatnonzero(present)
        hashes = [
            self._numbers.setdefault(row.tobytes(), len(self._numbers)) if self._hashed is None else self._hashed(row)
            for row in rows[asked]
        ]
        return asked, (self._round + asked).astype(np.uint64), np.array(hashes, dtype=np.uint64)

    def _paid(self, before: int, count: int) -> NDArray[np.int64]:
        bought = [self._round + row in self._told.paid for row in range(count)]
        return before + np.cumsum(bought, dtype=np.int64)
