"""Where one partition's answers go, as a `Sink`: one transaction a commit, with the offset and the oracle's mark."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from connectors.base import JSON, Commit, Committed, Reply
from connectors.columns import Replies
from connectors.kafka.client import close_quietly, make_producer, start
from connectors.kafka.errors import translated
from connectors.kafka.large import LARGE, LargeBatch
from connectors.kafka.marks import Claim, mark_record, seal_of
from connectors.kafka.packing import fill
from connectors.kafka.place import find_place
from connectors.kafka.position import Seal, Witness
from connectors.kafka.replies import dead_letter, reply_headers, reply_topic
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.source import KafkaSource
from connectors.local.checks import check_metadata
from oracle.errors import BusError, StorageError

__all__ = ["KafkaSink", "Told"]


_Run = tuple[str, list[tuple[str, bytes]], Sequence[bytes | None], Sequence[bytes]]
"""Topic, headers of all, keys, bodies."""


class Told(Protocol):
    """Who is told of what an operator should know; every text is public."""

    def disturbed(self, text: str) -> None:
        """Somebody else has changed the group's offset; it will be put right."""
        ...

    def unmarked(self, text: str) -> None:
        """No marks can be kept, so that others could take our place away."""
        ...


class _Nobody:
    def disturbed(self, text: str) -> None:
        pass

    def unmarked(self, text: str) -> None:
        pass


