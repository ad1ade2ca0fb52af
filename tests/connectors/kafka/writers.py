"""Processes as far as commits go: a writer each, and sinks whose answers are numbered, so that a second one is seen."""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Final

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from connectors.base import Commit, Committed, Replies, Reply
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.sink import KafkaSink
from connectors.kafka.writer import Writer
from connectors.retry import retry
from oracle.errors import BusError

_OPEN_SECONDS: Final = 5.0
"""Most time in which a transaction ends that has been committed; others stay open."""

POINTS: Final = ("begin_transaction", "send_batch", "send_offsets_to_transaction", "commit_transaction")
"""Methods of a producer, in the order of a transaction."""


def numbered(partition: int, position: int) -> Commit:
    """Return the commit of one answer."""
    return Commit(Replies.of([Reply(b"%d/%d" % (partition, position))]), [], position, b"mark %d" % position)


class Process:
    """Stands for a process: nothing of it is another one's.

    Attributes:
        writer: What its sinks commit by.
        sinks: The open ones, by partition; each with the position that it has committed.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self.writer = Writer(settings)
        self.sinks: dict[int, KafkaSink] = {}
        self.reached: dict[int, int] = {}
        self._made: list[KafkaSink] = []

    async def open(self, *partitions: int) -> list[Committed | None]:
        """Open partitions, one after the other, and return what each was committed up to."""
        found = []
        for partition in partitions:
            sink = KafkaSink(self.settings, partition, writer=self.writer)
            self._made.append(sink)
            found.append(await retry(sink.open, BusError, seconds=20.0))  # a new broker's coordinators load for a while
            self.sinks[partition] = sink
            self.reached[partition] = 0 if found[-1] is None else found[-1].position
        return found

    async def commit(self, *partitions: int) -> None:
        """Commit the next answer of each, all at once."""
        await asyncio.gather(*map(self._commit, partitions or self.sinks))

    async def _commit(self, partition: int) -> None:
        await self.sinks[partition].commit(numbered(partition, self.reached[partition] + 1))
        self.reached[partition] += 1

    async def close(self) -> None:
        """End as a clean process does."""
        await asyncio.gather(*(sink.close() for sink in self._made))
        await self.writer.close()

    @property
    def producer(self) -> AIOKafkaProducer:
        """The producer of the writer that runs."""
        joint = self.writer._joint
        assert joint is not None
        return joint._producer


@contextlib.asynccontextmanager
async def processes(settings: KafkaSettings, count: int = 2) -> AsyncIterator[list[Process]]:
    """Lend some processes, and end them."""
    made = [Process(settings) for _ in range(count)]
    try:
        yield made
    finally:
        for process in made:
            await process.close()


class Halt:
    """Holds a producer before one of its methods, as the end of a process's time slice does, until it is let go."""

    def __init__(self, producer: AIOKafkaProducer, point: str) -> None:
        self.reached = asyncio.Event()
        self.let_go = asyncio.Event()
        real: Callable[..., Any] = getattr(producer, point)

        async def held(*arguments: Any, **named: Any) -> Any:
            self.reached.set()
            await self.let_go.wait()
            return await real(*arguments, **named)

        setattr(producer, point, held)


def settings_of(broker: Any, topic: Callable[..., str], group: str, partitions: int = 2) -> KafkaSettings:
    """Make a model's topics, and return settings with marks."""
    return KafkaSettings(
        servers=(broker.servers,),
        topic=topic(partitions, word="queries"),
        answers=topic(partitions, word="answers"),
        marks=topic(partitions, {"cleanup.policy": "compact"}, word="marks"),
        group=group,
        model="m",
        secret=b"secret".ljust(32),
        request_seconds=20.0,
    )


async def records(settings: KafkaSettings, topic: str, partition: int) -> list[bytes]:
    """Return what readers of committed records see: brokers end a transaction a little after they have said so."""
    part = TopicPartition(topic, partition)
    async with AIOKafkaConsumer(bootstrap_servers=settings.servers) as everything:
        written = (await everything.end_offsets([part]))[part]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.servers, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        consumer.assign([part])
        end = (await consumer.end_offsets([part]))[part]
        found: list[bytes] = []
        patience = math.inf  # until all that could be read at once was
        while (at := await consumer.position(part)) < written and time.monotonic() < patience:
            patience = min(patience, time.monotonic() + _OPEN_SECONDS) if at >= end else math.inf
            found += [one.value or b"" for one in (await consumer.getmany(part, timeout_ms=200)).get(part, [])]
        return found
    finally:
        await consumer.stop()


async def answers(settings: KafkaSettings, partition: int) -> list[bytes]:
    """Return a partition's answers."""
    return await records(settings, settings.answers, partition)


async def marks(settings: KafkaSettings, partition: int) -> list[Any]:
    """Return a partition's marks."""
    return [msgspec.json.decode(value) for value in await records(settings, settings.marks or "", partition)]


def in_all(partition: int, last: int) -> list[bytes]:
    """Return the answers up to a position, each once."""
    return [b"%d/%d" % (partition, position) for position in range(1, last + 1)]


def beside(settings: KafkaSettings, topic: Callable[..., str]) -> KafkaSettings:
    """Return settings of another model in the same group, with topics of its own."""
    return replace(settings, topic=topic(1, word="queries"), answers=topic(1, word="answers"), shared=True)
