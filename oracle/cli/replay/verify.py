"""`perpetua verify`: re-execute a recorded log and compare; nothing is published.

It says nothing of any answer before the running tag has shown that the log is the one that was answered: told of
another log under the run's own key, "this answer differs" would be an answer, and a free one.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from connectors.base import Committed, Replies, Source
from connectors.local.commitfile import DurableCommitFile
from oracle.cli.progress import Progress
from oracle.cli.replay.answers import AnswerFile, open_answers
from oracle.cli.sources import MESSAGES, deliveries, opened
from oracle.errors import LogDivergedError, PlanExhaustedError, RefusedError, StateError
from oracle.runtime.marks import CommitMark
from oracle.runtime.shard import Shard

__all__ = ["Verdict", "last_commit_of", "verify"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification found; it has compared at least one message.

    Attributes:
        identical: True if every recorded answer is the one that re-execution gives, byte for byte.
        first_difference: Number of the first message (from 0) of which an answer differs, or None.
        extra_epsilon: Always 0: the noise is the recorded run's own, so nothing new is released.
    """

    identical: bool
    messages: int
    rounds: int
    first_round: int
    first_difference: int | None
    extra_epsilon: float = 0.0


def last_commit_of(answers: Path, commit: Path | None) -> Committed:
    """Return what the run last committed, by default beside the answers: how far, and the tag of the queries.

    Raises:
        StateError: There is none, so nothing says which log was answered.
        StorageError: It cannot be read.
        SourceError: The answers cannot be read.
    """
    open_answers(answers).close()
    path = commit or answers.with_name(answers.name + ".commit")
    record = DurableCommitFile(path).read()
    if record is None or record.position is None:
        raise StateError(
            f"{path}: no commit, so nothing says which log was answered (--commit names the record if it was moved)"
        )
    return Committed(record.position, record.metadata)


async def verify(  # noqa: PLR0913, PLR0917 -- its parts
    shard: Shard, source: Source, answers: Path, committed: Committed, log: Path, size: int | None
) -> Verdict:
    """Re-execute a log (not yet open, of `size` bytes) behind the shard's position up to a commit, and compare answers.

    Raises:
        RefusedError: These answers can only be compared from the beginning, or there is nothing to compare.
        StateError: The commit lies before the snapshot.
        LogDivergedError: The log is not the one that was answered; nothing is said of its answers.
        SourceError: The log or the answers cannot be read.
    """
    first_round, messages = shard.facts().round, 0
    if shard.position and answers.suffix != ".jsonl":
        raise RefusedError(
            f"--from: a verification of {answers.suffix} answers starts at a genesis file, not at a later snapshot"
        )
    if committed.position < shard.position:
        raise StateError(
            f"--answers: committed up to position {committed.position}, behind the snapshot at {shard.position}"
        )
    if committed.position == shard.position:
        raise RefusedError(
            f"--from: the snapshot is at the last commit (round {first_round:,}), so there is nothing to compare; "
            "start at a genesis file (`perpetua init --keep-genesis`), or at an older copy of the state folder"
        )
    mark = CommitMark.unpack(committed.metadata)
    shard.learn(mark.passed)
    skipped = await _messages_before(source, shard.position)
    difference: int | None = None
    async with opened(source, shard.position or None):
        with contextlib.closing(open_answers(answers)) as recorded, Progress("replaying", size, "bytes") as progress:
            recorded.skip(skipped)
            async for replies in _replies(shard, source, committed.position):
                if difference is None:  # go on all the same: first it must be known that this is the log
                    found = _first_difference(recorded, replies)
                    difference = None if found is None else skipped + messages + found
                messages += len(replies)
                progress.at(shard.position)
            ended = recorded.ended()
    if shard.position != committed.position:
        raise LogDivergedError(f"{log}: not the log that was answered: no record ends at position {committed.position}")
    try:
        shard.check(mark)
    except LogDivergedError as exc:
        raise LogDivergedError(
            f"{log}: not the log that was answered: {str(exc).removeprefix('log diverged: ')}"
        ) from exc
    if difference is None and not ended:
        difference = skipped + messages
    return Verdict(
        identical=difference is None,
        messages=messages,
        rounds=shard.facts().round - first_round,
        first_round=first_round,
        first_difference=difference,
    )


async def _replies(shard: Shard, source: Source, last: int) -> AsyncIterator[Replies]:
    """Re-execute what ends at the position `last` or before; what is behind it was not answered then either."""
    while fetched := await source.fetch(MESSAGES, 1.0):
        waiting, behind = fetched.split(last)
        while waiting:
            try:
                replies = shard.process(shard.decode_leading(waiting)).commit.replies
            except PlanExhaustedError:
                return
            yield replies
            waiting = waiting.part(len(replies))
        if behind or shard.position == last:
            return


def _first_difference(recorded: AnswerFile, replies: Replies) -> int | None:
    for number, reply in enumerate(replies.rows()):
        if not recorded.matches(reply):
            return number
    return None


async def _messages_before(source: Source, position: int) -> int:
    """Count the log's messages before a position: as many answers were given before it."""
    if position == 0:
        return 0
    await source.open(None)
    count = 0
    async for fetched in deliveries(source, "LOG"):
        before, behind = fetched.split(position)
        count += len(before)
        if behind:
            break
    return count
