"""Our place in the log, kept where the group's offsets cannot take it away: on a compacted topic of its own.

Each commit's transaction holds a mark beside the group's offset, on the partition of the query partition's number.
The offset is anybody's who may be in the group, expires with it, and can be reset; the newest mark tells what we did
commit. A mark is sealed, and says which producer wrote it, as its batch must: a copy of ours, of an aborted transaction
too, is none.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import msgspec
from aiokafka import TopicPartition, errors
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from connectors.kafka.client import admin, batches_between, make_consumer, started
from connectors.kafka.internals import BatchConsumer, connections
from connectors.kafka.metadata import READ, WRITE, TopicLook, look
from connectors.kafka.offset_metadata import OffsetMetadata, Seal
from connectors.kafka.settings import KafkaSettings
from connectors.retry import Backoff, retry
from oracle.errors import BusError, NewerVersionError, newer_version

__all__ = ["MARK_CONFIG", "Claim", "Fence", "mark_record", "marks_kept", "newest_mark", "nobody", "seal_of"]

MARK_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
"""Of the topic: the newest mark stays for ever, and few others; the segment that is written to is not compacted."""

_VERSION: Final = 1
_WINDOW: Final = 64
_GROWTH: Final = 8


Fence = Callable[[str], Awaitable[bool]]
"""Fences the writer of a name; returns False where that was done before the call, or need not be done."""


class Claim(NamedTuple):
    """Where somebody says that we are.

    Attributes:
        position: The offset of the next query.
    """

    position: int
    text: str

    @property
    def writer(self) -> str | None:
        """Who may commit from here on; see `OffsetMetadata`."""
        return OffsetMetadata.unpack(self.text).writer


async def nobody(_writer: str) -> bool:
    """Fence nobody: what is read may not be the newest for long."""
    return False


class _Mark(msgspec.Struct, frozen=True):
    group: str
    topic: str
    partition: int
    position: int
    metadata: str
    producer: tuple[int, int]
    seal: str
    version: int = _VERSION


def seal_of(settings: KafkaSettings, partition: int) -> Seal | None:
    """Return what seals a partition's place; None where the settings have no secret."""
    if settings.secret is None:
        return None
    return Seal(settings.secret, settings.group, settings.topic, partition)


def mark_record(seal: Seal, claim: Claim, producer: tuple[int, int]) -> tuple[bytes, bytes]:
    """Return the key and the value of a mark.

    `claim` has the metadata without the offset's seal; `producer` is the id and the epoch of who writes it.
    """
    sealed = seal.of("mark", claim.position, claim.text, *producer, _VERSION)
    mark = _Mark(seal.group, seal.topic, seal.partition, claim.position, claim.text, producer, sealed)
    return f"{seal.group}/{seal.topic}/{seal.partition}".encode(), msgspec.json.encode(mark)


def _read(seal: Seal, value: bytes | None, producer: tuple[int, int]) -> Claim | None:
    """Return what a mark says, if it is one of ours."""
    try:
        mark = msgspec.json.decode(value or b"", type=_Mark)
    except msgspec.MsgspecError:
        return None
    known = seal.of("mark", mark.position, mark.metadata, *mark.producer, mark.version)
    if mark.producer != producer or not hmac.compare_digest(mark.seal.encode(), known.encode()):
        return None
    if mark.version > _VERSION:
        raise NewerVersionError(f"mark of topic {seal.topic}: {newer_version(mark.version, _VERSION)}")
    return Claim(mark.position, mark.metadata)


class Kept(NamedTuple):
    """Whether a partition's marks can be kept.

    Attributes:
        problem: Why not; None if they can.
        fresh: True if the topic was made just now, so that there are none yet.
    """

    problem: str | None
    fresh: bool = False


async def marks_kept(settings: KafkaSettings, partition: int, *, make: bool) -> Kept:
    """Find out whether a partition's marks can be kept; `make` makes their topic, like the query topic, if missing.

    Raises:
        BusError: The brokers do not answer, or not all of them know of the topic yet.
    """
    topic = settings.marks or ""
    async with admin(settings, f"topic {topic}") as client:
        found = await look(connections(client), [topic, settings.topic])  # its own way would make topics of them
        if found[topic].there:
            return Kept(_unfit(topic, found[topic], partition))
        if make and await _made(client, settings, found[settings.topic]):
            return Kept(None, fresh=True)
    return Kept(f"topic {topic}: does not exist; create it with `perpetua topics CONFIG --create`")


