"""Public questions to one NumPy batch in arrival order, and its answers back to one reply a delivery."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from connectors.base import JSON, RETAINED, Deliveries, Replies
from oracle.codec.decoded import Block, DecodedBatch, Part, Run, decode_in_runs, joined
from oracle.codec.json.bodies import Identifier
from oracle.codec.json.distributions import DistributionReader
from oracle.codec.json.public import PublicWriter, Several
from oracle.codec.json.quantiles import DistributionWriter
from oracle.codec.json.questions import QuestionReader
from oracle.codec.json.shares import ShareWriter
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.questions import QuestionPlan
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.base import Answers

__all__ = ["QuestionCodec", "reader_of", "writer_of"]


def reader_of(plan: QuestionPlan) -> QuestionReader | DistributionReader:
    """Return what reads a plan's questions."""
    if isinstance(plan, DistributionPlan):
        return DistributionReader(plan)
    assert isinstance(plan, TablePlan)  # noqa: S101 -- there is no other kind
    return QuestionReader(plan)


def writer_of(plan: QuestionPlan) -> PublicWriter[Any]:
    """Return what writes the answers to a plan's questions."""
    if isinstance(plan, DistributionPlan):
        return DistributionWriter(plan)
    assert isinstance(plan, TablePlan)  # noqa: S101 -- there is no other kind
    return ShareWriter(plan)


class QuestionCodec:
    """Decodes and encodes the messages of one model whose questions are public, all of which are JSON.

    Args:
        plan: What it binds decides what counts as a question, so no other setting can shift a round.
    """

    def __init__(self, plan: QuestionPlan) -> None:
        self._width = plan.width
        self._reader = reader_of(plan)
        self._writer = writer_of(plan)

    def decode(self, deliveries: Deliveries) -> DecodedBatch:
        """Decode deliveries in order. A rejected one has no row, one that asks for several things as many."""
        return decode_in_runs(deliveries, self._width, self._reader, self._decode_singly)

    def _decode_singly(self, deliveries: Deliveries) -> Run:
        decoded = list(map(self._decoded, deliveries.bodies, deliveries.content_types))
        blocks = [block for _, block in decoded]
        return Run([part for part, _ in decoded], blocks, [len(present) for _, present in blocks])

    def _decoded(self, body: bytes | None, content_type: str) -> tuple[Part, Block]:
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
        if batch.plain:
            bodies = self._singles(batch.identifiers, batch, answers, len(batch.features))
        else:
            bodies = self._bodies(batch, answers)
        return batch.replies(bodies, [JSON] * len(bodies))

    def _bodies(self, batch: DecodedBatch, answers: Answers) -> list[bytes]:
        starts = [0, *batch.ends[:-1]]
        bodies: list[bytes] = []
        waiting: list[Identifier] = []
        for asked, part, start, end in zip(batch.deliveries.bodies, batch.parts, starts, batch.ends, strict=True):
            if part is None or isinstance(part, str | int):
                waiting.append(part)
                continue
            bodies += self._singles(waiting, batch, answers, start)
            waiting = []
            if isinstance(part, Several):
                bodies.append(self._writer.several(part, batch.features[start:end], answers.part(start, end)))
            elif isinstance(part, Rejection):
                bodies.append(self._reader.encode_rejection(asked, part))
        return bodies + self._singles(waiting, batch, answers, len(batch.features))

    def _singles(
        self, identifiers: Sequence[Identifier], batch: DecodedBatch, answers: Answers, end: int
    ) -> list[bytes]:
        """Return the messages of the rows before `end`, each of which is a question of its own."""
        rows = slice(end - len(identifiers), end)
        return self._writer.singles(identifiers, batch.features[rows], answers.part(rows.start, rows.stop))
