"""Where one partition's answers go, as a `Sink`: one transaction a commit, with the offset and the oracle's mark."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from aiokafka import AIOKafkaClient, AIOKafkaProducer, TopicPartition

from connectors.base import Commit, Committed, Sink
from connectors.kafka.client import close_quietly, make_producer, start, transactional_ids
from connectors.kafka.commit_batches import CommitBatches, named_topics
from connectors.kafka.committed_offset import CommittedOffset, fence_writers, find_committed, partition_name
from connectors.kafka.errors import translated
from connectors.kafka.fencing import fence
from connectors.kafka.joint import JointProducer, SpoiltError
from connectors.kafka.lease import Lease
from connectors.kafka.marks import Claim, seal_of
from connectors.kafka.metadata import batch_limits, look
from connectors.kafka.offset_metadata import OffsetMetadata, Seal
from connectors.kafka.progress import Progress
from connectors.kafka.reply_topics import ReplyTopics
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.transactions import (
    LOOK_SECONDS,
    Batch,
    Part,
    lacking,
    missing_topic,
    now_ms,
    transact,
    unless_lacking,
)
from connectors.kafka.writer import Writer
from connectors.local.checks import check_metadata
from oracle.errors import BusError, FencedError, MisplacedError, PerpetuaError, StorageError

__all__ = ["KafkaSink", "SinkObserver"]


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
    """Commits in transactions, its own or those of its process. Delivery guarantee: exactly once.

    Readers must read committed records only (`isolation.level=read_committed`). `open` fences whoever wrote before:
    from then on nothing of theirs can be committed any more. An answer whose reply topic cannot be written to is given
    up, and noted among the dead letters; see `ReplyTopics`.

    Args:
        progress: That of the partition's source; None where nothing is answered, and the offset stays.
        writer: The process's, by which it commits where marks are kept; None to commit under the partition's own
            transactional id only.

    Attributes:
        moved: Whether the state has come from another place. A place where nothing was committed is not its own then,
            as an import of what has answered begins with a commit, also at offset 0.
    """

    moved = False

    def __init__(
        self,
        settings: KafkaSettings,
        partition: int,
        progress: Progress | None = None,
        observer: SinkObserver | None = None,
        writer: Writer | None = None,
    ) -> None:
        self._settings = settings
        self._partition = partition
        self._progress = progress or Progress()
        self._observer: SinkObserver = observer or _Nobody()
        self._seal: Seal | None = seal_of(settings, partition)
        self._marked = False
        self._where = f"answers of topic {settings.topic}, partition {partition}"
        self._query = TopicPartition(settings.topic, partition)
        self._joins = writer is not None
        self._writer = writer or Writer(settings)
        self._lease = Lease(self._query)
        self._producer: AIOKafkaProducer | None = None
        self._counts: dict[str, int] = {}
        self._reply_topics = ReplyTopics(settings, partition, self._observer.withheld)
        self._commit_batches = CommitBatches(
            settings, partition, self._counts, self._reply_topics.batch_bytes, self._observer.withheld
        )
        self._last: Claim | None = None

    async def open(self) -> Committed | None:
        """See `Sink`. It fences the earlier owner, then reads the committed offset: see `Writer`.

        Starting the producer waits until the transaction coordinator has ended whatever was pending, so that the
        offset read afterwards is the last that an earlier owner will ever commit.

        Raises:
            StateError: Nothing says for sure how far was answered, or the state has moved, and not to here.
            RefusedError: The brokers do not let us.
        """
        found = await self._take_over()
        if found.disturbed is not None:
            self._observer.disturbed(found.disturbed)
        if found.unmarked is not None:
            self._observer.unmarked(found.unmarked)
        self._last = found.committed
        if found.committed is None or found.metadata is None:
            if self.moved:
                raise MisplacedError("sink: it has no commit, but the state has moved; this is not where it went")
            return None
        position, metadata = found.committed.position, found.metadata
        self._progress.expect(position, metadata)
        return Committed(position, metadata.mark)

    async def put(self, claim: Claim) -> None:
        """Fence whoever serves the partition, and commit an offset of an operator's choice, with metadata of ours.

        Raises:
            BusError: The brokers do not answer.
        """
        producer = await self._fenced()
        marked = await fence_writers(self._settings, self._partition, make=True, fence=self._writer.fence)
        self._marked = marked and self._settings.marks is not None
        await self._put(producer, claim)

    async def commit(self, commit: Commit) -> None:
        """See `Sink`. If it fails, open the sink anew: only then is known what was committed.

        Raises:
            StorageError: The sink is not open, or a message is too large for its topic.
        """
        check_metadata(commit.metadata)
        replies = named_topics(commit.replies, self._settings)
        is_noted = self._settings.dead_letter is not None  # else nobody looks, and nothing is kept for it
        asked = self._progress.queries(commit.position, len(commit.replies)) if is_noted else tuple
        metadata = self._progress.take(commit.position, commit.metadata)
        while True:
            unavailable = await self._look_at(replies)
            batches = list(self._commit_batches.batches(commit, now_ms(), unavailable, asked))
            if await self._done(batches, commit.position, metadata, replies.keys() - unavailable):
                break
        self._last = Claim(commit.position, metadata.pack())
        self._progress.committed()
        self._reply_topics.resume(replies.keys() - unavailable)
        given_up = sum(count for name, count in replies.items() if name in unavailable) + self._commit_batches.given_up
        if given_up:
            self._observer.undelivered(given_up)

    async def close(self) -> None:
        """See `Sink`. The partition is given back, so that whoever opens it next need not fence all others of ours."""
        producer, self._producer = self._producer, None
        lease, self._lease = self._lease, Lease(self._query)
        await self._writer.release(lease, self._part)
        if producer is not None:
            await close_quietly(producer)

    async def _take_over(self) -> CommittedOffset:
        """Fence whoever wrote before, and say so where they look: see `_again`."""
        producer = await self._fenced()
        found = await find_committed(self._settings, self._partition, make=True, fence=self._writer.fence)
        self._marked = found.unmarked is None
        if found.committed is not None and found.metadata is not None and found.metadata.writer is not None:
            claim = Claim(found.committed.position, found.metadata._replace(writer=None).pack())
            await self._put(producer, claim)
            return found._replace(committed=claim)
        return found

    async def _put(self, producer: AIOKafkaProducer, claim: Claim) -> None:
        """Commit nothing but a claim."""
        group, seconds = self._settings.group, self._settings.transaction_seconds
        await transact(producer, group, [self._part(claim)], {}, seconds=seconds, where=self._where)

    async def _fenced(self) -> AIOKafkaProducer:
        """Return a producer of the partition's own id that has fenced all earlier ones; our own topics are there."""
        await self.close()
        self._lease = await self._writer.take(self._query)
        settings, producer = self._settings, make_producer(self._settings, self._partition)
        self._producer = producer
        with translated(self._where):
            async with asyncio.timeout(settings.transaction_seconds + settings.request_seconds):
                await start(producer, settings, self._where)
        self._writer.check(self._lease)  # else whoever took it since may have joined the writer, and goes on by that
        with translated(self._where):
            await fence(producer.client, transactional_ids(settings, self._partition)[1], settings)
            for topic, found in (await look(producer.client, settings.own)).items():
                if not found.there or not found.leaders:
                    raise BusError(missing_topic(topic))
                self._counts[topic] = len(found.leaders)
            self._reply_topics.batch_bytes.update(await batch_limits(producer.client, settings.own))
        return producer

    def _client(self) -> AIOKafkaClient:
        """Return what asks the brokers."""
        if self._lease.producer is not None:
            return self._lease.producer.client
        if self._producer is None:
            raise StorageError(f"{self._where}: commit before open")
        return self._producer.client

    async def _look_at(self, replies: Collection[str]) -> frozenset[str]:
        """Return which of the reply topics take nothing now."""
        client = self._client()
        if not replies:
            return frozenset()
        with translated("reply topics"):
            unavailable = await self._reply_topics.unavailable(client, replies)
        self._counts.update(self._reply_topics.partitions)
        return unavailable

    async def _done(
        self, batches: Sequence[Batch], position: int, metadata: OffsetMetadata, replies: Collection[str]
    ) -> bool:
        """Commit; return False where it was not, and is to be begun again: alone, or without some reply topics."""
        seconds = self._settings.transaction_seconds
        if replies:
            seconds = min(self._settings.request_seconds, seconds / 2)
        joint = self._lease.producer
        if joint is not None:
            claim = Claim(position, metadata._replace(writer=joint.name).pack())
            try:
                await self._writer.commit(self._lease, self._part(claim, batches), seconds)
            except SpoiltError as exc:
                return await self._again(joint, claim, exc, replies)
            return True
        joint = await self._next_writer()
        claim = Claim(position, metadata._replace(writer=None if joint is None else joint.name).pack())
        if not await self._done_alone(self._part(claim, batches), seconds, replies):
            return False
        if joint is not None:
            self._lease.join(joint, claim)
            producer, self._producer = self._producer, None
            if producer is not None:
                await close_quietly(producer)
        return True

    async def _next_writer(self) -> JointProducer | None:
        """Return who commits from the next commit on, to be named by this one; None for us as before."""
        fit = self._joins and self._seal is not None and self._settings.marks is not None and self._marked
        if not fit or self._reply_topics.doubted or not self._writer.is_trusted(self._query):
            return None
        return await self._writer.running()

    async def _done_alone(self, part: Part, seconds: float, replies: Collection[str]) -> bool:
        """Commit under the partition's own id; return False where reply topics spoilt it."""
        failed: dict[str, str] = {}
        producer = self._producer
        if producer is None:
            raise StorageError(f"{self._where}: commit before open")
        work = transact(producer, self._settings.group, [part], failed, seconds=seconds, where=self._where)
        try:
            await unless_lacking(work, producer.client, part.own)
        except FencedError:
            raise
        except Exception as exc:
            if await self._to_blame(replies, failed):
                if _stands(await self._take_over(), self._last):
                    return False
                raise self._taken() from exc
            missing = await lacking(producer.client, part.own)
            if missing and isinstance(exc, PerpetuaError):
                raise BusError(next(iter(missing.values()))) from exc
            raise
        return True

    def _part(self, claim: Claim, batches: Sequence[Batch] = ()) -> Part:
        """Return what commits a claim."""
        marks = self._settings.marks if self._marked and self._seal is not None else None
        own = (*self._settings.own, *filter(None, [marks]))
        return Part(self._query, claim, self._seal, marks, own, batches)

    async def _to_blame(self, replies: Collection[str], failed: Mapping[str, str]) -> bool:
        """Find out whether reply topics spoilt a transaction; they are passed over for a while."""
        if not replies:
            return False
        blamed = {name: how for name, how in failed.items() if name in replies}
        with translated("reply topics"):
            async with asyncio.timeout(LOOK_SECONDS):
                known = {} if failed.keys() - blamed.keys() else blamed
                return await self._reply_topics.suspend(self._client(), replies, known)

    async def _again(self, joint: JointProducer, claim: Claim, spoilt: SpoiltError, replies: Collection[str]) -> bool:
        """Take the partition back from a writer of ours that has ended; return whether it has committed the claim.

        Where the newest claim names it, nobody else has taken the partition: others' may have been, or the writer
        failed.

        Raises:
            FencedError: Another process has the partition.
            BusError: Nothing tells whether it was committed.
        """
        await self._writer.fence(joint.name)
        found = await find_committed(self._settings, self._partition)
        if found.metadata is None or found.metadata.writer != joint.name:
            raise self._taken() from spoilt
        if spoilt.guilty and not set(replies) & spoilt.failed.keys():
            self._writer.doubt(self._query)
        found = await self._take_over()
        if _stands(found, self._last):
            if _stands(found, claim):
                raise BusError(str(spoilt.error)) from spoilt
            await self._to_blame(replies, spoilt.failed)
            return False
        if _stands(found, claim):
            return True
        raise self._taken() from spoilt

    def _taken(self) -> FencedError:
        where = partition_name(self._settings, self._partition)
        return FencedError(f"{where}: another process has taken over, or committed meanwhile")


def _stands(found: CommittedOffset, claim: Claim | None) -> bool:
    """Return whether what was found says what a claim says, whoever says it: position and mark."""
    return _position_and_mark(found.committed) == _position_and_mark(claim)


def _position_and_mark(claim: Claim | None) -> tuple[int, bytes] | None:
    """Return what a claim says, whoever says it: position and mark."""
    return None if claim is None else (claim.position, OffsetMetadata.unpack(claim.text).mark)
