"""Whether a process is ready: what it serves is restored, its own, moving, and its folders can be written."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from oracle.state.space import folder_problem
from oracle.telemetry.records import ShardTelemetry, State
from oracle.telemetry.registry import Registry
from oracle.telemetry.trends import Trends

__all__ = ["Health", "NotReady"]

_FOLDER_SECONDS: Final = 2.0
_HANGING_SECONDS: Final = 20.0

_NOT_RESTORED: Final = {
    State.WAITING: "shard {} is waiting for the bus",
    State.RESTORING: "shard {} is restoring",
    State.FAILED: "shard {} has failed and needs an operator; see its last error",
    State.STOPPED: "shard {} has stopped",
}


class NotReady(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reason not to be ready.

    Attributes:
        shard: Which shard; None for the whole model.
        model: Which model's; None where the process has one only.
    """

    shard: int | None
    check: Literal["restored", "fenced", "refused", "moving", "folder", "model"]
    text: str
    model: str | None = None


_NOT_JOINED: Final = "not in the consumer group: still joining, or no broker answers"


class Health:
    """Checks a model's records whenever it looks, and the folders every two seconds.

    Args:
        folder_of: Where a shard's snapshots are; it does not check whether they are there.
        stall_seconds: Seconds without progress, with queries waiting, after which a shard is not ready.
        clock: Seconds, monotone.
        now: Seconds since 1970.
    """

    def __init__(
        self,
        registry: Registry,
        folder_of: Callable[[int], Path],
        stall_seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._registry = registry
        self._stall_seconds = stall_seconds
        self._clock = clock
        self._now = now
        self._folders = _FolderTests(folder_of, clock)
        self.trends = Trends()

    def look(self) -> None:
        """Look once; it waits for nothing."""
        telemetry = self._registry.telemetry
        self.trends.observe(telemetry, self._clock(), self._now())
        shards = [record.shard for record in telemetry.shards]
        self._folders.look(shards)
        for shard in shards:
            self._registry.folder_tried(shard, writable=self._folders.problem(shard) is None)

    def not_ready(self) -> tuple[NotReady, ...]:
        """Return every reason not to be ready, by shard."""
        telemetry = self._registry.telemetry
        found = [] if telemetry.joined else [NotReady(None, "restored", _NOT_JOINED)]
        for record in telemetry.shards:
            found += self._of(record)
        return tuple(found)

    def unready(self) -> frozenset[int | None]:
        """Return the shards that are not ready, and None if the whole model is not."""
        return frozenset(found.shard for found in self.not_ready())

    def close(self) -> None:
        """Abandon a test of the folders that is running."""
        self._folders.close()

    def summary(self) -> str:
        """Return what a ready process is doing, in words."""
        shards = self._registry.telemetry.shards
        count = len(shards)
        if not count:
            return "standby: the consumer group has assigned us no partition"
        rests = "".join(
            f"; shard {one.shard} rests for {one.rest_left:,} rounds more" for one in shards if one.rest_left
        )
        paused = "".join(f"; shard {one.shard} is paused" for one in shards if one.state is State.PAUSED)
        return f"serving {count} shard{'' if count == 1 else 's'}{rests}{paused}"

    def _of(self, record: ShardTelemetry) -> list[NotReady]:
        shard, found = record.shard, []
        if record.state is State.FENCED:
            found.append(NotReady(shard, "fenced", f"shard {shard} was taken over by another process"))
        elif record.state is State.REFUSED:
            found.append(NotReady(shard, "refused", f"shard {shard}: {record.refusal}"))
        elif record.state in _NOT_RESTORED:
            found.append(NotReady(shard, "restored", _NOT_RESTORED[record.state].format(shard)))
        stalled = self.trends.stalled_for(shard, self._clock())
        if stalled >= self._stall_seconds:
            found.append(
                NotReady(
                    shard, "moving", f"shard {shard} has made no progress for {stalled:.0f} s with queries waiting"
                )
            )
        problem = self._folders.problem(shard)
        if problem is not None:
            found.append(NotReady(shard, "folder", f"shard {shard}: the snapshot folder {problem}"))
        elif record.snapshot_failing:
            found.append(NotReady(shard, "folder", f"shard {shard}: the last snapshot could not be written"))
        return found


def _untested(error: BaseException) -> str:
    """Describe a test that failed to run; the error is foreign, so its text may be private."""
    return f"could not be tested: {type(error).__name__}"


class _FolderTests:
    """Tests folders in a thread, one test at a time."""

    def __init__(self, folder_of: Callable[[int], Path], clock: Callable[[], float]) -> None:
        self._folder_of = folder_of
        self._clock = clock
        self._problems: dict[int, str | None] = {}
        self._running: asyncio.Task[dict[int, str | None]] | None = None
        self._began = clock()

    def look(self, shards: Sequence[int]) -> None:
        """Take the result of a test that has ended; start one if it is due."""
        if self._running is not None and self._running.done():
            test, self._running = self._running, None
            error = test.exception()
            self._problems = test.result() if error is None else dict.fromkeys(shards, _untested(error))
        due = self._clock() - self._began >= _FOLDER_SECONDS or not self._problems.keys() >= set(shards)
        if self._running is None and shards and due:
            self._began = self._clock()
            self._running = asyncio.create_task(asyncio.to_thread(self._test, tuple(shards)))

    def problem(self, shard: int) -> str | None:
        """Return what is wrong with a shard's folder, None if it can be written, or was not tested yet."""
        if self._running is not None and self._clock() - self._began >= _HANGING_SECONDS:
            return "does not answer"
        return self._problems.get(shard)

    def close(self) -> None:
        """Abandon a test that is running; its thread ends by itself."""
        if self._running is not None:
            self._running.cancel()

    def _test(self, shards: Sequence[int]) -> dict[int, str | None]:
        return {shard: folder_problem(self._folder_of(shard)) for shard in shards}
