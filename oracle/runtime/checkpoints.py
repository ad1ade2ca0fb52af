"""When a shard's snapshots are taken and written.

A snapshot is taken between two batches and written as soon as all before it is durable; meanwhile the next batches are
answered. One at a time: where the next falls due before that, answering waits for both. It also waits for the first
one, for one that failed, and where deliveries need room.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol, TypeVar

from oracle.errors import PerpetuaError, StorageError
from oracle.predictors.base import PublicFacts
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot
from oracle.state.store import Store
from oracle.telemetry.reporter import Reporter

__all__ = ["Checkpoints", "Retention"]

_RETRY: Final = 5.0
"""Seconds between tries to write a snapshot where the disk would not take the last one."""


_Result = TypeVar("_Result")


class Retention(Protocol):
    """What keeps deliveries for a restart, and may let go of those that a snapshot is past."""

    @property
    def pressed(self) -> bool:
        """Whether a snapshot should come before it is due, so that something can be let go."""
        ...

    async def forget(self, position: int) -> None:
        """Let go of what no restart from this position needs.

        Raises:
            StorageError: It could not be let go.
        """
        ...


class _Due(Enum):
    """Whether a snapshot is to be taken before the next batch is answered: no, beside the answering, or before it."""

    NO = auto()
    BESIDE = auto()
    BEFORE = auto()


@dataclass(frozen=True, slots=True)
class _Taken:
    snapshot: Snapshot
    facts: PublicFacts


class Checkpoints:
    """The snapshots of one shard.

    Formal guarantees:
        * A snapshot is only ever written at a committed position.
        * They are written in order, one at a time; a later one waits for the one before it.

    Args:
        store: Holds at least the first snapshot.
        watch: Told of each.
        rounds: One is due after so many rounds.
        seconds: One is due after so many seconds with a new delivery.
        clock: Seconds, monotone.
        retention: Told of each; None where the bus keeps deliveries by itself.
    """

    def __init__(  # noqa: PLR0913 -- its parts
        self,
        store: Store,
        watch: Reporter,
        *,
        rounds: int,
        seconds: float,
        clock: Callable[[], float],
        retention: Retention | None = None,
    ) -> None:
        self._store = store
        self._watch = watch
        self._rounds = rounds
        self._seconds = seconds
        self._clock = clock
        self._retention = retention
        self._saved_round = self._saved_position = self._committed = 0
        self._saved_at = 0.0
        self._retry_at = -math.inf
        self._taken: _Taken | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot that was just read."""
        self._saved_round, self._saved_position = snapshot.round, snapshot.position
        self._saved_at = self._clock()

    async def take_if_due(self, shard: Shard, *, ended: bool = False) -> bool:
        """Take a snapshot that is due, to be written when all before it is durable; return whether that must be first.

        Then nothing was taken: `write` it when all is durable, and answer no batch before.

        Args:
            shard: Between two batches.
            ended: Whether a phase ended in the last one, so that its key is to go soon.

        Raises:
            PerpetuaError: See `look`.
        """
        self.look()
        due = self._due(shard, ended=ended)
        if due is _Due.BESIDE:
            self._taken = _Taken(await asyncio.to_thread(_settled, shard), shard.facts())
            self._write_if_durable()
        return due is _Due.BEFORE

    def _due(self, shard: Shard, *, ended: bool) -> _Due:
        round_, position = self._saved_round, self._saved_position
        if self._taken is not None:
            round_, position = self._taken.snapshot.round, self._taken.snapshot.position
        if shard.position <= position or (self._clock() < self._retry_at and not ended):
            return _Due.NO
        due = ended or shard.facts().round - round_ >= self._rounds
        if self._taken is not None:
            return _Due.BEFORE if due else _Due.NO  # so a disk that hangs holds us up at last
        first = self._saved_position == 0  # from now on a sink that was taken away is noticed
        failed = math.isfinite(self._retry_at)  # it may have been a phase's end: the old key shall not stay for long
        pressed = self._retention is not None and self._retention.pressed
        if first or failed or pressed:
            return _Due.BEFORE
        late = self._clock() - self._saved_at >= self._seconds  # rejected deliveries count
        return _Due.BESIDE if due or late else _Due.NO

    def reached(self, position: int) -> None:
        """All up to a position is durable. What was taken before it is written from now on.

        Raises:
            PerpetuaError: What the last snapshot failed with, if not for want of space.
        """
        self._committed = position
        self.look()
        self._write_if_durable()

    def look(self) -> None:
        """See whether what was taken has been written. If the disk is full: the older one and the log suffice.

        Raises:
            PerpetuaError: It failed for another reason.
        """
        if self._task is None or not self._task.done():
            return
        task, self._task, self._taken = self._task, None, None
        try:
            task.result()
        except StorageError as exc:
            self._failed(exc)

    async def write(self, shard: Shard) -> None:
        """Write a snapshot at the committed position. If the disk is full: the older one and the log suffice."""
        try:
            await self.write_last(shard)
        except StorageError as exc:
            self._failed(exc)

    async def write_last(self, shard: Shard) -> None:
        """Write a snapshot at the committed position unless there is one.

        Raises:
            StorageError: The disk is full.
        """
        await self.finish()
        if shard.position <= self._saved_position:
            return
        facts, snapshot = shard.facts(), await asyncio.to_thread(shard.snapshot)
        await self._write(_Taken(snapshot, facts))

    async def finish(self) -> None:
        """Wait until what was taken, all before which is durable by now, has been written."""
        if self._task is not None:
            await asyncio.wait({self._task})
        self.look()

    async def close(self) -> None:
        """Let what is being written be written to its end, and forget what waits; how it ended is told to nobody.

        It takes as long as the disk does: whoever has the folder next comes after it.
        """
        task, self._task, self._taken = self._task, None, None
        if task is not None:
            with contextlib.suppress(Exception):
                await _to_its_end(task)

    def newest(self) -> tuple[float | None, int | None]:
        """Return when the newest snapshot was written and its bytes, None where the store cannot tell just now."""
        try:
            header = self._store.peek()
            return self._store.written(), header.total_bytes if header else None
        except PerpetuaError:
            return None, None

    def _write_if_durable(self) -> None:
        taken = self._taken
        if taken is not None and self._task is None and taken.snapshot.position <= self._committed:
            self._task = asyncio.create_task(self._write(taken))

    async def _write(self, taken: _Taken) -> None:
        snapshot = taken.snapshot

        def save() -> float:
            started = self._clock()  # not before: what a snapshot sorts is private
            self._store.save(snapshot)
            return self._clock() - started

        saving = asyncio.get_running_loop().run_in_executor(None, save)
        seconds = await _to_its_end(saving)
        self._saved_round, self._saved_position = snapshot.round, snapshot.position
        self._saved_at, self._retry_at = self._clock(), -math.inf
        if self._retention is not None:
            await self._retention.forget(snapshot.position)
        newest = await asyncio.to_thread(self.newest)
        self._watch.snapshot_written(taken.facts, *newest, seconds)

    def _failed(self, error: StorageError) -> None:
        self._watch.snapshot_failed(error)
        self._retry_at = self._clock() + _RETRY


def _settled(shard: Shard) -> Snapshot:
    shard.settle()
    return shard.snapshot()


async def _to_its_end(saving: "asyncio.Future[_Result]") -> _Result:
    """Wait for a thread also if we are cancelled meanwhile, and pass that on only then.

    A thread cannot be stopped: whoever closes the store, and lets another process have its folder, comes after it.
    """
    cancelled: asyncio.CancelledError | None = None
    while not saving.done():
        try:
            await asyncio.wait({saving})
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None:
        saving.exception()  # it is told to nobody
        raise cancelled
    return saving.result()
