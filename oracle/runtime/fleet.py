"""Many shards in one process: those of the partitions that the consumer group gives us, each on its own.

What happens to one does not hold the others: each has its own task, store, source and sink, and its own pace. A shard
that the bus fails is opened again, with growing backoff; one that another process has taken over is dropped; one that
cannot go on without an operator stops for good, and the rest go on.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from connectors.retry import Backoff
from oracle.errors import BusError, FencedError, ResourceError, StorageError
from oracle.telemetry.registry import Registry

__all__ = ["Fleet", "Membership", "Serving"]

_RELEASE_SECONDS: Final = 15.0
"""Most seconds for shards that were cut off to let go of what they hold."""


class Serving(Protocol):
    """One shard being served: a `Daemon`, not yet running."""

    async def run(self) -> int:
        """Serve until stopped; return the rounds answered in all."""

    @property
    def serving(self) -> bool:
        """True once it answers; before, there is nothing to drain."""

    def stop(self) -> None:
        """Ask for a clean stop."""


class Membership(Protocol):
    """Who tells us which partitions are ours."""

    async def run(self, on_trouble: Callable[[BusError], None]) -> None:
        """Take part until cancelled."""


class Fleet:
    """Serves the partitions that it is told are its own.

    Args:
        open_shard: Makes one partition's daemon; it may raise what `Daemon.run` may.
        drain_seconds: Most time for a shard to stop cleanly; then it is cut off, which loses nothing.
        retry_seconds: After being fenced, how long a shard that is still ours waits before it is tried again: long
            enough for the group to find out whose it is.
        clock: Seconds, monotone.
    """

    def __init__(
        self,
        open_shard: Callable[[int], Serving],
        registry: Registry,
        *,
        drain_seconds: float,
        retry_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._open_shard = open_shard
        self._registry = registry
        self._drain_seconds = drain_seconds
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._serving: dict[int, Serving] = {}
        self._failed: dict[int, Exception] = {}
        self._ended: set[int] = set()
        self._stopping = asyncio.Event()
        self._finished = asyncio.Event()

    def stop(self) -> None:
        """Ask for a clean stop of everything."""
        self._stopping.set()

    @property
    def held(self) -> frozenset[int]:
        """Partitions that are ours, or were, and are not to be served again."""
        return frozenset(self._tasks.keys() | self._failed.keys() | self._ended)

    def assigned(self, partitions: frozenset[int]) -> None:
        """Begin to serve partitions; those that were served already are let be."""
        if self._stopping.is_set():
            return
        self._registry.joined()
        for partition in sorted(partitions - self._tasks.keys() - self._failed.keys() - self._ended):
            self._registry.assigned(partition)
            self._tasks[partition] = asyncio.create_task(self._serve(partition))

    async def revoked(self, partitions: frozenset[int]) -> None:
        """Stop serving partitions: commit what was answered, snapshot, let go.

        What has not stopped after `drain_seconds` is cut off, all of it at once, and has as long again to let go, but
        15 seconds at most; then nobody waits for it any more. (A shard whose snapshot is still being written, on a disk
        that hangs, holds its folder until that ends.)
        """
        ending = {partition: self._tasks.pop(partition) for partition in partitions & self._tasks.keys()}
        reporters = [self._registry.shard(partition) for partition in ending]
        for partition, task in ending.items():
            serving = self._serving.get(partition)
            if serving is not None and serving.serving:
                serving.stop()
            else:
                task.cancel()
        if ending:
            _, late = await asyncio.wait(ending.values(), timeout=self._drain_seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=min(self._drain_seconds, _RELEASE_SECONDS))
        for reporter in reporters:
            self._registry.revoked(reporter)

    async def run(self, membership: Membership) -> None:
        """Serve until `stop` is called, or all that is ours has been answered to its end.

        Raises:
            PerpetuaError: The group does not let us in; or no shard of ours can go on; or some could not, to be told
                at the end.
        """
        member = asyncio.create_task(membership.run(self._registry.bus_failed))
        waits = [asyncio.create_task(self._stopping.wait()), asyncio.create_task(self._finished.wait())]
        try:
            await asyncio.wait([member, *waits], return_when=asyncio.FIRST_COMPLETED)
            await self.revoked(frozenset(self._tasks))
        finally:
            for task in (member, *waits):
                task.cancel()
            outcomes = await asyncio.gather(member, *waits, return_exceptions=True)
        self._stopping.set()
        for outcome in (*outcomes, *self._failed.values()):
            if isinstance(outcome, Exception):
                raise outcome

    async def _serve(self, partition: int) -> None:
        """Serve a partition until it is revoked, and again whenever the bus comes back."""
        reporter, backoff = self._registry.shard(partition), Backoff()
        while True:
            started, serving = self._clock(), None
            try:
                serving = self._open_shard(partition)
                self._serving[partition] = serving
                await serving.run()
            except FencedError:
                reporter.fenced()
                wait = self._retry_seconds
            except BusError as exc:
                reporter.bus_failed(exc)
                wait = backoff.pause(self._clock() - started)
            except Exception as exc:  # noqa: BLE001 -- also what nobody thought of; `run` raises it
                reporter.failed(exc)
                self._give_up(partition, exc)
                return
            else:
                self._end(partition)
                return
            finally:
                if self._serving.get(partition) is serving:  # not that of a task that was given it since
                    self._serving.pop(partition, None)
            if not self._is_ours(partition):
                return  # revoked meanwhile
            await asyncio.sleep(wait)

    def _is_ours(self, partition: int) -> bool:
        """Return whether the running task is the one that serves the partition; it may have been revoked meanwhile."""
        return self._tasks.get(partition) is asyncio.current_task()

    def _end(self, partition: int) -> None:
        """Take note of a shard that has answered all that it is to answer; one that was told to stop is not ours."""
        if self._is_ours(partition):
            self._ended.add(partition)
            del self._tasks[partition]
            self._registry.revoked(self._registry.shard(partition))
            if not self._tasks:
                self._finished.set()

    def _give_up(self, partition: int, error: Exception) -> None:
        """Take note of a shard that cannot go on by itself."""
        ours, ending = self._is_ours(partition), self._stopping.is_set()
        if not ours and (partition in self._tasks or (isinstance(error, StorageError) and not ending)):
            return  # a newer task serves it by now; or its last snapshot could not be written, but the log suffices
        self._failed[partition] = error
        if ours:
            del self._tasks[partition]
        if not self._tasks or isinstance(error, ResourceError):  # a restart mends it
            self._finished.set()
