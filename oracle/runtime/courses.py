"""The course of a batch, from its fetch to its commit, and what is told of it to who follows batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Final

from connectors.base import Headers, Rejected
from connectors.traceparents import sampled
from oracle.runtime.shard import Outcome
from oracle.telemetry.records import Asked, BatchTelemetry, Work

__all__ = ["Course", "told"]

_MOST_ASKED: Final = 64
"""Most messages of a batch that are told one by one."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a batch fared up to its commit.

    Attributes:
        shard: Its shard's number.
        positions: Behind each of its messages.
        fetched: When they were handed over (seconds of `time.perf_counter`).
        decoding: Seconds.
        answering: Seconds, without the bookkeeping of the batch before; None where nobody may be told.
    """

    shard: int
    positions: Sequence[int]
    fetched: float
    decoding: float
    answering: float | None = None


def told(course: Course, outcome: Outcome, committing: float, ended: float, now: float) -> BatchTelemetry:
    """Return what is told of a batch that was committed.

    Args:
        course: Up to its commit, with `answering`.
        outcome: What became of it.
        committing: Seconds.
        ended: When it was durable (seconds of `time.perf_counter`).
        now: The same moment (seconds since 1970).
    """
    positions, replies = course.positions, outcome.commit.replies
    seconds = ended - course.fetched
    return BatchTelemetry(
        shard=course.shard,
        began=now - seconds,
        first=positions[0],
        last=outcome.commit.position,
        messages=len(replies),
        rounds=outcome.rounds,
        rejected=len(outcome.rejections),
        seconds={
            Work.DECODE: course.decoding,
            Work.ANSWER: course.answering or 0.0,
            Work.COMMIT: committing,
            Work.LATENCY: seconds,
        },
        asked=_asked(positions, replies.headers, replies.rejected),
    )


def _asked(
    positions: Sequence[int], headers: Sequence[Headers], rejected: Sequence[Rejected | None]
) -> tuple[Asked, ...]:
    def one(place: int, traceparent: str) -> Asked:
        reason = rejected[place]
        return Asked(traceparent, positions[place], None if reason is None else reason.reason)

    return tuple(starmap(one, sampled(headers, _MOST_ASKED)))
