"""Deliveries to one NumPy batch in arrival order, and its answers back to one reply a delivery."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat

import numpy as np
from numpy.typing import NDArray

from connectors.base import ARROW_STREAM, JSON, RETAINED, Delivery, Rejected, Reply
from connectors.columns import Deliveries
from oracle.codec.arrow.messages import ArrowCodec, ArrowQueries
from oracle.codec.decoded import RUN, Block, DecodedBatch, Part, decode_run, joined, plain_replies
from oracle.codec.json.messages import JsonCodec
from oracle.codec.json.questions import Breakdown
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.plan import Plan
from oracle.predictors.base import Answers

__all__ = ["BatchCodec"]


class BatchCodec:
    """Decodes and encodes all content types of one model.

    Args:
        plan: What it binds decides what counts as a query, so no other setting can shift a round.
    """

    def __init__(self, plan: Plan) -> None:
        self._dimension = plan.width
        self._json = JsonCodec(plan)
        self._arrow = ArrowCodec(plan)

    def decode(self, deliveries: Sequence[Delivery]) -> DecodedBatch:
        """Decode deliveries in order. A rejected one has no row."""
        parts: list[Part] = []
        sizes: list[int] = []
        blocks: list[Block] = []
        plain = True
        for start in range(0, len(deliveries), RUN):
            some = deliveries[start : start + RUN]
            run = decode_run(self._json, self._dimension, some)
            if run is not None:
                blocks.append(run[1])
                sizes += repeat(1, len(some))
                parts += run[0]
                continue
            plain = False
            found = self._decode_arrow_run(some)
            if found is not None:
                blocks.append(found[1])
                sizes += found[2]
                parts += found[0]
                continue
            others = self._decode_singly(some, blocks)
            sizes += map(_rows_of, others)
            parts += others
        features, present = joined(blocks, self._dimension)
        return DecodedBatch(features, present, deliveries, parts, list(accumulate(sizes)), plain)

    def _decode_arrow_run(self, deliveries: Sequence[Delivery]) -> tuple[Sequence[Part], Block, Iterable[int]] | None:
        """Decode deliveries that are all Arrow messages of the same columns, and count the rows; else return None."""
        if isinstance(deliveries, Deliveries):
            return None  # of JSON
        bodies = [delivery[1] for delivery in deliveries if delivery[2] == ARROW_STREAM and delivery[1] is not None]
        if len(bodies) < len(deliveries):
            return None
        run = self._arrow.decode_run(bodies)
        if run is None:
            return None
        block = _asked(run.whole)
        if len(block[0]) == len(run.whole.rejected):  # then there is nothing to count, and all share the block's rows
            return run.parts, block, [len(one.rejected) for one in run.parts]
        return [_without_rows(one) for one in run.parts], block, map(_rows_of, run.parts)

    def _decode_singly(self, deliveries: Sequence[Delivery], blocks: list[Block]) -> list[Part]:
        """Decode deliveries one by one; return their parts and append their rows to `blocks`."""
        blank = [0.0] * self._dimension
        parts: list[Part] = []
        rows: list[Sequence[float]] = []
        owners: list[int] = []  # the part of each row of the current run of JSON rows; -1 for a tombstone

        def flush() -> None:
            if rows:
                blocks.append(self._checked(rows, owners, parts))
                rows.clear()
                owners.clear()

        for delivery in deliveries:
            body = delivery.body
            if body is None:
                parts.append(None)
                rows.append(blank)
                owners.append(-1)
            elif delivery.content_type == JSON:
                decoded = self._json.decode(body)
                if isinstance(decoded, Rejection):
                    parts.append(decoded)
                else:
                    owners.append(len(parts))
                    parts.append(decoded[0])
                    rows.append(decoded[1])
            elif delivery.content_type == ARROW_STREAM:
                flush()
                message = self._arrow.decode(body)
                if isinstance(message, ArrowQueries):
                    blocks.append(_asked(message))
                    message = _without_rows(message)
                parts.append(message)
            elif delivery.content_type == RETAINED:
                parts.append(Rejection(Reason.RETAINED, "retain flag", "not set"))
            else:
                parts.append(Rejection(Reason.UNSUPPORTED_CONTENT, "content type", f"{JSON} or {ARROW_STREAM}"))
        flush()
        return parts

    def _checked(
        self, rows: list[Sequence[float]], owners: list[int], parts: list[Part]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the finite rows of a run; rows that are not finite become rejections."""
        block = np.array(rows, dtype=np.float64)
        owner = np.array(owners)
        finite = np.isfinite(block).all(axis=1)
        for row in np.flatnonzero(~finite):
            parts[owners[row]] = self._json.not_finite(block[row])
        return block[finite], owner[finite] >= 0

    def encode(self, batch: DecodedBatch, answers: Answers) -> Sequence[Reply]:
        """Encode one reply for each delivery."""
        if batch.plain:
            return self._encode_plain(batch, answers)
        answered = _outcomes(answers)
        replies: list[Reply] = []
        start = 0
        run: list[str | int | None] = []
        run_deliveries: list[Delivery] = []

        def flush() -> None:
            nonlocal start
            if run:
                stop = start + len(run)
                first = answers.first_round + start
                outcomes, phases = answered[start:stop].tolist(), answers.phases[start:stop].tolist()
                bodies = self._json.encode_answers(run, outcomes, first, phases)
                replies.extend(
                    Reply(body, JSON, delivery.headers, delivery.key)
                    for body, delivery in zip(bodies, run_deliveries, strict=True)
                )
                start = stop
                run.clear()
                run_deliveries.clear()

        for delivery, part, end in zip(batch.deliveries, batch.parts, batch.ends, strict=True):
            if isinstance(part, Rejection):
                flush()
                body = self._json.encode_rejection(delivery.body, part)
                rejected = Rejected(part.reason, delivery.position, delivery.body or b"")
                replies.append(Reply(body, JSON, delivery.headers, delivery.key, rejected))
            elif isinstance(part, ArrowQueries):
                flush()
                rows = slice(start, end)
                first = answers.first_round + start
                body = self._arrow.encode(part, answered[rows], first, answers.phases[rows])
                replies.append(Reply(body, ARROW_STREAM, delivery.headers, delivery.key))
                start = end
            elif not isinstance(part, Breakdown):  # which is of tables only
                run.append(part)
                run_deliveries.append(delivery)
        flush()
        return replies

    def _encode_plain(self, batch: DecodedBatch, answers: Answers) -> Sequence[Reply]:
        bodies = self._json.encode_answers(
            batch.identifiers, _outcomes(answers).tolist(), answers.first_round, answers.phases.tolist()
        )
        return plain_replies(batch.deliveries, bodies)


def _asked(message: ArrowQueries) -> Block:
    """Return the rows that were not rejected."""
    asked = message.rejected == 0
    return (message.features, message.present) if asked.all() else (message.features[asked], message.present[asked])


def _without_rows(message: ArrowQueries) -> ArrowQueries:
    """Return a message without what a batch has of it by now."""
    return message._replace(features=message.features[:0].copy(), present=message.present[:0].copy())


def _outcomes(answers: Answers) -> NDArray[np.int8] | NDArray[np.float64]:
    """Return what the answers say: labels, or values where there are any."""
    return answers.labels if answers.values is None else answers.values


def _rows_of(part: Part) -> int:
    if isinstance(part, ArrowQueries):
        return len(part.rejected) - int(np.count_nonzero(part.rejected))
    return 0 if isinstance(part, Rejection) else 1
