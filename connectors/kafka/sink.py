"""Where one partition's answers go, as a `Sink`: one transaction a commit, with the offset and the oracle's mark."""

import asyncio
import time
from collections.abc import Collection, Coroutine, Iterable, Mapping
from itertools import chain
from typing import Any, Final, Protocol

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import OffsetAndMetadata

from connectors.base import JSON, Commit, Committed, Sink
from connectors.kafka.client import close_quietly, make_producer, start
from connectors.kafka.commit_batches import CommitBatches, named_topics
from connectors.kafka.committed_offset import CommittedOffset, find_committed, partition_name
from connectors.kafka.errors import translated
from connectors.kafka.internals import producer_of
from connectors.kafka.marks import Claim, mark_record, marks_kept, seal_of
from connectors.kafka.metadata import batch_limits, look
from connectors.kafka.offset_metadata import OffsetMetadata, Seal
from connectors.kafka.progress import Progress
from connectors.kafka.reply_topics import ReplyTopics
from connectors.kafka.settings import KafkaSettings
from connectors.local.checks import check_metadata
from oracle.errors import BusError, FencedError, PerpetuaError, StorageError

__all__ = ["KafkaSink", "SinkObserver"]

_LOOK_SECONDS: Final = 5.0
"""Most time to find out which topic spoilt a transaction."""

_NOT_YET: Final = "it accepts no records now"

_Batches = Iterable[tuple[str, int, BatchBuilder]]


class SinkObserver(Protocol):
    """Who is told of what an operator should know; every text is public."""

    def disturbed(self, text: str) -> None:
        """Somebody else has changed the group's offset; it will be put right."""

    def unmarked(self, text: str) -> None:
        """No marks can be kept, so that others could take our place away."""

    def withheld(self, text: str) -> None:
        """A reply topic takes no answers."""

    def undelivered(self, count: int) -> None:
        """So many answers were given up."""


class _Nobody:
    def disturbed(self, text: str) -> None:
        pass

    unmarked = withheld = disturbed

    def undelivered(self, count: int) -> None:
        pass


