"""Where the next query lies in another topic or cluster: behind the records that were answered last, which are known.

A copy of a log has other offsets, and often other times, but the same keys and values in the same order. So the last
records before a position are kept as keyed digests, a *trail*, and the position in the copy is where the trail ends.
"""

import asyncio
import contextlib
import hmac
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from aiokafka import TopicPartition

from connectors.kafka.client import admin, make_consumer, started
from connectors.kafka.internals import BatchConsumer
from connectors.kafka.record_batches import Record
from connectors.kafka.settings import KafkaSettings
from oracle.errors import BusError, InputError, RefusedError

__all__ = ["TRAIL", "Spot", "cluster_of", "find_spot", "trail_before"]

TRAIL: Final = 16
"""Most records of a trail."""

_DOMAIN: Final = b"perpetua/trail/1\0"
_DIGEST: Final = 16
_POLL_MS: Final = 200
_WINDOW: Final = 64
_GROWTH: Final = 8


class Spot(NamedTuple):
    """A place in a partition.

    Attributes:
        position: The offset of the next query.
        timestamp: Time (ms) of the record that ends there; -1 if none does.
        compared: How many records before it were found to be those that were answered last.
    """

    position: int
    timestamp: int
    compared: int


async def cluster_of(settings: KafkaSettings) -> str:
    """Return the cluster's id.

    Raises:
        BusError: The brokers do not answer.
    """
    async with admin(settings, "the cluster") as client:
        return str((await client.describe_cluster())["cluster_id"])


async def trail_before(settings: KafkaSettings, partition: int, position: int) -> Sequence[str]:
    """Return digests of the last records before a position, the oldest first; fewer where the log has no more of them.

    Raises:
        BusError: The brokers do not answer.
    """
    async with _opened(settings, partition) as log:
        return [log.digest(record) for record in await log.before(position)]


async def find_spot(settings: KafkaSettings, partition: int, trail: Sequence[str], at: int | None) -> Spot:
    """Return where a trail ends in a partition; `at` is where an operator says that it does.

    Formal guarantees:
        * The records right before the spot are those of the trail, as many as there are; or there are none before it,
          and the trail is not behind it.

    Raises:
        InputError: `at` is outside of the log, other records lie before it, or the trail lies behind it.
        RefusedError: The trail is not there, or several times.
        BusError: The brokers do not answer.
    """
    async with _opened(settings, partition) as log:
        return await log.found(trail) if at is None else await log.confirmed(trail, at)


@dataclass(frozen=True, slots=True)
class _Log:
    """A partition that is read: its committed records, from offset `first` up to `last`, which is excluded."""

    consumer: BatchConsumer
    part: TopicPartition
    first: int
    last: int
    settings: KafkaSettings

    def digest(self, record: Record) -> str:
        """Return what tells a record from others, to those only who hold the state's key."""
        told = b"".join(
            b"\0" if text is None else b"\1" + len(text).to_bytes(8, "big") + text
            for text in (record.key, record.value)
        )
        return hmac.digest(self.settings.secret or b"", _DOMAIN + told, "sha256")[:_DIGEST].hex()

    async def before(self, position: int) -> list[Record]:
        """Return the last records before a position, `TRAIL` at most."""
        window = _WINDOW
        while True:
            begin = max(position - window, self.first)
            found = deque([record async for record in self._records(begin, position)], maxlen=TRAIL)
            if len(found) == TRAIL or begin <= self.first:
                return list(found)
            window *= _GROWTH

    async def found(self, trail: Sequence[str]) -> Spot:
        """Return the one place where a trail ends."""
        where = f"topic {self.part.topic}, partition {self.part.partition}"
        option = f"`--at {self.part.partition}=OFFSET`"
        if not trail:
            raise RefusedError(f"{where}: the log that was left had no record to go by; say where to go on: {option}")
        spots = [spot async for spot in self._ends(trail, self.first)]
        if not spots:
            raise RefusedError(
                f"{where}: the records that were answered last are not there. If they are being copied, wait until "
                f"they are; if there will be new queries only, say where these begin: {option}"
            )
        if len(spots) > 1:
            raise RefusedError(
                f"{where}: the records that were answered last are there {len(spots)} times, up to offset "
                f"{spots[0].position} and {spots[1].position} for instance; say which counts: {option}"
            )
        return spots[0]

    async def confirmed(self, trail: Sequence[str], at: int) -> Spot:
        """Return the place that an operator names, if nothing is known against it."""
        given, topic = f"{self.part.partition}={at}", self.part.topic
        if not self.first <= at <= self.last:
            raise InputError("--at", given, f"must be from {self.first} to {self.last}, the offsets of topic {topic}")
        before = await self.before(at)
        if before and trail:
            compared = min(len(before), len(trail))
            if list(map(self.digest, before[-compared:])) != list(trail[-compared:]):
                raise InputError("--at", given, f"must be behind the record of {topic} that was answered last")
            return Spot(at, int(before[-1].timestamp) if before[-1].offset == at - 1 else -1, compared)
        if trail:
            behind = [spot.position async for spot in self._ends(trail, at)]
            if behind:
                bound = f"must be {behind[-1]}: what lies before that was answered, and would be answered once more"
                raise InputError("--at", given, bound)
        return Spot(at, -1, 0)

    async def _ends(self, trail: Sequence[str], begin: int) -> AsyncIterator[Spot]:
        """Yield each place behind an offset where a trail ends; as much of it as can be there is enough."""
        seen: deque[str] = deque(maxlen=len(trail))
        async for record in self._records(begin, self.last):
            seen.append(self.digest(record))
            if list(seen) == list(trail[-len(seen) :]):
                yield Spot(record.offset + 1, int(record.timestamp), len(seen))

    async def _records(self, begin: int, end: int) -> AsyncIterator[Record]:
        """Yield the records from one offset up to another."""
        if begin >= end:
            return
        self.consumer.seek(self.part, begin)
        reached, clock = begin, asyncio.get_running_loop().time
        deadline = clock() + self.settings.request_seconds
        while reached < end:
            for batch in (await self.consumer.getmany(self.part, timeout_ms=_POLL_MS)).get(self.part, []):
                for record in batch.records:
                    if begin <= record.offset < end:
                        yield record
            before, reached = reached, await self.consumer.position(self.part)
            if reached > before:
                deadline = clock() + self.settings.request_seconds
            elif clock() > deadline:
                where = f"topic {self.part.topic}, partition {self.part.partition}, offset {reached}"
                raise BusError(f"{where}: the brokers do not hand over what is there")


@contextlib.asynccontextmanager
async def _opened(settings: KafkaSettings, partition: int) -> AsyncIterator[_Log]:
    part = TopicPartition(settings.topic, partition)
    where = f"topic {settings.topic}, partition {partition}"
    async with started(make_consumer(settings), settings, where) as consumer:
        consumer.assign([part])
        first = (await consumer.beginning_offsets([part]))[part]
        last = (await consumer.end_offsets([part]))[part]
        yield _Log(consumer, part, first, last, settings)
