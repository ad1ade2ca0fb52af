"""Questions about a table to one NumPy batch in arrival order, and its answers back to one reply a delivery."""

from collections.abc import Sequence
from itertools import accumulate, repeat

import numpy as np

from connectors.base import JSON, RETAINED, Delivery, Rejected, Reply
from oracle.codec.decoded import RUN, Block, DecodedBatch, Part, decode_run, joined, plain_replies
from oracle.codec.json.questions import Breakdown, QuestionReader
from oracle.codec.json.shares import ShareWriter
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.base import Answers

__all__ = ["QuestionCodec"]


class QuestionCodec:
    """Decodes and encodes the messages of one model about a table, all of which are JSON.

    Args:
        plan: What it binds decides what counts as a question, so no other setting can shift a round.
    """

    def __init__(self, plan: TablePlan) -> None:
        self._width = plan.width
        self._reader = QuestionReader(plan)
        self._writer = ShareWriter(plan)

    def decode(self, deliveries: Sequence[Delivery]) -> DecodedBatch:
        """Decode deliveries in order. A rejected one has no row, one with `by` has several."""
        parts: list[Part] = []
        sizes: list[int] = []
        blocks: list[Block] = []
        plain = True
        for start in range(0, len(deliveries), RUN):
            some = deliveries[start : start + RUN]
            run = decode_run(self._reader, self._width, some)
            if run is not None:
                blocks.append(run[1])
                sizes += repeat(1, len(some))
                parts += run[0]
                continue
            plain = False
            for delivery in some:
                part, block = self._decoded(delivery)
                parts.append(part)
                blocks.append(block)
                sizes.append(len(block[1]))
        features, present = joined(blocks, self._width)
        return DecodedBatch(features, present, deliveries, parts, list(accumulate(sizes)), plain)

    def _decoded(self, delivery: Delivery) -> tuple[Part, Block]:
        """Return what one delivery is, and its rows."""
        if delivery.body is None:
            return None, (np.zeros((1, self._width)), np.zeros(1, dtype=np.bool_))
        if delivery.content_type == JSON:
            decoded = self._reader.decode(delivery.body)
            if not isinstance(decoded, Rejection):
                part, rows = decoded
                return part, (rows, np.ones(len(rows), dtype=np.bool_))
        elif delivery.content_type == RETAINED:
            decoded = Rejection(Reason.RETAINED, "retain flag", "not set")
        else:
            decoded = Rejection(Reason.UNSUPPORTED_CONTENT, "content type", f"{JSON} only")
        return decoded, joined([], self._width)

    def encode(self, batch: DecodedBatch, answers: Answers) -> Sequence[Reply]:
        """Encode one reply for each delivery."""
        if batch.plain:
            return plain_replies(batch.deliveries, self._writer.singles(batch.identifiers, answers))
        singles = self._singles(batch, answers)
        starts = [0, *batch.ends[:-1]]
        replies: list[Reply] = []
        for delivery, part, start, end in zip(batch.deliveries, batch.parts, starts, batch.ends, strict=True):
            rejected = None
            if isinstance(part, Rejection):
                body = self._reader.encode_rejection(delivery.body, part)
                rejected = Rejected(part.reason, delivery.position, delivery.body or b"")
            elif isinstance(part, Breakdown):
                body = self._writer.broken_down(part, answers.part(start, end))
            else:
                body = singles[start]
            replies.append(Reply(body, JSON, delivery.headers, delivery.key, rejected))
        return replies

    def _singles(self, batch: DecodedBatch, answers: Answers) -> list[bytes]:
        """Return each row's message, as if it were a question of its own; of rows that are not, it goes unused."""
        identifiers: list[str | int | None] = [None] * len(answers.labels)
        for part, end in zip(batch.parts, batch.ends, strict=True):
            if part is None or isinstance(part, str | int):
                identifiers[end - 1] = part
        return self._writer.singles(identifiers, answers)