class KafkaSink(Sink):
    """Commits in transactions under the partition's own transactional id. Delivery guarantee: exactly once.

    Readers must read committed records only (`isolation.level=read_committed`). `open` fences whoever wrote before:
    from then on nothing of theirs can be committed any more. An answer whose reply topic cannot be written to is given
    up, and noted among the dead letters; see `ReplyTopics`.

    Args:
        progress: That of the partition's source; None where nothing is answered, and the offset stays.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        partition: int,
        progress: Progress | None = None,
        observer: SinkObserver | None = None,
    ) -> None:
        self._settings = settings
        self._partition = partition
        self._progress = progress or Progress()
        self._observer: SinkObserver = observer or _Nobody()
        self._seal: Seal | None = seal_of(settings, partition)
        self._marked = False
        self._where = f"answers of topic {settings.topic}, partition {partition}"
        self._query = TopicPartition(settings.topic, partition)
        self._producer: AIOKafkaProducer | None = None
        self._counts: dict[str, int] = {}
        self._reply_topics = ReplyTopics(settings, partition, self._observer.withheld)
        self._commit_batches = CommitBatches(
            settings, partition, self._counts, self._reply_topics.batch_bytes, self._observer.withheld
        )
        self._last: Claim | None = None

    async def open(self) -> Committed | None:
        """See `Sink`. It fences the earlier owner, then reads the committed offset.

        Starting the producer waits until the transaction coordinator has ended whatever was pending, so that the
        offset read afterwards is the last that an earlier owner will ever commit.

        Raises:
            StateError: Nothing says for sure how far was answered.
            RefusedError: The brokers do not let us.
        """
        found = await self._take_over()
        if found.disturbed is not None:
            self._observer.disturbed(found.disturbed)
        if found.unmarked is not None:
            self._observer.unmarked(found.unmarked)
        self._last = found.committed
        if found.committed is None or found.metadata is None:
            return None
        position, metadata = found.committed.position, found.metadata
        self._progress.expect(position, metadata)
        return Committed(position, metadata.mark)

    async def put(self, claim: Claim) -> None:
        """Fence whoever serves the partition, and commit an offset of an operator's choice, with metadata of ours.

        Raises:
            BusError: The brokers do not answer.
        """
        await self.close()
        self._producer = await self._started()
        if self._settings.marks is not None:
            self._marked = (await marks_kept(self._settings, self._partition, make=True)).problem is None
        await self._transaction(self._producer, (), claim, self._settings.transaction_seconds)

    async def commit(self, commit: Commit) -> None:
        """See `Sink`. If it fails, open the sink anew: only then is known what was committed.

        Raises:
            StorageError: The sink is not open, or a message is too large for its topic.
        """
        if self._producer is None:
            raise StorageError(f"{self._where}: commit before open")
        check_metadata(commit.metadata)
        replies = named_topics(commit.replies, self._settings)
        needs_asked = replies or self._commit_batches.too_large(commit.replies)
        asked = self._progress.queries(commit.position, len(commit.replies)) if needs_asked else []
        claim = Claim(commit.position, self._progress.take(commit.position, commit.metadata).pack())
        while True:
            unavailable = await self._look_at(replies)
            batches = self._commit_batches.batches(commit, self._now(), unavailable, asked)
            if await self._done(batches, claim, replies.keys() - unavailable):
                break
        self._last = claim
        self._progress.committed()
        self._reply_topics.resume(replies.keys() - unavailable)
        given_up = sum(count for name, count in replies.items() if name in unavailable) + self._commit_batches.given_up
        if given_up:
            self._observer.undelivered(given_up)

    async def close(self) -> None:
        """See `Sink`."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await close_quietly(producer)

    async def _take_over(self) -> CommittedOffset:
        await self.close()
        self._producer = await self._started()
        found = await find_committed(self._settings, self._partition, make=True)
        self._marked = found.unmarked is None
        return found

    async def _started(self) -> AIOKafkaProducer:
        """Return a producer that has fenced all earlier ones; our own topics are there."""
        settings, producer = self._settings, make_producer(self._settings, self._partition)
        self._producer = producer
        with translated(self._where):
            async with asyncio.timeout(settings.transaction_seconds + settings.request_seconds):
                await start(producer, settings, self._where)
        with translated(self._where):
            for topic, found in (await look(producer.client, settings.own)).items():
                if not found.there or not found.leaders:
                    raise BusError(_missing(topic))
                self._counts[topic] = len(found.leaders)
            self._reply_topics.batch_bytes.update(await batch_limits(producer.client, settings.own))
        return producer

    async def _look_at(self, replies: Collection[str]) -> frozenset[str]:
        """Return which of the reply topics take nothing now."""
        if not replies or self._producer is None:
            return frozenset()
        with translated("reply topics"):
            unavailable = await self._reply_topics.unavailable(self._producer.client, replies)
        self._counts.update(self._reply_topics.partitions)
        return unavailable

    async def _done(self, batches: _Batches, claim: Claim, replies: Collection[str]) -> bool:
        """Commit; return False where reply topics spoilt the transaction, which is to be begun again without them."""
        settings, producer = self._settings, self._producer
        failed: dict[str, str] = {}
        seconds = settings.transaction_seconds
        if replies:
            seconds = min(settings.request_seconds, seconds / 2)
        try:
            await self._unless_topic_missing(self._transaction(producer, batches, claim, seconds, failed))
        except FencedError:
            raise
        except Exception as exc:
            blamed = {name: how for name, how in failed.items() if name in replies}
            if await self._to_blame(replies, {} if failed.keys() - blamed.keys() else blamed):
                await self._begin_again()
                return False
            missing = await self._lacking()
            if missing is not None and isinstance(exc, PerpetuaError):
                raise BusError(missing) from exc
            raise
        return True

    async def _unless_topic_missing(self, transaction: Coroutine[Any, Any, None]) -> None:
        """Wait for a transaction, but not for a topic of our own that is found to be missing meanwhile.

        The client would look for such a topic until the transaction's time is over.
        """
        task = asyncio.ensure_future(transaction)
        try:
            while not (await asyncio.wait({task}, timeout=_LOOK_SECONDS))[0]:
                missing = await self._lacking()
                if missing is not None and not task.done():
                    raise BusError(missing)
            task.result()
        finally:
            if task.cancel():
                await asyncio.gather(task, return_exceptions=True)

    async def _transaction(
        self,
        producer: AIOKafkaProducer | None,
        batches: _Batches,
        claim: Claim,
        seconds: float,
        failed: dict[str, str] | None = None,
    ) -> None:
        """Commit batches, the mark and the offset; of topics whose records did not get there, say in `failed` why."""
        if producer is None:
            raise StorageError(f"{self._where}: commit before open")
        text = claim.text if self._seal is None else self._seal.sealed(*claim)
        offsets = {self._query: OffsetAndMetadata(claim.position, text)}
        sent: list[tuple[str, asyncio.Future[Any]]] = []
        failed = {} if failed is None else failed
        try:
            with translated(self._where):
                async with asyncio.timeout(seconds):
                    await producer.begin_transaction()
                    for topic, partition, batch in chain(batches, self._mark(producer, claim)):
                        failed[topic] = _NOT_YET
                        sent.append((topic, await producer.send_batch(batch, topic, partition=partition)))
                        sent[-1][1].add_done_callback(_look_at)  # we may be gone before it is done
                    await producer.send_offsets_to_transaction(offsets, self._settings.group)
                    if sent:
                        await asyncio.wait([delivery for _, delivery in sent])  # not `gather`: it would cancel them
                    for topic, delivery in sent:
                        with translated(f"topic {topic}"):
                            delivery.result()  # it may raise: then whoever opens the sink next aborts the transaction
                    await producer.commit_transaction()
        finally:
            for topic, delivery in sent:
                _note_failure(failed, topic, delivery)

    def _mark(self, producer: AIOKafkaProducer, claim: Claim) -> _Batches:
        """Yield the batch of the mark, if marks are kept."""
        if self._seal is None or self._settings.marks is None or not self._marked:
            return
        batch = producer.create_batch()
        key, value = mark_record(self._seal, claim, producer_of(producer))
        batch.append(timestamp=self._now(), key=key, value=value, headers=[("content-type", JSON.encode())])
        yield self._settings.marks, self._partition, batch

    async def _to_blame(self, replies: Collection[str], failed: Mapping[str, str]) -> bool:
        if not replies or self._producer is None:
            return False
        with translated("reply topics"):
            async with asyncio.timeout(_LOOK_SECONDS):
                return await self._reply_topics.suspend(self._producer.client, replies, failed)

    async def _begin_again(self) -> None:
        """End the spoilt transaction, and see that nobody has committed anything since ours before it."""
        found = await self._take_over()
        if _position_and_mark(self._last) != _position_and_mark(found.committed):
            raise FencedError(
                f"{partition_name(self._settings, self._partition)}: another process has committed meanwhile"
            )

    async def _lacking(self) -> str | None:
        """Return which topic of our own is missing, if that is what is wrong and a broker says so."""
        if self._producer is None:
            return None
        own = [*self._settings.own, *filter(None, [self._settings.marks if self._marked else None])]
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                found = await look(self._producer.client, own)
        except Exception:  # noqa: BLE001 -- what went wrong first is what is told
            return None
        return next((_missing(name) for name, one in found.items() if not one.there), None)

    @staticmethod
    def _now() -> int:
        return int(time.time() * 1000)


def _position_and_mark(claim: Claim | None) -> tuple[int, bytes] | None:
    """Return what a claim says, whoever says it: position and mark."""
    return None if claim is None else (claim.position, OffsetMetadata.unpack(claim.text).mark)


def _missing(topic: str) -> str:
    return f"topic {topic}: does not exist; create it with `perpetua topics --create` or by hand"


def _note_failure(failed: dict[str, str], topic: str, delivery: "asyncio.Future[Any]") -> None:
    """Take a topic whose records got there out of those that failed; say of others how, as far as it is known."""
    if not delivery.done() or delivery.cancelled():
        return
    error = delivery.exception()
    if error is not None:
        failed[topic] = f"it rejects a record: {type(error).__name__.removesuffix('Error')}"
    elif failed.get(topic) == _NOT_YET:
        del failed[topic]


def _look_at(delivery: asyncio.Future[Any]) -> None:
    """Take note of a failed delivery's error, so that asyncio does not complain that nobody did."""
    if not delivery.cancelled():
        delivery.exception()
