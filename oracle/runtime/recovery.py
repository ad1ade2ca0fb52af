"""From a snapshot and the sink's last commit back to the very state that made it."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol, Self

from connectors.base import Commit, Committed, Deliveries, Sink, Source
from oracle.codec.decoded import DecodedBatch
from oracle.errors import (
    LogDivergedError,
    MisplacedError,
    MovedError,
    PlanExhaustedError,
    RetiredError,
    SourceError,
)
from oracle.runtime.marks import CommitMark
from oracle.runtime.shard import Shard

__all__ = ["Placed", "catch_up", "check_order", "repeat_in_doubt"]

_ROWS: Final = 16_384
_FETCH_SECONDS: Final = 30.0
"""Seconds a replayable source may take to hand over a record that it once delivered.

A source that knows its records to be there, but cannot get at them, raises `BusError` then; one that returns nothing
has ended before them.
"""


class Placed(Protocol):
    """What has a place in the stream: a shard, or a snapshot's header."""

    @property
    def position(self) -> int:
        """Position after the last delivery; 0 before the first."""


def check_order(shard: Placed, committed: Committed | None) -> None:
    """Refuse to go on where the snapshot is ahead of the commits: its answers would be missing, or given twice.

    Raises:
        StateError: The snapshot is ahead.
        RetiredError: It was the last commit there will be.
        MovedError: It was the last commit in this place.
    """
    if committed is None:
        if shard.position > 0:
            raise MisplacedError(
                f"sink: it has no commit, but the state is at position {shard.position}; restore the sink's files (on "
                "Kafka: the group's committed offset, which goes with a deleted topic)"
            )
        return
    if CommitMark.is_last(committed.metadata):
        raise RetiredError(
            f"position {committed.position}: the model was retired here, and no copy of its state answers any more"
        )
    if CommitMark.left_by(committed.metadata) is not None:
        raise MovedError(
            f"position {committed.position}: the model left this place for another (`perpetua offsets export`), and no "
            "copy of its state answers here; `perpetua offsets import` brings it back, if it has answered nowhere else"
        )
    if committed.position < shard.position:
        raise MisplacedError(
            f"sink: its last commit is at position {committed.position}, behind the state at {shard.position};"
            " restore the sink's files (on Kafka: the group's committed offset), or the state folder of that time"
        )


async def catch_up(
    shard: Shard, source: Source, committed: Committed | None, progress: Callable[[int], None] = lambda _position: None
) -> tuple[int, Deliveries]:
    """Open the source behind the snapshot and re-execute up to the last commit.

    Nothing is written: every answer in between was published already, and comes out the same. It computes in a thread,
    for the event loop is wanted meanwhile: by probes, and by a bus that expects signs of life.

    Returns:
        The rounds it took, and the deliveries behind the commit that were fetched already.

    Raises:
        StateError: The snapshot is ahead of the commit, or the model was retired.
        LogDivergedError: The log between the two is not the one that was answered.
        SourceError: The log between the two is gone.
        BusError: It is there, but is not handed over.
    """
    check_order(shard, committed)
    mark = None if committed is None else CommitMark.unpack(committed.metadata)
    if mark is not None:
        shard.learn(mark.passed)
    await source.open(shard.position or None)
    if committed is None or mark is None:
        return 0, Deliveries()
    behind = Deliveries()
    async with _Repeating(shard, progress) as repeating:
        reached = shard.position
        while reached < committed.position and not behind:
            fetched = await source.fetch(_ROWS, _FETCH_SECONDS)
            if not fetched:
                raise SourceError(
                    f"source: it ends before position {committed.position}, up to which answers were committed"
                )
            deliveries, behind = fetched.split(committed.position)
            while deliveries:
                batch = await asyncio.to_thread(shard.decode_leading, deliveries)
                await repeating.add(batch)
                reached = batch.deliveries.positions[-1]
                deliveries = deliveries.part(len(batch.deliveries))
        rounds = await repeating.finish()
    if shard.position != committed.position:
        raise LogDivergedError(f"log diverged: no record ends at position {committed.position}")
    shard.check(mark)
    return rounds, behind


class _Repeating:
    """Re-executes batches in order, one at a time, in a thread, while the next one is fetched and decoded."""

    def __init__(self, shard: Shard, progress: Callable[[int], None]) -> None:
        self._shard = shard
        self._progress = progress
        self._rounds = 0
        self._task: asyncio.Task[int] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is not None:  # something else failed meanwhile
            await asyncio.wait({task})
            found = None if task.cancelled() else task.exception()
            if isinstance(found, LogDivergedError) and isinstance(error, Exception):
                raise found from error  # it came first, and says more

    async def add(self, batch: DecodedBatch) -> None:
        """Begin to re-execute a batch when the last one is done."""
        await self.finish()
        self._task = asyncio.create_task(asyncio.to_thread(_again, self._shard, batch))

    async def finish(self) -> int:
        """Wait until all is done, and return the rounds it took."""
        task, self._task = self._task, None
        if task is not None:
            self._rounds += await task
            self._progress(self._shard.position)
        return self._rounds


def _again(shard: Shard, batch: DecodedBatch) -> int:
    """Re-execute a batch and return their rounds; all of them were answered once, so the plan has them."""
    try:
        return shard.repeat(batch)
    except PlanExhaustedError as exc:
        raise LogDivergedError(
            "log diverged: it holds more queries than the plan has rounds, so they were never answered"
        ) from exc


async def repeat_in_doubt(shard: Shard, source: Source, sink: Sink, waiting: Deliveries) -> Deliveries:
    """Give again what a crash may have let out of the sink; return the deliveries behind it that were fetched already.

    Raises:
        LogDivergedError: The log is not the one that those answers belong to; nothing was given.
        SourceError: The log ends before.
        BusError: It is there, but is not handed over.
    """
    doubt = sink.in_doubt
    if doubt is None:
        return waiting
    while not waiting or waiting.positions[-1] < doubt.position:
        fetched = await source.fetch(_ROWS, _FETCH_SECONDS)
        if not fetched:
            raise SourceError(f"source: it ends before position {doubt.position}, up to which answers may have left")
        waiting = Deliveries.joined([waiting, fetched])
    mark = CommitMark.unpack(doubt.metadata)
    shard.learn(mark.passed)
    again, behind = waiting.split(doubt.position)
    if not again or again.positions[-1] != doubt.position:
        raise LogDivergedError(
            f"log diverged: no record ends at position {doubt.position}, up to which answers may have left"
        )
    commits: list[Commit] = []
    while again:
        batch = await asyncio.to_thread(shard.decode_leading, again)
        outcome = await asyncio.to_thread(shard.process, batch)
        commits.append(outcome.commit)
        again = again.part(len(outcome.commit.replies))
    shard.check(mark)
    await sink.commit(Commit.joined(commits))
    return behind
