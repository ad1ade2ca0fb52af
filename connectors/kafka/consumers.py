"""One consumer for many partitions: one connection to each broker, and one request under way, whatever their number."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aiokafka import TopicPartition
from aiokafka.errors import ConsumerStoppedError

from connectors.kafka.client import close_quietly, make_incremental
from connectors.kafka.internals import Quiet, always
from connectors.kafka.record_batches import RecordBatch
from connectors.kafka.settings import KafkaSettings

if TYPE_CHECKING:
    from connectors.kafka.internals import IncrementalConsumer, TopicPartitionState

__all__ = ["PartitionConsumer", "SharedConsumer"]

_POLL: Final = 0.2


class _Running:
    """The client's consumer, and who uses it; it is closed behind the last one.

    Attributes:
        starting: Done once it has started, or could not be.
        owners: By partition, who reads it.
    """

    def __init__(self, settings: KafkaSettings, quiet: Quiet) -> None:
        self.consumer: IncrementalConsumer = make_incremental(settings, quiet)
        self.users: set[PartitionConsumer] = set()
        self.owners: dict[TopicPartition, PartitionConsumer] = {}
        self.starting = asyncio.ensure_future(self.consumer.start())
        self.starting.add_done_callback(_look_at)

    async def answers(self) -> bool:
        """Return whether the brokers answer; what they say of the users' topics is known then."""
        topics = {user.part.topic for user in self.users}
        return self.consumer.fetching and await self.consumer.follow(topics)

    async def close(self) -> None:
        """Close it: nobody uses it any more."""
        self.starting.cancel()
        await close_quietly(self.consumer)


class SharedConsumer:
    """A process's consumer of one cluster; it runs as long as somebody reads one of its partitions.

    Formal guarantees:
        * What one reader opens, closes, leaves unread, or fails with, loses and repeats no other's record.
        * Of a partition that is not read, no more is held than what one request has brought (`fetch_bytes`).
        * Where the brokers answer it no longer, whoever starts next begins with a new one.

    Args:
        settings: Of any model on the cluster: where the brokers are and who we are, and how much is asked for at once.
        quiet: Waits, for a short time, until what was read was dealt with. Brokers are asked for what came meanwhile
            only then, unless there is a backlog: more than half of what one may send of a partition, or in all.
    """

    def __init__(self, settings: KafkaSettings, quiet: Quiet = always) -> None:
        self._settings = settings
        self._quiet = quiet
        self._running: _Running | None = None

    def partition(self, part: TopicPartition) -> "PartitionConsumer":
        """Return a reader of one partition, not started. Of two readers of one the later one gets the records."""
        return PartitionConsumer(self, part)

    def _current(self) -> _Running:
        self._running = self._running or _Running(self._settings, self._quiet)
        return self._running

    def _retire(self, running: _Running) -> None:
        """Let nobody begin with it any more."""
        if self._running is running:
            self._running = None


class PartitionConsumer:
    """One partition of a `SharedConsumer`; it raises what the client raises."""

    def __init__(self, shared: SharedConsumer, part: TopicPartition) -> None:
        self.part = part
        self._shared = shared
        self._running: _Running | None = None
        self._state: TopicPartitionState | None = None
        self._arrived = asyncio.Event()

    async def start(self) -> None:
        """Join the process's consumer if the brokers answer it, or else a new one."""
        running = self._join()
        is_new = not running.starting.done()
        await self._started(running)
        if await running.answers() or is_new:
            return
        self._shared._retire(running)  # noqa: SLF001 -- its own
        await self.stop()
        await self._started(self._join())

    def _join(self) -> _Running:
        running = self._running = self._shared._current()  # noqa: SLF001 -- its own
        running.users.add(self)
        return running

    async def _started(self, running: _Running) -> None:
        try:
            await asyncio.shield(running.starting)
        except Exception:
            self._shared._retire(running)  # noqa: SLF001 -- its own
            raise

    async def first_and_last(self) -> tuple[int, int]:
        """Return the offsets of the first record, and behind the last one that can be read."""
        consumer, part = self._used().consumer, self.part
        first, last = await asyncio.gather(consumer.beginning_offsets([part]), consumer.end_offsets([part]))
        return first[part], last[part]

    def seek(self, offset: int) -> None:
        """Read from an offset on."""
        running = self._used()
        running.owners[self.part] = self
        self._state = running.consumer.incremental_assign(self.part, offset, self._arrived.set)

    @property
    def position(self) -> int:
        """The offset up to which all was returned, or is no record; where it stopped, once it has."""
        return self._state.position if self._state else 0

    @property
    def highwater(self) -> int | None:
        """The offset behind the last record, by the broker's last answer; None before that."""
        return self._state.highwater if self._state else None

    async def read(self, seconds: float, most: int | None = None) -> Sequence[RecordBatch]:
        """Return batches that are there, at most so many; wait for a first one. None if the time is over, or it stops.

        A batch begins before the position if that lies within it. Cancelling loses nothing.
        """
        running = self._used()
        try:
            async with asyncio.timeout(seconds):
                while self._running is running:
                    self._arrived.clear()
                    found = await self._batches(running, most)
                    if found:
                        return found
                    await self._arrived.wait()
        except TimeoutError:
            pass
        return []

    async def between(self, begin: int, end: int) -> Sequence[RecordBatch]:
        """Return the batches of some offsets; it waits for the brokers without an end: set a timeout."""
        self.seek(begin)
        found: list[RecordBatch] = []
        while self.position < end or self.highwater is None:
            found += await self.read(_POLL)
        return found

    async def _batches(self, running: _Running, most: int | None) -> Sequence[RecordBatch]:
        """Take what was fetched; it waits for nothing."""
        if running.owners.get(self.part) is not self or not running.consumer.fetching:
            raise ConsumerStoppedError
        return (await running.consumer.getmany(self.part, timeout_ms=0, max_records=most)).get(self.part, [])

    def _used(self) -> _Running:
        if self._running is None:
            raise ConsumerStoppedError
        return self._running

    async def stop(self) -> None:
        """Leave the process's consumer; whoever waits for a batch gets none. The last one closes it."""
        running, self._running = self._running, None
        if running is None:
            return
        running.users.discard(self)
        if running.owners.get(self.part) is self:
            del running.owners[self.part]
            running.consumer.incremental_unassign(self.part)
        self._arrived.set()
        if not running.users:
            self._shared._retire(running)  # noqa: SLF001 -- its own
            await running.close()


def _look_at(starting: asyncio.Future[None]) -> None:
    """Take note of an error, so that asyncio does not complain where nobody waits for it any more."""
    if not starting.cancelled():
        starting.exception()
