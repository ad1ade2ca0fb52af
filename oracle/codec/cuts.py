"""Where a batch ends: how many of the messages that are there may be decoded together, by the rows that they hold."""

from collections.abc import Iterable
from itertools import accumulate

from connectors.base import ARROW_STREAM, JSON, Deliveries
from oracle.codec.arrow.frames import read_frames
from oracle.codec.events import data_of, open_events
from oracle.codec.questions import reader_of
from oracle.planning.plan import Plan
from oracle.planning.questions import QuestionPlan
from oracle.planning.serving import BATCH_BYTES, row_bytes

__all__ = ["Cuts"]


class Cuts:
    """Cuts deliveries into batches; no answer depends on where.

    Formal guarantees:
        * The rows of a batch of several deliveries take at most `BATCH_BYTES`, as a predictor is given them. A delivery
          of more is a batch of its own: the plan's limits bound it.
    """

    def __init__(self, plan: Plan) -> None:
        self._row = row_bytes(plan)
        self._limits = plan.limits
        self._questions = reader_of(plan) if isinstance(plan, QuestionPlan) else None

    def leading(self, deliveries: Deliveries) -> int:
        """Return how many of the leading deliveries are one batch: at least one, if there is any."""
        fits = max(BATCH_BYTES // self._row, 1)
        if self._questions is None and deliveries.content_types.count(JSON) == len(deliveries):
            return min(len(deliveries), fits)
        given = data_of(deliveries, open_events(deliveries, self._limits))
        bodies = [body or b"" for body in given.bodies]
        if self._questions is not None:
            return _leading(map(self._questions.rows, bodies), fits, len(bodies))
        return _leading(map(_announced, bodies, given.content_types), fits, len(bodies))


def _leading(rows: Iterable[int], fits: int, whole: int) -> int:
    """Return how many leading ones of `whole` deliveries have no more rows than fit together, but one at least."""
    return max(next((number for number, count in enumerate(accumulate(rows)) if count > fits), whole), 1)


def _announced(body: bytes, content_type: str) -> int:
    """Return how many rows a delivery says that it has; 0 if it will be rejected unread."""
    if content_type != ARROW_STREAM or not body:
        return 1
    try:
        return read_frames(body).rows
    except Exception:  # noqa: BLE001 -- whatever is wrong with it, decoding will say so of it alone
        return 0
