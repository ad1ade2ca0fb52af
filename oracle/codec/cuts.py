"""Where a batch ends: how many of the messages that are there may be decoded together, by the rows that they hold."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import itemgetter

from connectors.base import ARROW_STREAM, Delivery
from connectors.columns import Deliveries
from oracle.codec.arrow.frames import read_frames
from oracle.codec.json.questions import QuestionReader
from oracle.planning.plan import Plan
from oracle.planning.serving import BATCH_BYTES, least_bytes, row_bytes
from oracle.planning.statistics.model import TablePlan

__all__ = ["Cuts"]

_body, _content_type = itemgetter(1), itemgetter(2)


class Cuts:
    """Cuts deliveries into batches; no answer depends on where.

    Formal guarantees:
        * The rows of a batch of several deliveries take at most `BATCH_BYTES`, as a predictor is given them. A delivery
          of more is a batch of its own: the plan's limits bound it.

    Args:
        plan: The plan.
    """

    def __init__(self, plan: Plan) -> None:
        self._row = row_bytes(plan)
        self._questions = QuestionReader(plan) if isinstance(plan, TablePlan) else None
        self._densest = -(-self._row // least_bytes(plan)) if plan.features else 0  # for a byte of an Arrow message

    def leading(self, deliveries: Sequence[Delivery]) -> int:
        """Return how many of the leading deliveries are one batch: at least one, if there is any."""
        fits = max(BATCH_BYTES // self._row, 1)
        if self._questions is not None:
            return _leading(map(self._questions.rows, _bodies(deliveries)), fits, len(deliveries))
        if isinstance(deliveries, Deliveries) or ARROW_STREAM not in map(_content_type, deliveries):
            return min(len(deliveries), fits)
        bodies = sum(len(delivery[1] or b"") for delivery in deliveries)
        if len(deliveries) * self._row + bodies * self._densest <= BATCH_BYTES:
            return len(deliveries)  # whatever they hold
        return _leading(map(_announced, deliveries), fits, len(deliveries))


def _leading(rows: Iterable[int], fits: int, whole: int) -> int:
    """Return how many leading ones of `whole` deliveries have no more rows than fit together, but one at least."""
    return max(next((number for number, count in enumerate(accumulate(rows)) if count > fits), whole), 1)


def _bodies(deliveries: Sequence[Delivery]) -> Iterable[bytes]:
    bodies = deliveries.bodies if isinstance(deliveries, Deliveries) else map(_body, deliveries)
    return (body or b"" for body in bodies)


def _announced(delivery: Delivery) -> int:
    """Return how many rows a delivery says that it has; 0 if it will be rejected unread."""
    if delivery.content_type != ARROW_STREAM or delivery.body is None:
        return 1
    try:
        return read_frames(delivery.body).rows
    except Exception:  # noqa: BLE001 -- whatever is wrong with it, decoding will say so of it alone
        return 0
