"""One transaction: what some partitions of one group commit, all of it or nothing."""

import asyncio
import contextlib
import time
from collections.abc import Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from aiokafka import AIOKafkaClient, AIOKafkaProducer, TopicPartition
from aiokafka.errors import IllegalOperation
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import OffsetAndMetadata

from connectors.base import JSON
from connectors.kafka.errors import translated
from connectors.kafka.internals import ended_by, producer_of
from connectors.kafka.marks import Claim, mark_record
from connectors.kafka.metadata import look
from connectors.kafka.offset_metadata import Seal
from oracle.errors import BusError

__all__ = [
    "LOOK_SECONDS",
    "NOT_YET",
    "Batch",
    "Part",
    "lacking",
    "missing_topic",
    "now_ms",
    "transact",
    "unless_lacking",
]

LOOK_SECONDS: Final = 5.0
"""Most time to find out which topic spoilt a transaction, and how long one may last before that is looked for."""

NOT_YET: Final = "it accepts no records now"
"""Why records did not get to a topic, where no broker has rejected them."""

Batch = tuple[str, int, BatchBuilder]
"""Topic, partition, records."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one partition commits.

    Attributes:
        query: The partition of the query topic whose offset it is.
        claim: Up to where, with metadata that is not sealed yet.
        seal: Seals it; None to do without.
        marks: Topic of the mark that goes with it; None for none.
        own: Topics without which nothing can be committed.
        batches: Each topic's in order.
    """

    query: TopicPartition
    claim: Claim
    seal: Seal | None
    marks: str | None
    own: tuple[str, ...]
    batches: Sequence[Batch] = ()

    @property
    def offset(self) -> OffsetAndMetadata:
        """What is committed for the group."""
        text = self.claim.text if self.seal is None else self.seal.sealed(*self.claim)
        return OffsetAndMetadata(self.claim.position, text)

    @property
    def topics(self) -> frozenset[str]:
        """All topics that it is written to."""
        return frozenset(topic for topic, _, _ in self.batches) | frozenset(filter(None, [self.marks]))

    @property
    def places(self) -> frozenset[TopicPartition]:
        """Partitions of its own topics that it is written to."""
        written = {TopicPartition(topic, number) for topic, number, _ in self.batches if topic in self.own}
        marks = set() if self.marks is None else {TopicPartition(self.marks, self.query.partition)}
        return frozenset(written | marks)

    @property
    def size(self) -> int:
        """Bytes of its batches."""
        return sum(batch.size() for _, _, batch in self.batches)


def _marks(producer: AIOKafkaProducer, parts: Sequence[Part]) -> Iterator[Batch]:
    """Yield the marks of all parts. Of one partition they go together: the client sends its batches one by one."""
    kept: dict[tuple[str, int], BatchBuilder] = {}
    for part in parts:
        if part.seal is None or part.marks is None:
            continue
        place = part.marks, part.query.partition
        key, value = mark_record(part.seal, part.claim, producer_of(producer))
        if place in kept and _has_taken(kept[place], key, value):
            continue
        if place in kept:
            yield *place, kept[place]
        kept[place] = producer.create_batch()
        _has_taken(kept[place], key, value)
    for place, batch in kept.items():
        yield *place, batch


def _has_taken(batch: BatchBuilder, key: bytes, value: bytes) -> bool:
    """Add a mark to a batch; return False if it is full."""
    headers = [("content-type", JSON.encode())]
    return batch.append(timestamp=now_ms(), key=key, value=value, headers=headers) is not None


def now_ms() -> int:
    """Return the time of new records."""
    return int(time.time() * 1000)


