"""Deliveries to one NumPy batch in arrival order, and its answers back to one reply a delivery."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from connectors.base import ARROW_STREAM, JSON, RETAINED, Deliveries, Replies
from oracle.codec.arrow.messages import ArrowCodec, ArrowQueries
from oracle.codec.decoded import Block, DecodedBatch, Part, Run, decode_in_runs
from oracle.codec.json.messages import RESTING, JsonCodec
from oracle.codec.json.public import Several
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.plan import Plan
from oracle.predictors.base import Answers

__all__ = ["BatchCodec", "outcomes_of"]

_Outcomes = NDArray[np.int8] | NDArray[np.float64]


class BatchCodec:
    """Decodes and encodes all content types of one model.

    Args:
        plan: What it binds decides what counts as a query, so no other setting can shift a round.
    """

    def __init__(self, plan: Plan) -> None:
        self._dimension = plan.width
        self._json = JsonCodec(plan)
        self._arrow = ArrowCodec(plan)

    def decode(self, deliveries: Deliveries) -> DecodedBatch:
        """Decode deliveries in order. A rejected one has no row."""
        return decode_in_runs(deliveries, self._dimension, self._json, self._decode_others)

    def _decode_others(self, deliveries: Deliveries) -> Run:
        return self._decode_arrow_run(deliveries) or self._decode_singly(deliveries)

    def _decode_arrow_run(self, deliveries: Deliveries) -> Run | None:
        """Decode deliveries that are all Arrow messages of the same columns, and count the rows; else return None."""
        bodies = [body for body in deliveries.bodies if body is not None]
        if len(bodies) < len(deliveries) or deliveries.content_types.count(ARROW_STREAM) < len(deliveries):
            return None
        run = self._arrow.decode_run(bodies)
        if run is None:
            return None
        block = _asked(run.whole)
        if len(block[0]) == len(run.whole.rejected):  # then there is nothing to count, and all share the block's rows
            return Run(run.parts, [block], [len(one.rejected) for one in run.parts])
        return Run([_without_rows(one) for one in run.parts], [block], map(_rows_of, run.parts))

    def _decode_singly(self, deliveries: Deliveries) -> Run:
        blank = [0.0] * self._dimension
        parts: list[Part] = []
        blocks: list[Block] = []
        rows: list[Sequence[float]] = []
        owners: list[int] = []  # the part of each row of the current run of JSON rows; -1 for a tombstone

        def flush() -> None:
            if rows:
                blocks.append(self._checked(rows, owners, parts))
                rows.clear()
                owners.clear()

        for body, content_type in zip(deliveries.bodies, deliveries.content_types, strict=True):
            if body is None:
                parts.append(None)
                rows.append(blank)
                owners.append(-1)
            elif content_type == JSON:
                decoded = self._json.decode(body)
                if isinstance(decoded, Rejection):
                    parts.append(decoded)
                else:
                    owners.append(len(parts))
                    parts.append(decoded[0])
                    rows.append(decoded[1])
            elif content_type == ARROW_STREAM:
                flush()
                message = self._arrow.decode(body)
                if isinstance(message, ArrowQueries):
                    blocks.append(_asked(message))
                    message = _without_rows(message)
                parts.append(message)
            elif content_type == RETAINED:
                parts.append(Rejection(Reason.RETAINED, "retain flag", "not set"))
            else:
                parts.append(Rejection(Reason.UNSUPPORTED_CONTENT, "content type", f"{JSON} or {ARROW_STREAM}"))
        flush()
        return Run(parts, blocks, map(_rows_of, parts))

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

    def encode(self, batch: DecodedBatch, answers: Answers) -> Replies:
        """Encode one reply for each delivery."""
        outcomes = outcomes_of(batch, answers)
        if batch.plain:
            bodies = self._json.encode_answers(
                batch.identifiers, outcomes.tolist(), answers.first_round, answers.phases.tolist()
            )
            return batch.replies(bodies, batch.deliveries.content_types)
        kinds = [ARROW_STREAM if isinstance(part, ArrowQueries) else JSON for part in batch.parts]
        return batch.replies(self._bodies(batch, outcomes, answers), kinds)

    def _bodies(self, batch: DecodedBatch, outcomes: _Outcomes, answers: Answers) -> list[bytes]:
        bodies: list[bytes] = []
        start = 0
        run: list[str | int | None] = []

        def flush() -> None:
            nonlocal start
            if run:
                rows = slice(start, start + len(run))
                first = answers.first_round + start
                bodies.extend(
                    self._json.encode_answers(run, outcomes[rows].tolist(), first, answers.phases[rows].tolist())
                )
                start = rows.stop
                run.clear()

        for asked, part, end in zip(batch.deliveries.bodies, batch.parts, batch.ends, strict=True):
            if isinstance(part, Rejection):
                flush()
                bodies.append(self._json.encode_rejection(asked, part))
            elif isinstance(part, ArrowQueries):
                flush()
                rows, first = slice(start, end), answers.first_round + start
                bodies.append(self._arrow.encode(part, outcomes[rows], first, answers.phases[rows]))
                start = end
            elif not isinstance(part, Several):  # which is of tables only
                run.append(part)
        flush()
        return bodies


def _asked(message: ArrowQueries) -> Block:
    asked = message.rejected == 0
    return (message.features, message.present) if asked.all() else (message.features[asked], message.present[asked])


def _without_rows(message: ArrowQueries) -> ArrowQueries:
    """Return a message without what a batch has of it by now."""
    return message._replace(features=message.features[:0].copy(), present=message.present[:0].copy())


def outcomes_of(batch: DecodedBatch, answers: Answers) -> _Outcomes:
    """Return what the answers say: labels, or that the model rested; or values where there are any."""
    if answers.values is not None:
        return answers.values
    if answers.verified is None:
        return answers.labels
    return np.where(batch.present & ~answers.verified, np.int8(RESTING), answers.labels)


def _rows_of(part: Part) -> int:
    if isinstance(part, ArrowQueries):
        return len(part.rejected) - int(np.count_nonzero(part.rejected))
    return 0 if isinstance(part, Rejection) else 1
