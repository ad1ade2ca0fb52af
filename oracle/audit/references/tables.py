"""What the rows of a table pay for, worked out a second time: from rows, key and plan, question by question.

Written from PRIVACY.md, Theorems 17 to 19 and 22. All but the rows is public, and a simulator plays it
(`simulator.py`); it asks what is here instead of the ledger. Then the ledger must say the same.
"""

import math
from collections.abc import Sequence

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from connectors.base import Delivery
from oracle.accounting.ledger import AnswerPaid, LedgerEvent, MarginalsReleased
from oracle.audit.references.keyed import Keyed, discrete_laplace, geometric, gumbel, logistic
from oracle.audit.references.simulator import Simulator, Told
from oracle.mechanisms.addresses import Purpose
from oracle.planning.statistics.model import SparseVectorPlan, StatisticsPlan, TablePlan
from oracle.predictors.statistics.public import Asked, PaidAnswer

__all__ = ["plain_replay"]

_LAWS = {"gumbel": gumbel, "logistic": logistic, "exponential": geometric}


class _PlainRows:
    """Is asked about the rows; its `paid` is what the ledger must say of that."""

    def __init__(self, plan: TablePlan, keyed: Keyed, cells: NDArray[np.int64]) -> None:
        self._plan, self._keyed, self._cells = plan, keyed, cells
        self._law, self._slope = _LAWS[plan.paid_noise.law], plan.paid_noise.slope
        slope = plan.paid_noise.threshold_slope
        self._offset = 0 if slope is UNSET else geometric(slope, keyed.word(Purpose.THRESHOLD, 0))
        self.paid: dict[int, AnswerPaid] = {}

    def __call__(self, asked: Asked) -> PaidAnswer | None:
        """Return the first of some questions that is paid for."""
        if len(self.paid) == self._plan.paid:
            return None
        for number, (place, expected) in enumerate(zip(asked.rounds.tolist(), asked.expected.tolist(), strict=True)):
            masks = [mask[number][cells] for mask, cells in zip(asked.masks, self._cells.T, strict=True)]
            count = int(np.count_nonzero(np.logical_and.reduce(masks)))
            answer = self._looked(number, place, count, expected, int(asked.hashes[number]))
            if answer is not None:
                about = answer.above if isinstance(self._plan, StatisticsPlan) else True
                self.paid[place] = AnswerPaid(round=place, paid=len(self.paid) + 1, count=answer.count, above=about)
                return answer
        return None

    def _looked(self, number: int, place: int, count: int, expected: float, hashed: int) -> PaidAnswer | None:
        """Ask whether there is more than expected, and of statistics whether there is less."""
        plan = self._plan
        sparse = isinstance(plan, SparseVectorPlan)
        margin = plan.shift if isinstance(plan, SparseVectorPlan) else plan.margin_at(len(self.paid))  # type: ignore[attr-defined]  # of statistics
        for side in (0,) if sparse else (0, 1):
            noise = self._law(self._slope, self._keyed.word(Purpose.QUESTION, place, side, hashed))
            noisy = (-count if side else count) - self._offset + noise
            if noisy >= (margin - math.floor(expected) if side else math.ceil(expected) + margin):
                return PaidAnswer(number, above=not side, count=-noisy if side else noisy)
        return None


def _marginals(plan: TablePlan, genesis: Keyed, cells: NDArray[np.int64]) -> list[MarginalsReleased]:
    """Return the noisy counts of a start, cell by cell."""
    if not isinstance(plan, StatisticsPlan) or plan.start_slope is UNSET:
        return []
    parts = []
    for number, about in enumerate(plan.start):
        shape = [plan.layout.shape[attribute] for attribute in about]
        rows = cells[:, list(about)].tolist()
        noise = (
            discrete_laplace(plan.start_slope, genesis.word(Purpose.QUESTION, n, number))
            for n in range(math.prod(shape))
        )
        parts.append(tuple(rows.count(list(cell)) + z for cell, z in zip(np.ndindex(*shape), noise, strict=True)))
    return [MarginalsReleased(round=0, counts=tuple(parts))]


def plain_replay(
    plan: TablePlan, cells: NDArray[np.int64], deliveries: Sequence[Delivery], secret: bytes
) -> tuple[Sequence[bytes], Sequence[LedgerEvent], Sequence[tuple[int, int]]]:
    """Return the replies to a run's messages, what the ledger says of them, and the words that were drawn.

    Args:
        plan: As it stands in the state folder.
        cells: int64[n, A], the rows.
        deliveries: The messages.
        secret: The genesis key.
    """
    genesis = Keyed(secret)
    start = _marginals(plan, genesis, cells)
    keyed = genesis.ratchet()
    rows = _PlainRows(plan, keyed, cells)
    told = Told([])
    told.start = np.array([count for event in start for part in event.counts for count in part], dtype=np.int64)
    told.paid = rows.paid
    replies = Simulator(plan, told, rows, keyed.hash).answer(deliveries)
    return replies, [*start, *rows.paid.values()], keyed.drawn
