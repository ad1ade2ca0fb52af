"""A public simulator: answers about a table from the plan, the messages and the ledger, and from nothing else.

Whoever is given these can write every answer down byte for byte, so no answer tells more of the rows than the ledger.
It has no rows, no key and no noise; where the predictor has keyed hashes, it numbers questions as they come.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.base import Delivery
from oracle.accounting.ledger import AnswerPaid, LedgerEvent, MarginalsReleased
from oracle.codec.kinds import codec_of
from oracle.planning.statistics.model import SparseVectorPlan, StatisticsPlan, TablePlan
from oracle.predictors.base import NO_LABEL, Answers
from oracle.predictors.statistics.public import Asked, Asker, PaidAnswer, PublicSide
from oracle.predictors.statistics.start import start_of

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
                return PaidAnswer(number, self.paid[place].above, self.paid[place].count)
        return None


class Simulator:
    """Answers as one shard did.

    Args:
        plan: Of `statistics` in its tight profile, or of `sparse-vector`.
        told: What the ledger says.
        ask: What is asked instead of `told`, which is given its answers; of a sparse vector one question at a time.
    """

    def __init__(self, plan: TablePlan, told: Told, ask: Asker | None = None) -> None:
        self._plan = plan
        self._told = told
        self._ask = ask or told
        self._codec = codec_of(plan)
        self._numbers: dict[bytes, int] = {}
        self._round = 0
        self._paid = 0
        if isinstance(plan, StatisticsPlan):
            self._public = PublicSide(plan, start_of(plan, told.start), told.start)

    def answer(self, deliveries: Sequence[Delivery]) -> list[bytes]:
        """Return the replies to some messages, in order."""
        batch = self._codec.decode(deliveries)
        labels, values, paid, verified = (
            self._statistics(batch.features, batch.present)
            if isinstance(self._plan, StatisticsPlan)
            else self._sparse(batch.features, batch.present)
        )
        phases = np.ones(len(labels), dtype=np.int64)
        tag = np.zeros(2, dtype=np.uint64)
        answers = Answers(labels, self._round, phases, tag, [], values, paid, verified)
        self._round += len(labels)
        return [reply.body for reply in self._codec.encode(batch, answers)]

    def _statistics(self, rows: NDArray[np.float64], present: NDArray[np.bool_]) -> _Columns:
        asked = np.flatnonzero(present)
        hashes = [self._numbers.setdefault(rows[row].tobytes(), len(self._numbers)) for row in asked]
        before = self._public.paid
        rounds = (self._round + asked).astype(np.uint64)
        block = self._public.answer(rows[asked], rounds, np.array(hashes, dtype=np.uint64), self._ask)
        values, verified = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=np.bool_)
        values[asked], verified[asked] = block.values, block.verified
        bought = [self._round + row in self._told.paid for row in range(len(rows))]
        labels = np.where(present, np.int8(0), np.int8(NO_LABEL))
        return labels, values, before + np.cumsum(bought, dtype=np.int64), verified

    def _sparse(self, rows: NDArray[np.float64], present: NDArray[np.bool_]) -> _Columns:
        if not isinstance(self._plan, SparseVectorPlan):
            raise TypeError
        labels = np.where(present, np.int8(0), np.int8(NO_LABEL))
        values, verified = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=np.bool_)
        paid = np.zeros(len(rows), dtype=np.int64)
        for row in range(len(rows)):
            verified[row] = present[row] and self._paid < self._plan.paid
            bought = self._ask(self._threshold(rows, row)) if verified[row] else None
            if bought is not None:
                self._paid += 1
                share = (bought.count - self._plan.shift) / self._plan.declared
                labels[row], values[row] = 1, min(max(share, 0.0), 1.0)
            paid[row] = self._paid
        return labels, values, paid, verified

    def _threshold(self, rows: NDArray[np.float64], row: int) -> Asked:
        """Return one question of a sparse vector; what is expected is its threshold."""
        asked = rows[row : row + 1]
        rounds = np.array([self._round + row], dtype=np.uint64)
        return Asked(self._plan.layout.masks(asked[:, :-1]), asked[:, -1] * self._plan.declared, rounds, rounds)
