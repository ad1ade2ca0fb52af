"""The verifying half of `perpetua replay`: re-execute a recorded log and compare; nothing is published."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from connectors.base import Delivery, Reply, Source
from oracle.cli.answers import AnswerFile, open_answers
from oracle.cli.progress import Progress
from oracle.errors import PlanExhaustedError, RefusedError, SourceError
from oracle.service.shard import Shard

__all__ = ["Verdict", "verify"]

_MESSAGES = 16_384


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification found.

    Attributes:
        identical: True if every recorded answer is the one that re-execution gives, byte for byte.
        messages: Messages re-executed.
        rounds: Rounds re-executed.
        first_round: Round of the snapshot.
        first_difference: Number of the first answer that differs (from 0), or None.
        extra_epsilon: Always 0: the noise is the recorded run's own, so nothing new is released.
    """

    identical: bool
    messages: int
    rounds: int
    first_round: int
    first_difference: int | None
    extra_epsilon: float = 0.0


async def verify(shard: Shard, source: Source, answers: Path, size: int | None) -> Verdict:
    """Re-execute a log behind the shard's position and compare with what was answered.

    Args:
        shard: Just restored from its snapshot.
        source: The recorded log, not yet open.
        answers: What was answered, as a sink wrote it.
        size: The log's size in bytes, where it is known: for progress only.

    Raises:
        RefusedError: These answers can only be compared from the beginning.
        SourceError: The log or the answers cannot be read.
    """
    first_round, messages = shard.facts().round, 0
    if shard.position and answers.suffix != ".jsonl":
        msg = f"--from: a verification of {answers.suffix} answers starts at a genesis file, not at a later snapshot"
        raise RefusedError(msg)
    skipped = await _messages_before(source, shard.position)
    difference: int | None = None
    await source.open(shard.position or None)
    try:
        with contextlib.closing(open_answers(answers)) as recorded, Progress("replaying", size, "bytes") as progress:
            recorded.skip(skipped)
            async for replies in _replies(shard, source):
                difference = _first_difference(recorded, replies)
                messages += len(replies)
                progress.at(shard.position)
                if difference is not None:
                    difference += skipped + messages - len(replies)
                    break
            if difference is None and not recorded.ended():
                difference = skipped + messages
    finally:
        await source.close()
    rounds = shard.facts().round - first_round
    return Verdict(
        identical=difference is None,
        messages=messages,
        rounds=rounds,
        first_round=first_round,
        first_difference=difference,
    )


async def _replies(shard: Shard, source: Source) -> AsyncIterator[list[Reply]]:
    waiting: Sequence[Delivery] = []
    while waiting := waiting or await source.fetch(_MESSAGES, 1.0):
        try:
            replies = list(shard.process(waiting).commit.replies)
        except PlanExhaustedError:
            return  # what is behind the plan's last round was not answered then either
        yield replies
        waiting = waiting[len(replies) :]


def _first_difference(recorded: AnswerFile, replies: list[Reply]) -> int | None:
    for number, reply in enumerate(replies):
        if not recorded.matches(reply):
            return number
    return None


async def _messages_before(source: Source, position: int) -> int:
    """Count the log's messages before a position: as many answers were given before it."""
    if position == 0:
        return 0
    await source.open(None)
    count = 0
    while deliveries := await source.fetch(_MESSAGES, 1.0):
        before = sum(delivery.position <= position for delivery in deliveries)
        count += before
        if before < len(deliveries):
            break
    if not deliveries and not source.exhausted:
        msg = "log: cannot be read to its end"
        raise SourceError(msg)
    return count