async def transact(  # noqa: PLR0913 -- three of them are about failing
    producer: AIOKafkaProducer, group: str, parts: Sequence[Part], failed: dict[str, str], *, seconds: float, where: str
) -> None:
    """Commit all parts.

    Args:
        producer: A started transactional one, in no transaction but one that was begun early.
        group: Whose offsets are committed.
        parts: No two of a partition.
        failed: Gets the topics whose records did not get there, and why.
        seconds: Most time for it.
        where: Begins the message of whatever goes wrong.

    Raises:
        PerpetuaError: See `translated`. Nobody knows whether it was committed, but whoever fences the producer.
    """
    offsets = {part.query: part.offset for part in parts}
    sent: list[tuple[str, asyncio.Future[Any]]] = []
    try:
        with translated(where), _explained(producer):
            async with asyncio.timeout(seconds):
                await producer.begin_transaction()
                batches = chain.from_iterable(part.batches for part in parts)
                for topic, partition, batch in chain(batches, _marks(producer, parts)):
                    failed[topic] = NOT_YET
                    sent.append((topic, await producer.send_batch(batch, topic, partition=partition)))
                    sent[-1][1].add_done_callback(_look_at)  # we may be gone before it is done
                await producer.send_offsets_to_transaction(offsets, group)
                if sent:
                    await asyncio.wait([delivery for _, delivery in sent])  # not `gather`: it would cancel them
                for topic, delivery in sent:
                    with translated(f"topic {topic}"):
                        delivery.result()  # it may raise: then whoever fences the producer aborts the transaction
                await producer.commit_transaction()
    finally:
        for topic, delivery in sent:
            _note_failure(failed, topic, delivery)


@contextlib.contextmanager
def _explained(producer: AIOKafkaProducer) -> Iterator[None]:
    """Raise what has ended the producer, where its next step finds no more than that it has ended."""
    try:
        yield
    except (IllegalOperation, AssertionError) as exc:
        ended = ended_by(producer)
        if ended is None:
            raise
        raise ended from exc


def _note_failure(failed: dict[str, str], topic: str, delivery: "asyncio.Future[Any]") -> None:
    """Take a topic whose records got there out of those that failed; say of others how, as far as it is known."""
    if not delivery.done() or delivery.cancelled():
        return
    error = delivery.exception()
    if error is not None:
        failed[topic] = f"it rejects a record: {type(error).__name__.removesuffix('Error')}"
    elif failed.get(topic) == NOT_YET:
        del failed[topic]


def _look_at(delivery: asyncio.Future[Any]) -> None:
    """Take note of a failed delivery's error, so that asyncio does not complain that nobody did."""
    if not delivery.cancelled():
        delivery.exception()


async def unless_lacking(
    transaction: Coroutine[Any, Any, None], client: AIOKafkaClient, topics: Collection[str], led: Collection[str] = ()
) -> None:
    """Wait for a transaction, but not for a topic that is found to be `lacking` meanwhile.

    The client would look for such a topic until the transaction's time is over.

    Raises:
        BusError: One is.
    """
    task = asyncio.ensure_future(transaction)
    try:
        while not (await asyncio.wait({task}, timeout=LOOK_SECONDS))[0]:
            found = await lacking(client, topics, led)
            if found and not task.done():
                raise BusError(next(iter(found.values())))
        task.result()
    finally:
        if task.cancel():
            await asyncio.gather(task, return_exceptions=True)


async def lacking(client: AIOKafkaClient, topics: Collection[str], led: Collection[str] = ()) -> dict[str, str]:
    """Return which topics are missing, as far as a broker says so, and of which of `led` a partition has no leader.

    With each goes what to do, or what is wrong.
    """
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            found = await look(client, sorted({*topics, *led}))
    except Exception:  # noqa: BLE001 -- what went wrong first is what is told
        return {}
    lost = {name: missing_topic(name) for name, one in found.items() if name in topics and not one.there}
    without = [name for name, one in found.items() if one.there and min(one.leaders.values(), default=0) < 0]
    return lost | {name: f"topic {name}: a partition of it has no leader" for name in without if name in led}


def missing_topic(topic: str) -> str:
    """Return what to do about a topic that is missing."""
    return f"topic {topic}: does not exist; create it with `perpetua topics --create` or by hand"
