"""Questions about a table to one NumPy batch in arrival order, and its answers back to one reply a delivery."""

from collections.abc import Sequence

import numpy as np

from connectors.base import JSON, RETAINED, Deliveries, Replies
from oracle.codec.decoded import Block, DecodedBatch, Part, Run, decode_in_runs, joined
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

    def decode(self, deliveries: Deliveries) -> DecodedBatch:
        """Decode deliveries in order. A rejected one has no row, one with `by` has several."""
        return decode_in_runs(deliveries, self._width, self._reader, self._decode_singly)

    def _decode_singly(self, deliveries: Deliveries) -> Run:
        decoded = list(map(self._decoded, deliveries.bodies, deliveries.content_types))
        blocks = [block for _, block in decoded]
        return Run([part for part, _ in decoded], blocks, [len(present) for _, present in blocks])

    def _decoded(self, body: bytes | None, content_type: str) -> tuple[Part, Block]:
        """Return what one delivery is, and its rows."""
        if body is None:
            return None, (np.zeros((1, self._width)), np.zeros(1, dtype=np.bool_))
        if content_type == JSON:
            decoded = self._reader.decode(body)
            if not isinstance(decoded, Rejection):
                part, rows = decoded
                return part, (rows, np.ones(len(rows), dtype=np.bool_))
        elif content_type == RETAINED:
            decoded = Rejection(Reason.RETAINED, "retain flag", "not set")
        else:
            decoded = Rejection(Reason.UNSUPPORTED_CONTENT, "content type", f"{JSON} only")
        return decoded, joined([], self._width)

    def encode(self, batch: DecodedBatch, answers: Answers) -> Replies:
        """Encode one reply for each delivery."""
        bodies = self._singles(batch, answers)
        if not batch.plain:
            bodies = self._bodies(batch, answers, bodies)
        return batch.replies(bodies, [JSON] * len(bodies))

    def _bodies(self, batch: DecodedBatch, answers: Answers, singles: Sequence[bytes]) -> list[bytes]:
        starts = [0, *batch.ends[:-1]]
        bodies: list[bytes] = []
        for asked, part, start, end in zip(batch.deliveries.bodies, batch.parts, starts, batch.ends, strict=True):
            if isinstance(part, Rejection):
                bodies.append(self._reader.encode_rejection(asked, part))
            elif isinstance(part, Breakdown):
                bodies.append(self._writer.broken_down(part, answers.part(start, end)))
            else:
                bodies.append(singles[start])
        return bodies

    def _singles(self, batch: DecodedBatch, answers: Answers) -> list[bytes]:
        """Return each row's message, as if it were a question of its own; of rows that are not, it goes unused."""
        if batch.plain:
            return self._writer.singles(batch.identifiers, answers)
        identifiers: list[str | int | None] = [None] * len(answers.labels)
        for part, end in zip(batch.parts, batch.ends, strict=True):
            if part is None or isinstance(part, str | int):
                identifiers[end - 1] = part
        return self._writer.singles(identifiers, answers)