def _unfit(topic: str, found: TopicLook, partition: int) -> str | None:
    missing = [name for right, name in ((READ, "Read"), (WRITE, "Write")) if not found.allows(right)]
    if missing:
        return f"topic {topic}: the brokers deny {' and '.join(missing)}; `perpetua check` shows how to grant it"
    if partition not in found.leaders:
        return f"topic {topic}: has no partition {partition}; give it as many partitions as the query topic"
    return None


async def _made(client: AIOKafkaAdminClient, settings: KafkaSettings, like: TopicLook) -> bool:
    """Make the topic, with a partition for each shard; return False if we may not."""
    partitions = max(len(like.leaders), settings.mark_partitions, settings.shards)
    new = NewTopic(settings.marks or "", partitions, max(like.copies, 1), topic_configs=MARK_CONFIG)
    ((_, code, *_),) = (await client.create_topics([new])).topic_errors
    if code == errors.TopicAlreadyExistsError.errno:  # somebody else made it; there may be marks
        raise errors.TopicAlreadyExistsError
    return bool(code == errors.NoError.errno)


async def newest_mark(settings: KafkaSettings, partition: int, seal: Seal, fence: Fence = nobody) -> Claim | None:
    """Return the newest mark of a partition that is ours, None if there is none; the topic must be there.

    Behind an open transaction it may be hidden: that of a writer in service, which ends soon, or of one that sleeps. So
    the writer of the newest that can be seen is fenced, and what was open then is waited for.

    Raises:
        RefusedError: The brokers do not let us read it.
        BusError: They do not answer, or somebody's open transaction may hide it still.
    """
    what = f"topic {settings.marks}, partition {partition}"
    part = TopicPartition(settings.marks or "", partition)
    async with started(make_consumer(settings), settings, what) as consumer:
        consumer.assign([part])
        while True:
            found = await _Look(consumer, part, seal, settings.request_seconds, fence).settled()
            if found is None or found.writer is None or not await fence(found.writer):
                return found


class _Look:
    """Looks at a partition of marks until all has ended that was open at first, or when somebody was fenced."""

    def __init__(self, consumer: BatchConsumer, part: TopicPartition, seal: Seal, seconds: float, fence: Fence) -> None:
        self._consumer = consumer
        self._part = part
        self._seal = seal
        self._seconds = seconds
        self._fence = fence
        self._until: int | None = None

    async def settled(self) -> Claim | None:
        return await retry(self._once, BusError, seconds=self._seconds, backoff=Backoff(0.02, 0.5))

    async def _once(self) -> Claim | None:
        found, stable, end = await self._newest()
        if self._until is None:
            self._until = end
        if stable < self._until:
            if found is not None and found.writer is not None and await self._fence(found.writer):
                self._until = None  # it may have written more until now
            where = f"topic {self._part.topic}, partition {self._part.partition}"
            raise BusError(f"{where}: waiting for an open transaction to end")
        return found

    async def _newest(self) -> tuple[Claim | None, int, int]:
        """Look from the end on, further back as long as nothing of ours is found.

        Returns:
            It, the offset that open transactions begin at, and that of the log's end.
        """
        consumer, part = self._consumer, self._part
        async with asyncio.timeout(self._seconds):
            first = (await consumer.beginning_offsets([part]))[part]
            stable = (await consumer.end_offsets([part]))[part]
        window, behind, end = _WINDOW, stable, stable
        while True:
            begin = max(behind - window, first)
            async with asyncio.timeout(self._seconds):
                batches = await batches_between(consumer, part, begin, behind)
            end = max(end, consumer.highwater(part) or 0)
            claims = [_read(self._seal, record.value, batch.producer) for batch in batches for record in batch.records]
            found = next((claim for claim in reversed(claims) if claim is not None), None)
            if found is not None or begin <= first:
                return found, stable, end
            window, behind = window * _GROWTH, begin