class KafkaSink:
    """Commits in transactions under the partition's own transactional id. Delivery guarantee: exactly once.

    Readers must read committed records only (`isolation.level=read_committed`). `open` fences whoever wrote before:
    from then on nothing of theirs can be committed any more.

    Args:
        settings: The cluster and the topics.
        partition: The partition's number.
        source: The partition's source: it knows the records' times, and is told which one to look for.
        clock: Seconds since 1970, for the records' own times.
        told: Told of what an operator should know.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        partition: int,
        source: KafkaSource,
        clock: Callable[[], float] = time.time,
        told: Told | None = None,
    ) -> None:
        self._settings = settings
        self._partition = partition
        self._source = source
        self._clock = clock
        self._told: Told = told or _Nobody()
        self._seal: Seal | None = None
        self._marked = False
        self._where = f"answers of topic {settings.topic}, partition {partition}"
        self._query = TopicPartition(settings.topic, partition)
        self._producer: AIOKafkaProducer | None = None
        self._counts: dict[str, int] = {}

    @property
    def in_doubt(self) -> Committed | None:
        """None: readers of committed records see a transaction whole or not at all."""
        return None

    async def open(self) -> Committed | None:
        """See `connectors.base.Sink.open`. First the earlier owner is fenced, then the committed offset is read.

        Starting the producer waits until the transaction coordinator has ended whatever was pending, so that the
        offset read afterwards is the last one there will ever be of an earlier owner.

        Raises:
            StateError: The group's offset was committed by something else.
            RefusedError: The brokers do not let us.
            BusError: The brokers do not answer.
        """
        await self.close()
        producer = make_producer(self._settings, self._partition)
        self._producer = producer
        with translated(self._where):
            async with asyncio.timeout(self._settings.transaction_seconds + self._settings.request_seconds):
                await start(producer, self._settings, self._where)
            for topic in self._settings.written:
                self._counts[topic] = len(await producer.partitions_for(topic))
        place = await find_place(self._settings, self._partition, make=True)
        self._seal = seal_of(self._settings, self._partition)
        self._marked = self._seal is not None and self._settings.marks is not None and place.unmarked is None
        for tell, found in ((self._told.disturbed, place.disturbed), (self._told.unmarked, place.unmarked)):
            if found is not None:
                tell(found)
        if place.committed is None or place.witness is None:
            return None
        position, witness = place.committed.position, place.witness
        self._source.expect(position, witness.timestamp, witness.looked)
        return Committed(position, witness.mark)

    async def commit(self, commit: Commit) -> None:
        """See `connectors.base.Sink.commit`. If it fails, open the sink anew: only then is known what was committed.

        Raises:
            FencedError: Another process has taken the partition over.
            StorageError: The sink is not open, or a message is too large for its topic.
            BusError: The brokers do not answer; the commit may or may not stand.
        """
        producer = self._producer
        if producer is None:
            raise StorageError(f"{self._where}: commit before open")
        check_metadata(commit.metadata)
        timestamp = self._source.timestamp_before(commit.position)
        witness = Witness(commit.metadata, timestamp, await self._source.looked_behind(commit.position))
        claim = Claim(commit.position, witness.pack())
        text = claim.text if self._seal is None else self._seal.sealed(*claim)
        offsets = {self._query: OffsetAndMetadata(commit.position, text)}
        with translated(self._where):
            async with asyncio.timeout(self._settings.transaction_seconds):
                await producer.begin_transaction()
                sent: list[asyncio.Future[Any]] = []
                for topic, partition, batch in chain(self._batches(producer, commit), self._mark(producer, claim)):
                    sent.append(await producer.send_batch(batch, topic, partition=partition))
                    sent[-1].add_done_callback(_look_at)  # we may be gone before it is done
                await producer.send_offsets_to_transaction(offsets, self._settings.group)
                if sent:
                    await asyncio.wait(sent)  # not `gather`, which would cancel them with us
                for delivery in sent:
                    delivery.result()  # it may raise: then whoever opens the sink next aborts the transaction
                await producer.commit_transaction()
        self._source.committed()

    async def close(self) -> None:
        """See `connectors.base.Sink.close`."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await close_quietly(producer)

    def _mark(self, producer: AIOKafkaProducer, claim: Claim) -> Iterable[tuple[str, int, Any]]:
        """Yield the batch of the mark, if marks are kept."""
        if self._seal is None or not self._marked:
            return
        writer = producer._txn_manager  # noqa: SLF001 -- nobody else knows
        batch = producer.create_batch()
        mark = mark_record(self._seal, claim, (writer.producer_id, writer.producer_epoch))
        fill(batch, [mark], int(self._clock() * 1000), [("content-type", JSON.encode())])
        yield self._settings.marks or "", self._partition, batch

    def _batches(self, producer: AIOKafkaProducer, commit: Commit) -> Iterable[tuple[str, int, Any]]:
        """Yield (topic, partition, batch), each topic's in order."""
        now = int(self._clock() * 1000)
        batches: dict[str, Any] = {}
        for topic, headers, keys, bodies in self._runs(commit, now):
            batch = batches.get(topic)
            if batch is None:
                batch = batches[topic] = self._new_batch(producer, now, large=len(bodies[0]) >= LARGE)
            done = fill(batch, zip(keys, bodies, strict=True), now, headers)
            while done < len(bodies):
                yield topic, self._place(topic), batch
                large = len(bodies[done]) >= LARGE
                batch = batches[topic] = self._new_batch(producer, now, large=large)
                more = fill(batch, zip(keys[done:], bodies[done:], strict=True), now, headers)
                if not more:
                    size = len(bodies[done])
                    raise StorageError(f"{self._where}: a message of {size} bytes does not fit a batch")
                done += more
        for topic, batch in batches.items():
            yield topic, self._place(topic), batch

    def _new_batch(self, producer: AIOKafkaProducer, now: int, *, large: bool) -> Any:  # noqa: ANN401 -- no types
        return LargeBatch(self._settings.batch_bytes, now) if large else producer.create_batch()

    def _place(self, topic: str) -> int:
        """Return the partition that this shard writes to: one, so that its answers stay in order."""
        count = self._counts.get(topic, 0)
        if not count:
            raise BusError(f"{self._where}: topic {topic} has no partition")
        return self._partition % count

    def _runs(self, commit: Commit, now: int) -> Iterable[_Run]:
        """Yield records in runs of one topic and the same headers: most answers differ in their bodies only."""
        settings, plain = self._settings, [("content-type", JSON.encode())]
        same = _same_run(commit.replies)
        if same is not None:
            kind, keys, bodies = same
            yield settings.answers, [("content-type", kind.encode())], keys, bodies
        run: list[Reply] = []
        for reply in commit.replies if same is None else ():
            body, content_type, headers, key, rejected = reply
            if not headers and content_type == JSON and rejected is None:
                run.append(reply)
                continue
            if run:
                yield settings.answers, plain, *_columns(run)
                run = []
            topic = reply_topic(headers, settings.reply_topics, settings.answers)
            yield topic, reply_headers(reply), [key], [body]
            if rejected is not None and settings.dead_letter is not None:
                noted = key if settings.dead_letter_bodies else None  # it may be as private as the body
                yield settings.dead_letter, plain, [noted], [self._note(reply)]
        if run:
            yield settings.answers, plain, *_columns(run)
        if settings.ledger is not None and commit.ledger:
            about = [*plain, ("model", settings.model.encode()), ("partition", b"%d" % self._partition)]
            # Compaction keeps the last record of a key: each event has one of its own, also those of two starts that no
            # query came between, which are equal but for the time.
            place = f"{settings.topic}/{self._partition}/{commit.position}/{now}"
            keys = [f"{place}-{number}".encode() for number in range(len(commit.ledger))]
            yield settings.ledger, about, keys, commit.ledger

    def _note(self, reply: Reply) -> bytes:
        settings = self._settings
        return dead_letter(reply, settings.topic, self._partition, bodies=settings.dead_letter_bodies)


def _columns(replies: Sequence[Reply]) -> tuple[Sequence[bytes | None], Sequence[bytes]]:
    return [reply.key for reply in replies], [reply.body for reply in replies]


def _same_run(replies: Sequence[Reply]) -> tuple[str, Sequence[bytes | None], Sequence[bytes]] | None:
    """Return all replies as one run (content type, keys, bodies) if that is all that each says; else None."""
    if not replies:
        return None
    if isinstance(replies, Replies):
        return JSON, replies.keys, replies.bodies
    bodies, kinds, headers, keys, rejected = zip(*replies, strict=True)
    if any(headers) or kinds.count(kinds[0]) < len(kinds) or rejected.count(None) < len(rejected):
        return None
    return kinds[0], keys, bodies


def _look_at(delivery: asyncio.Future[Any]) -> None:
    """Take note of a failed delivery's error, so that asyncio does not complain that nobody did."""
    if not delivery.cancelled():
        delivery.exception()
