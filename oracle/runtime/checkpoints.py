"""When a shard's snapshots are taken and written.

A snapshot is taken between two batches and written as soon as all before it is durable; meanwhile the next batches are
answered. One at a time: where the next falls due before that, answering waits for it.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeVar

from oracle.errors import PerpetuaError, StorageError
from oracle.predictors.base import PublicFacts
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot
from oracle.state.store import Store
from oracle.telemetry.reporter import Reporter

__all__ = ["Checkpoints", "Retention", "Saved", "Taken"]

_RETRY: Final = 5.0
"""Seconds between tries to write a snapshot where the disk would not take the last one."""


_Result = TypeVar("_Result")


class Retention(Protocol):
    """What keeps deliveries for a restart, and may let go of those that a snapshot is past."""

    @property
    def pressed(self) -> bool:
        """Whether a snapshot should come before it is due, so that something can be let go."""

    async def forget(self, position: int) -> None:
        """Let go of what no restart from this position needs.

        Raises:
            StorageError: It could not be let go.
        """


class Saved(Protocol):
    """A snapshot that is written, or its header."""

    @property
    def round(self) -> int:
        """Rounds answered."""

    @property
    def position(self) -> int:
        """Position up to which its rounds go."""

    @property
    def phase(self) -> int:
        """Phase it was taken in."""


class _Place(NamedTuple):
    round: int
    position: int


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot that is not written yet.

    Attributes:
        durable: Set when all before it is durable.
    """

    snapshot: Snapshot
    facts: PublicFacts
    durable: asyncio.Event


class Checkpoints:
    """The snapshots of one shard.

    Formal guarantees:
        * A snapshot is only ever written at a committed position.
        * They are written in order, one at a time; a later one is not even taken before.

    Args:
        store: Holds at least the first snapshot.
        rounds: One is due after so many rounds.
        seconds: One is due after so many seconds with a new delivery.
        clock: Seconds, monotone.
        retention: Told of each; None where the bus keeps deliveries by itself.
    """

    def __init__(  # noqa: PLR0913 -- its parts
        self,
        store: Store,
        reporter: Reporter,
        *,
        rounds: int,
        seconds: float,
        clock: Callable[[], float],
        retention: Retention | None = None,
    ) -> None:
        self._store = store
        self._reporter = reporter
        self._rounds = rounds
        self._seconds = seconds
        self._clock = clock
        self._retention = retention
        self._durable = 0

    def begin(self, snapshot: Saved) -> None:
        """Go on from the newest snapshot."""
        self._saved = self._last = _Place(snapshot.round, snapshot.position)
        self._phase = snapshot.phase
        self._saved_at = self._clock()
        self._retry_at = -math.inf
        self._taken: Taken | None = None
        self._slot = asyncio.Lock()

    @property
    def durable(self) -> int:
        """The position up to which all is durable."""
        return self._durable

    def reached(self, position: int) -> None:
        """All up to a position is durable: what was taken before it may be written."""
        self._durable = position
        if self._taken is not None and self._taken.snapshot.position <= position:
            self._taken.durable.set()

    async def take_if_due(self, shard: Shard) -> Taken | None:
        """Return a snapshot to be given to `write`, if one is due between two batches; the last one is written then.

        Raises:
            MessageError: See `Shard.settle`.
            ResourceError: The same.
        """
        if not self._is_due(shard, writing=self._slot.locked()):
            return None
        await self._slot.acquire()
        if not self._is_due(shard, writing=False):  # the last one has just failed
            self._slot.release()
            return None
        taken = self._taken = await self._take(shard)
        self._last, self._phase = _Place(taken.snapshot.round, taken.snapshot.position), taken.snapshot.phase
        self.reached(self._durable)
        return taken

    def _is_due(self, shard: Shard, *, writing: bool) -> bool:
        facts = shard.facts()
        ended = facts.phase != self._phase  # its key is to go soon
        if shard.position <= self._last.position or (self._clock() < self._retry_at and not ended):
            return False
        if ended or facts.round - self._last.round >= self._rounds:
            return True  # also while one is being written: a disk that hangs holds us up at last
        first = self._saved.position == 0  # from now on a sink that was taken away is noticed
        failed = math.isfinite(self._retry_at)  # it may have been a phase's end: the old key shall not stay for long
        pressed = self._retention is not None and self._retention.pressed
        late = self._clock() - self._saved_at >= self._seconds  # rejected deliveries count
        return not writing and (first or failed or pressed or late)

    async def _take(self, shard: Shard) -> Taken:
        return Taken(await asyncio.to_thread(_settled, shard), shard.facts(), asyncio.Event())

    async def write(self, taken: Taken) -> None:
        """Write a snapshot as soon as all before it is durable. If the disk is full: the older one and the log suffice.

        Cancelled while it is written, it takes as long as the disk does: whoever has the folder next comes after it.
        """
        await taken.durable.wait()
        try:
            await self._save(taken)
        except StorageError as exc:
            self._reporter.snapshot_failed(exc)
            self._last, self._retry_at = self._saved, self._clock() + _RETRY
        finally:
            self._slot.release()

    async def write_last(self, shard: Shard) -> None:
        """Write a snapshot where all is durable, unless there is one.

        Raises:
            StorageError: The disk is full.
        """
        if shard.position > self._saved.position:
            await self._save(await self._take(shard))

    def newest(self) -> tuple[float | None, int | None]:
        """Return when the newest snapshot was written and its bytes, None where the store cannot tell just now."""
        try:
            header = self._store.peek()
            return self._store.written(), header.total_bytes if header else None
        except PerpetuaError:
            return None, None

    async def _save(self, taken: Taken) -> None:
        snapshot = taken.snapshot

        def save() -> float:
            started = self._clock()  # not before: what a snapshot sorts is private
            self._store.save(snapshot)
            return self._clock() - started

        seconds = await _to_its_end(asyncio.get_running_loop().run_in_executor(None, save))
        self._saved = _Place(snapshot.round, snapshot.position)
        self._saved_at, self._retry_at = self._clock(), -math.inf
        if self._retention is not None:
            await self._retention.forget(snapshot.position)
        newest = await asyncio.to_thread(self.newest)
        self._reporter.snapshot_written(taken.facts, *newest, seconds)


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
