"""A public simulator: answers about a table from the plan, the messages and the ledger, and from nothing else.

Whoever is given these can write every answer down byte for byte, so no answer tells more of the rows than the ledger.
It has no rows, no key and no noise; where the predictor has keyed hashes, it numbers questions as they come.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.base import Deliveries, Delivery
from oracle.accounting.ledger import LedgerEvent
from oracle.audit.table_checks import Told
from oracle.codec.kinds import codec_of
from oracle.planning.statistics.model import SparseVectorPlan, StatisticsPlan, TablePlan
from oracle.predictors.base import NO_LABEL, Answers
from oracle.predictors.statistics.public import PublicSide
from oracle.predictors.statistics.start import start_of

__all__ = ["Simulator"]

_Columns = tuple[NDArray[np.int8], NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]
"""Labels, values, paid and verified."""


class Simulator:
    """Answers as one shard did.

    Args:
        plan: Of `statistics` in its tight profile, or of `sparse-vector`.
        ledger: All that the shard's ledger says, line by line.
    """

    def __init__(self, plan: TablePlan, ledger: Sequence[bytes]) -> None:
        self._plan = plan
        self._ledger = Told([msgspec.json.decode(line, type=LedgerEvent) for line in ledger])
        self._codec = codec_of(plan)
        self._numbers: dict[bytes, int] = {}
        self._round = 0
        self._paid = 0
        if isinstance(plan, StatisticsPlan):
            self._public = PublicSide(plan, start_of(plan, self._ledger.start), self._ledger.start)

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
        asked = np.flatnonzero(present)
        hashes = [self._numbers.setdefault(rows[row].tobytes(), len(self._numbers)) for row in asked]
        before = self._public.paid
        rounds = (self._round + asked).astype(np.uint64)
        block = self._public.answer(rows[asked], rounds, np.array(hashes, dtype=np.uint64), self._ledger)
        values, verified = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=np.bool_)
        values[asked], verified[asked] = block.values, block.verified
        bought = [self._round + row in self._ledger.paid for row in range(len(rows))]
        labels = np.where(present, np.int8(0), np.int8(NO_LABEL))
        return labels, values, before + np.cumsum(bought, dtype=np.int64), verified

    def _sparse(self, rows: NDArray[np.float64], present: NDArray[np.bool_]) -> _Columns:
        assert isinstance(self._plan, SparseVectorPlan)
        labels = np.where(present, np.int8(0), np.int8(NO_LABEL))
        values, verified = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=np.bool_)
        paid = np.zeros(len(rows), dtype=np.int64)
        for row in range(len(rows)):
            verified[row] = present[row] and self._paid < self._plan.paid
            event = self._ledger.paid.get(self._round + row)
            if event is not None:
                self._paid += 1
                share = (event.count - self._plan.shift) / self._plan.declared
                labels[row], values[row] = 1, min(max(share, 0.0), 1.0)
            paid[row] = self._paid
        return labels, values, paid, verified
