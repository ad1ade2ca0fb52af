"""Where a batch ends: how many of the messages that are there may be decoded together, by what they take in memory."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from connectors.base import ARROW_STREAM, Delivery
from connectors.columns import Deliveries
from oracle.planning.plan import Plan
from oracle.planning.serving import BATCH_BYTES, DELIVERY_BYTES, least_bytes, row_bytes
from oracle.service.codec.arrow_frames import read_frames

__all__ = ["Cuts"]


class Cuts:
    """Cuts deliveries into batches; no answer depends on where.

    Formal guarantees:
        * A batch of several deliveries has at most `BATCH_BYTES` of bodies, headers and keys, and at most as much of
          rows as a predictor takes them. What alone is more is a batch of its own: the plan's limits bound it.

    Args:
        plan: The plan.
    """

    def __init__(self, plan: Plan) -> None:
        self._row = row_bytes(plan)
        self._densest = -(-self._row // least_bytes(plan))  # bytes of rows for a byte of an Arrow message

    def leading(self, deliveries: Sequence[Delivery]) -> tuple[int, int]:
        """Return how many of the leading deliveries are one batch (at least one, if there is any), and their bytes."""
        raw = _raw(deliveries)
        whole = sum(raw)
        if whole <= BATCH_BYTES and len(raw) * self._row + whole * self._densest <= BATCH_BYTES:
            return len(raw), whole  # whatever they hold
        rows = self._rows(deliveries)
        fits = (
            together <= BATCH_BYTES and count * self._row <= BATCH_BYTES
            for together, count in zip(accumulate(raw), accumulate(rows), strict=True)
        )
        count = max(next((number for number, fit in enumerate(fits) if not fit), len(raw)), 1)
        return count, sum(raw[:count])

    def _rows(self, deliveries: Sequence[Delivery]) -> Iterable[int]:
        if isinstance(deliveries, Deliveries):
            return [1] * len(deliveries)
        return (_announced(delivery) for delivery in deliveries)


def _raw(deliveries: Sequence[Delivery]) -> list[int]:
    """Return the bytes of each delivery as it came."""
    if isinstance(deliveries, Deliveries):
        return [DELIVERY_BYTES + len(body or b"") + len(key or b"") for body, key in _columns(deliveries)]
    return [
        DELIVERY_BYTES + len(body or b"") + len(key or b"") + (_headers(headers) if headers else 0)
        for _, body, _, headers, key in deliveries
    ]


def _columns(deliveries: Deliveries) -> Iterable[tuple[bytes | None, bytes | None]]:
    return zip(deliveries.bodies, deliveries.keys, strict=True)


def _headers(headers: Iterable[tuple[str, bytes]]) -> int:
    return sum(DELIVERY_BYTES + len(name) + len(value) for name, value in headers)


def _announced(delivery: Delivery) -> int:
    """Return how many rows a delivery says that it has; 0 if it will be rejected unread."""
    if delivery.content_type != ARROW_STREAM or delivery.body is None:
        return 1
    try:
        return read_frames(delivery.body).rows
    except Exception:  # noqa: BLE001 -- whatever is wrong with it, decoding will say so of it alone
        return 0
