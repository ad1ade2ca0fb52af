"""Where a batch ends: how many of the messages that are there may be decoded together, by the rows that they hold."""

from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter

from connectors.base import ARROW_STREAM, Delivery
from connectors.columns import Deliveries
from oracle.codec.arrow.frames import read_frames
from oracle.planning.plan import Plan
from oracle.planning.serving import BATCH_BYTES, least_bytes, row_bytes

__all__ = ["Cuts"]

_content_type = itemgetter(2)


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
        self._densest = -(-self._row // least_bytes(plan))  # bytes of rows for a byte of an Arrow message

    def leading(self, deliveries: Sequence[Delivery]) -> int:
        """Return how many of the leading deliveries are one batch: at least one, if there is any."""
        fits = max(BATCH_BYTES // self._row, 1)
        if isinstance(deliveries, Deliveries) or ARROW_STREAM not in map(_content_type, deliveries):
            return min(len(deliveries), fits)
        bodies = sum(len(delivery[1] or b"") for delivery in deliveries)
        if len(deliveries) * self._row + bodies * self._densest <= BATCH_BYTES:
            return len(deliveries)  # whatever they hold
        rows = accumulate(map(_announced, deliveries))
        return max(next((number for number, count in enumerate(rows) if count > fits), len(deliveries)), 1)


def _announced(delivery: Delivery) -> int:
    """Return how many rows a delivery says that it has; 0 if it will be rejected unread."""
    if delivery.content_type != ARROW_STREAM or delivery.body is None:
        return 1
    try:
        return read_frames(delivery.body).rows
    except Exception:  # noqa: BLE001 -- whatever is wrong with it, decoding will say so of it alone
        return 0
