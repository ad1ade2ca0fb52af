"""The codec of a model whose queries have schemas in a registry; JSON and Arrow go on as they are."""

from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise, repeat
from typing import Final, NamedTuple, Protocol

import msgspec
import numpy as np

from connectors.base import JSON, REGISTERED, UNKNOWN_SCHEMA, Deliveries, Replies
from oracle.codec.batches import BatchCodec, outcomes_of
from oracle.codec.decoded import Block, DecodedBatch, Part, Run, joined
from oracle.codec.json.bodies import Identifier
from oracle.codec.json.messages import JsonCodec
from oracle.codec.registered.names import field_names
from oracle.codec.registered.values import RowReader
from oracle.codec.registered.writers import UNKNOWN, Writers
from oracle.codec.registered.written import Read
from oracle.codec.rejections import Rejection
from oracle.planning.plan import Plan
from oracle.predictors.base import Answers

__all__ = ["AnswerWriter", "JsonAnswers", "RegisteredCodec"]

_RUN: Final = 256
"""So many queries become columns together; where one of them is none, each becomes a row by itself."""


class _Stretch(NamedTuple):
    """Some deliveries of one kind, one behind the other."""

    start: int
    stop: int
    registered: bool


class AnswerWriter(Protocol):
    """Writes replies to queries that have schemas.

    Attributes:
        content_type: What they are in.
    """

    content_type: str

    def answers(
        self, identifiers: Sequence[Identifier], outcomes: Sequence[float], first_round: int, phases: Sequence[int]
    ) -> list[bytes]:
        """Return the answers of consecutive rounds: see `JsonCodec.encode_answers`."""

    def rejection(self, identifier: Identifier, rejection: Rejection) -> bytes:
        """Return the reply to a message that is no query."""


class JsonAnswers:
    """Writes replies in JSON, whatever the queries are in. See `AnswerWriter`."""

    content_type = JSON

    def __init__(self, plan: Plan) -> None:
        self._codec = JsonCodec(plan)
        self.answers = self._codec.encode_answers

    def rejection(self, identifier: Identifier, rejection: Rejection) -> bytes:
        """See `AnswerWriter.rejection`."""
        return self._codec.encode_rejection(msgspec.json.encode({"id": identifier}), rejection)


class RegisteredCodec:
    """Decodes and encodes messages with schemas in a registry, and all others as `BatchCodec` does.

    Args:
        writers: Has the schema of each message that is `REGISTERED`.
        answers: Writes the replies to these messages, and to those that are `UNKNOWN_SCHEMA`.
    """

    def __init__(self, plan: Plan, writers: Writers, answers: AnswerWriter) -> None:
        self._others = BatchCodec(plan)
        self._writers = writers
        self._answers = answers
        self._rows = RowReader(plan, field_names(plan.features))
        self._width = plan.width

    def decode(self, deliveries: Deliveries) -> DecodedBatch:
        """Decode deliveries in order. A rejected one has no row."""
        stretches = self._stretches(deliveries)
        if not any(stretch.registered for stretch in stretches):
            return self._others.decode(deliveries)
        parts: list[Part] = []
        sizes: list[int] = []
        blocks: list[Block] = []
        for start, stop, registered in stretches:
            some = deliveries.part(start, stop)
            run = self._decoded(some) if registered else _run_of(self._others.decode(some))
            parts += run.parts
            blocks += run.blocks
            sizes += run.sizes
        features, present = joined(blocks, self._width)
        return DecodedBatch(features, present, deliveries, parts, list(accumulate(sizes)), plain=False)

    def _stretches(self, deliveries: Deliveries) -> list[_Stretch]:
        """Return where messages with schemas begin and end, and the others, which may be as many as there are."""
        kinds = {REGISTERED, UNKNOWN_SCHEMA}
        found: list[_Stretch] = []
        stop = 0
        for registered, group in groupby(deliveries.content_types, kinds.__contains__):
            start, stop = stop, stop + sum(1 for _ in group)
            step = _RUN if registered else stop - start
            found += [_Stretch(at, min(at + step, stop), registered) for at in range(start, stop, step)]
        return found

    def _decoded(self, deliveries: Deliveries) -> Run:
        messages = [
            UNKNOWN if kind == UNKNOWN_SCHEMA else body if body is None else self._writers.read(body)
            for body, kind in zip(deliveries.bodies, deliveries.content_types, strict=True)
        ]
        asked = [message for message in messages if isinstance(message, Read)]
        block = self._rows.read_many([message.values for message in asked])
        if block is not None and len(asked) == len(messages):
            there = np.ones(len(asked), dtype=np.bool_)
            return Run([message.identifier for message in asked], [(block, there)], repeat(1, len(asked)))
        return self._singly(messages)

    def _singly(self, messages: Sequence[Read | Rejection | None]) -> Run:
        """Return what messages are, each looked at alone; None is a round without a query."""
        parts: list[Part] = []
        rows: list[list[float]] = []
        present: list[bool] = []
        for message in messages:
            row = self._rows.read(message.values) if isinstance(message, Read) else message
            if isinstance(row, Rejection):
                parts.append(row)
                continue
            parts.append(message.identifier if isinstance(message, Read) else None)
            rows.append([0.0] * self._width if row is None else row)
            present.append(row is not None)
        features = np.array(rows, dtype=np.float64).reshape(len(rows), self._width)
        sizes = [0 if isinstance(part, Rejection) else 1 for part in parts]
        return Run(parts, [(features, np.array(present, dtype=np.bool_))], sizes)

    def encode(self, batch: DecodedBatch, answers: Answers) -> Replies:
        """Encode one reply for each delivery."""
        stretches = self._stretches(batch.deliveries)
        if not any(stretch.registered for stretch in stretches):
            return self._others.encode(batch, answers)
        bodies: list[bytes] = []
        kinds: list[str] = []
        ends = [0, *batch.ends]
        for start, stop, registered in stretches:
            first, last = ends[start], ends[stop]
            its = answers.part(first, last)
            some = DecodedBatch(
                batch.features[first:last],
                batch.present[first:last],
                batch.deliveries.part(start, stop),
                batch.parts[start:stop],
                [end - first for end in batch.ends[start:stop]],
                plain=False,
            )
            if registered:
                bodies += self._bodies(some, its)
                kinds += [self._answers.content_type] * (stop - start)
            else:
                replies = self._others.encode(some, its)
                bodies += replies.bodies
                kinds += replies.content_types
        return batch.replies(bodies, kinds)

    def _bodies(self, batch: DecodedBatch, answers: Answers) -> list[bytes]:
        asked = [part for part in batch.parts if part is None or isinstance(part, str | int)]
        outcomes = outcomes_of(batch, answers).tolist()
        answered = iter(self._answers.answers(asked, outcomes, answers.first_round, answers.phases.tolist()))
        return [
            self._answers.rejection(self._identifier(body, kind), part)
            if isinstance(part, Rejection)
            else next(answered)
            for body, kind, part in zip(
                batch.deliveries.bodies, batch.deliveries.content_types, batch.parts, strict=True
            )
        ]

    def _identifier(self, body: bytes | None, content_type: str) -> Identifier:
        """Return the id of a message that is no query, where it can be read."""
        if body is None or content_type == UNKNOWN_SCHEMA:
            return None
        message = self._writers.read(body)
        return None if isinstance(message, Rejection) else message.identifier


def _run_of(batch: DecodedBatch) -> Run:
    sizes = [end - start for start, end in pairwise([0, *batch.ends])]
    return Run(batch.parts, [(batch.features, batch.present)], sizes)
