"""One partition of a topic that is read beside the daemon, without a group: committed records only."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aiokafka import TopicPartition

from connectors.kafka.client import close_quietly, make_consumer, start
from connectors.kafka.errors import translated
from connectors.kafka.settings import KafkaSettings
from oracle.errors import BusError, SourceError

if TYPE_CHECKING:
    from connectors.kafka.internals import BatchConsumer

__all__ = ["PartitionReader"]

_POLL_MS: Final = 200
_BATCHES: Final = 64


class PartitionReader:
    """See `LogReader`. Positions are offsets."""

    def __init__(self, settings: KafkaSettings, topic: str, partition: int) -> None:
        self._settings = settings
        self._part = TopicPartition(topic, partition)
        self._where = f"topic {topic}, partition {partition}"
        self._consumer: BatchConsumer | None = None
        self._next = 0

    async def open(self, position: int) -> None:
        """See `LogReader`."""
        await self.close()
        consumer = self._consumer = make_consumer(self._settings)
        await start(consumer, self._settings, self._where)
        with translated(self._where):
            consumer.assign([self._part])
            first = (await consumer.beginning_offsets([self._part]))[self._part]
            last = (await consumer.end_offsets([self._part]))[self._part]
        if position and not first <= position <= last:
            raise SourceError(
                f"{self._where}: must be read from offset {position} on, and has those from {first} to {last}: records "
                "were deleted (retention), or the topic was made anew"
            )
        self._next = max(position, first)
        consumer.seek(self._part, self._next)

    async def read(self) -> Sequence[tuple[int, bytes | None]]:
        """See `LogReader`."""
        consumer = self._consumer
        if consumer is None:
            raise SourceError(f"{self._where}: read before open")
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._settings.request_seconds
        with translated(f"{self._where}, offset {self._next}"):
            end = (await consumer.end_offsets([self._part]))[self._part]
            while await consumer.position(self._part) < end:
                found = await consumer.getmany(self._part, timeout_ms=_POLL_MS, max_records=_BATCHES)
                records = [one for batch in found.get(self._part, []) for one in batch.records]
                told = [(one.offset + 1, one.value) for one in records if one.offset >= self._next]
                if told:
                    self._next = told[-1][0]
                    return told
                if clock() > deadline:
                    raise BusError(f"{self._where}, offset {self._next}: the brokers do not return what is there")
        return []

    async def close(self) -> None:
        """See `LogReader`."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await close_quietly(consumer)
