"""Whether a process is ready: what it serves is restored, its own, moving, and its folders can be written."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from oracle.state.space import folder_problem
from oracle.telemetry.records import ShardTelemetry, State
from oracle.telemetry.registry import Registry
from oracle.telemetry.trends import Trends

__all__ = ["Health", "NotReady"]

_LOOK_SECONDS: Final = 1.0
_FOLDER_SECONDS: Final = 2.0
_HANGING_SECONDS: Final = 20.0

_NOT_RESTORED: Final = {
    State.WAITING: "shard {} waits for the bus",
    State.RESTORING: "shard {} is being restored",
    State.FAILED: "shard {} cannot go on without an operator; see its last error",
    State.STOPPED: "shard {} has stopped",
}


@dataclass(frozen=True, slots=True)
class NotReady:
    """One reason not to be ready.

    Attributes:
        shard: Which shard; None for the whole process.
        check: What was looked at.
        text: In words.
    """

    shard: int | None
    check: Literal["restored", "fenced", "refused", "moving", "folder"]
    text: str


_NOT_JOINED: Final = "the consumer group has not admitted us: not yet, or no broker answers"


class Health:
    """Looks at the records once a second, and tries the folders every two.

    Args:
        board: Where the records are.
        folder_of: Where a shard's snapshots are; it does not check whether they are there.
        patience: Seconds that a shard may stand still while there is something to read.
        clock: Seconds, monotone.
        now: Seconds since 1970.
    """

    def __init__(
        self,
        board: Registry,
        folder_of: Callable[[int], Path],
        patience: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._board = board
        self._patience = patience
        self._clock = clock
        self._now = now
        self._trials = _Trials(folder_of, clock)
        self.trends = Trends()

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            while True:
                self.look()
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._trials.close()

    def look(self) -> None:
        """Look once; it waits for nothing."""
        telemetry = self._board.telemetry
        self.trends.look(telemetry, self._clock(), self._now())
        shards = [record.shard for record in telemetry.shards]
        self._trials.look(shards)
        for shard in shards:
            self._board.folder_tried(shard, writable=self._trials.problem(shard) is None)

    def not_ready(self) -> tuple[NotReady, ...]:
        """Return every reason not to be ready, by shard."""
        telemetry = self._board.telemetry
        found = [] if telemetry.joined else [NotReady(None, "restored", _NOT_JOINED)]
        for record in telemetry.shards:
            found += self._of(record)
        return tuple(found)

    def said(self) -> str:
        """Return what a ready process is doing, in words."""
        count = len(self._board.telemetry.shards)
        if not count:
            return "standby: the consumer group has no partition for us now"
        return f"serving {count} shard{'' if count == 1 else 's'}"

    def _of(self, record: ShardTelemetry) -> list[NotReady]:
        shard, found = record.shard, []
        if record.state is State.FENCED:
            found.append(NotReady(shard, "fenced", f"shard {shard} was taken over by another process"))
        elif record.state is State.REFUSED:
            found.append(NotReady(shard, "refused", f"shard {shard}: {record.refusal}"))
        elif record.state in _NOT_RESTORED:
            found.append(NotReady(shard, "restored", _NOT_RESTORED[record.state].format(shard)))
        still = self.trends.stood_still(shard, self._clock())
        if still >= self._patience:
            found.append(
                NotReady(shard, "moving", f"shard {shard} has made no progress for {still:.0f} s with queries waiting")
            )
        problem = self._trials.problem(shard)
        if problem is not None:
            found.append(NotReady(shard, "folder", f"shard {shard}: its snapshot folder {problem}"))
        elif record.snapshot_failing:
            found.append(NotReady(shard, "folder", f"shard {shard}: its last snapshot could not be written"))
        return found


def _untried(error: BaseException) -> str:
    """Return what is wrong where no trial could be made; the error is not ours, and its text may be private."""
    return f"could not be tried: {type(error).__name__}"


class _Trials:
    """Tries folders in a thread, one trial at a time."""

    def __init__(self, folder_of: Callable[[int], Path], clock: Callable[[], float]) -> None:
        self._folder_of = folder_of
        self._clock = clock
        self._problems: dict[int, str | None] = {}
        self._trial: asyncio.Task[dict[int, str | None]] | None = None
        self._began = clock()

    def look(self, shards: Sequence[int]) -> None:
        """Take note of a trial that has ended; begin one if it is due."""
        if self._trial is not None and self._trial.done():
            trial, self._trial = self._trial, None
            error = trial.exception()
            self._problems = trial.result() if error is None else dict.fromkeys(shards, _untried(error))
        due = self._clock() - self._began >= _FOLDER_SECONDS or not self._problems.keys() >= set(shards)
        if self._trial is None and shards and due:
            self._began = self._clock()
            self._trial = asyncio.create_task(asyncio.to_thread(self._try, tuple(shards)))

    def problem(self, shard: int) -> str | None:
        """Return what is wrong with a shard's folder, None if it can be written, or was not tried yet."""
        if self._trial is not None and self._clock() - self._began >= _HANGING_SECONDS:
            return "does not answer"
        return self._problems.get(shard)

    def close(self) -> None:
        """Wait no more for a trial that is under way; its thread ends by itself."""
        if self._trial is not None:
            self._trial.cancel()

    def _try(self, shards: Sequence[int]) -> dict[int, str | None]:
        return {shard: folder_problem(self._folder_of(shard)) for shard in shards}
