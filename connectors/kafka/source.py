"""One partition of a query topic as a `Source`. A position is the offset behind a record."""

import asyncio
import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final

from aiokafka import TopicPartition

from connectors.base import Deliveries, Headers, Lag
from connectors.events import ANSWER_ID, CLOUD_EVENT, AnswerIds
from connectors.kafka.client import start
from connectors.kafka.consumers import PartitionConsumer, SharedConsumer
from connectors.kafka.errors import translated
from connectors.kafka.progress import Progress
from connectors.kafka.record_batches import Record
from connectors.kafka.reply_headers import content_type, is_event, kept_headers
from connectors.kafka.settings import KafkaSettings
from oracle.errors import BusError, InputError, LogCutError, LogDivergedError, SourceError

__all__ = ["KafkaSource"]

_key, _value, _headers = attrgetter("key"), attrgetter("value"), attrgetter("headers")

_CHECK_SECONDS: Final = 10.0


class KafkaSource:
    """Reads one partition, committed records only. Delivery guarantee: replayable while the topic keeps its records.

    A record without a value is a tombstone. Control records and those of aborted transactions are no deliveries. There
    is no reset to the first or the latest record, ever: what is gone is an error.

    Args:
        clock: Seconds since 1970, for the age of records.
        consumer: What others read by too; None for one of its own.

    Attributes:
        progress: What was read and committed; the partition's sink needs it.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        partition: int,
        clock: Callable[[], float] = time.time,
        *,
        consumer: SharedConsumer | None = None,
    ) -> None:
        self._settings = settings
        self._shared = consumer or SharedConsumer(settings)
        self._clock = clock
        self._where = f"topic {settings.topic}, partition {partition}"
        self._part = TopicPartition(settings.topic, partition)
        first_offset = settings.first_offset_of(partition)
        self._latest = first_offset == "latest"
        self._first_offset = 0 if first_offset == "latest" else first_offset
        self._stop_at = settings.stop_at_of(partition)
        self._answer_ids = AnswerIds(settings.secret or b"", settings.topic, partition)
        self.progress = Progress()
        self._next = 0
        self._consumer: PartitionConsumer | None = None
        self._read: list[Record] = []

    @property
    def exhausted(self) -> bool:
        """See `Source`: once all before `stop_at` was handed over."""
        return self._stop_at is not None and self.progress.reached >= self._stop_at

    @property
    def begins(self) -> int:
        """The offset from which on the state answers."""
        return self._first_offset if self.progress.begun is None else self.progress.begun

    async def open(self, position: int | None) -> None:
        """See `Source`.

        Raises:
            InputError: More was answered already than `stop_at` allows, or `first_offset` comes too late.
            LogDivergedError: The topic is not the one that was read before.
        """
        await self.close()
        consumer = self._consumer = self._shared.partition(self._part)
        with translated(self._where):
            await start(consumer, self._settings, self._where)
            first, last = await consumer.first_and_last()
        begin = self._beginning(last) if position is None else self._after(position)
        if position is None and begin > last and self.progress.begun is None:
            raise SourceError(
                f"{self._where}: ends at offset {last}, before source.first_offset = {begin}; if partitions begin "
                f"at different offsets, give each its own: source.first_offset.{self._part.partition} = {first}"
            )
        self._check_stop(begin)
        begin = self._in_range(begin, first, last)
        if self.progress.expected is not None:
            self._in_range(max(begin, self.progress.expected[0]), first, last)
        await self._check_expected(consumer, first)
        with translated(self._where):
            consumer.seek(begin)
        self._next = self.progress.reached = begin

    def _beginning(self, last: int) -> int:
        """Return where a state without a snapshot behind it begins, and fix it where that is the log's end."""
        progress = self.progress
        if self._latest and progress.begun is None:
            if progress.expected is not None and progress.expected[0] > 0:
                raise InputError(
                    "source.first_offset", "latest", f"must not be set later: {self._where} was started without it"
                )
            progress.begun = last
        return self.begins

    def _check_stop(self, begin: int) -> None:
        """Refuse to leave to another model what was answered already: it would be answered twice."""
        reached = max(begin, self.progress.expected[0] if self.progress.expected else 0)
        if self._stop_at is not None and reached > self._stop_at:
            partition = self._part.partition
            raise InputError(
                f"source.stop_at.{partition}",
                self._stop_at,
                f"must be at least {reached}, the offset up to which {self._where} was answered or skipped",
            )

    def _after(self, position: int) -> int:
        """Return where the next delivery behind a position can be: markers that were seen there may be gone."""
        expected = self.progress.expected
        return max(position, self.progress.looked) if expected and expected[0] == position else position

    def _in_range(self, start: int, first: int, last: int) -> int:
        """Return where to begin: at `start`, or at the topic's first record if the operator gave up what was before."""
        if start > last:
            raise self._cut(last, start)
        if start >= first:
            return start
        if self.progress.expected is not None and self.progress.expected[0] > start:
            raise SourceError(
                f"{self._where}: the records from offset {start} to {first} were deleted (retention), but are needed "
                "to restore the state: use a newer copy of the state folder, and give the topic a longer retention"
            )
        if self._first_offset < first:
            raise SourceError(
                f"{self._where}: begins at offset {first}: the queries from {start} to {first} were deleted "
                f"(retention) before they were answered; to leave them unanswered, set source.first_offset = {first}, "
                f"or source.first_offset.{self._part.partition} = {first} for this partition alone"
            )
        return first

    async def _check_expected(self, consumer: PartitionConsumer, first: int) -> None:
        """Look at the record before the committed position: a topic that was made anew has another one there."""
        if self.progress.expected is None:
            return
        position, timestamp = self.progress.expected
        if timestamp < 0 or position - 1 < first:
            return
        with translated(self._where):
            async with asyncio.timeout(_CHECK_SECONDS):
                batches = await consumer.between(position - 1, position)
        records = [record for batch in batches for record in batch.records if record.offset == position - 1]
        if not records or records[0].timestamp != timestamp:
            raise LogDivergedError(
                f"log diverged: {self._where}: the record before offset {position} is missing or not the one that was "
                "answered: the topic was recreated, or compacted by key; restore it, or make a new state for the new "
                "topic"
            )

    async def fetch(self, limit: int, wait: float) -> Deliveries:
        """See `Source`.

        Raises:
            LogCutError: The topic was made anew, or cut, while it was read.
            BusError: The brokers do not answer as they should, or do not hand over what is there: deliveries were
                committed behind what was read, so there are some.
        """
        if self.exhausted:
            return Deliveries()
        consumer = self._consumer
        if consumer is None:
            raise SourceError(f"{self._where}: fetch before open")
        if not self._read:
            await self._poll(consumer, limit, wait)
        records, self._read = self._read[:limit], self._read[limit:]
        if records:
            self._next = self.progress.reached = records[-1].offset + 1
            self.progress.read(records)
            return _deliveries(records, self._answer_ids, self._settings.content_type)
        reached = consumer.position
        if self._stop_at is not None:
            reached = min(reached, self._stop_at)  # what is behind it was read, and not handed over
        if self._consumer is consumer:  # once closed, nothing is known of what was read and not answered
            self.progress.reached = reached
        if self.progress.expected is not None and reached < self.progress.expected[0]:
            raise BusError(f"{self._where}, offset {self._next}: not returned yet, though it was read before")
        return Deliveries()

    async def _poll(self, consumer: PartitionConsumer, limit: int, wait: float) -> None:
        """Read what is there: at most so many batches, each of them whole."""
        try:
            with translated(f"{self._where}, offset {self._next}"):
                found = await consumer.read(wait, limit)
        except SourceError:
            await self._refuse_cut(consumer)
            raise
        end = self._stop_at
        for batch in found:
            records = batch.records
            if records[0].offset < self._next or (end is not None and records[-1].offset >= end):
                records = [one for one in records if self._next <= one.offset and (end is None or one.offset < end)]
            self._read += records

    async def _refuse_cut(self, consumer: PartitionConsumer) -> None:
        """Refuse a log that ends before what was read of it; nothing where it begins behind that."""
        with translated(self._where):
            _, last = await consumer.first_and_last()
        if last < self._next:
            raise self._cut(last, self._next)

    def _cut(self, last: int, start: int) -> LogCutError:
        return LogCutError(
            f"log diverged: {self._where}: ends at offset {last}, but was read up to {start}: it was recreated or "
            "truncated; restore it, or make a new state for the new topic"
        )

    def lag(self) -> Lag | None:
        """See `Source`; it goes by what the broker said when it last handed records over.

        Markers and aborted records count until they were passed over, and so does what waits behind somebody's open
        transaction. Of a record whose time its asker chose, nobody knows how old it is.
        """
        consumer = self._consumer
        end = None if consumer is None else consumer.highwater
        if end is None:
            return None
        end = end if self._stop_at is None else min(end, self._stop_at)
        oldest = self.progress.oldest() or (self._read[0] if self._read else None)
        if oldest is None:
            left = max(end - max(self.progress.reached, self.progress.answered[0]), 0)
            return Lag(left, None if left else 0.0)
        age = max(self._clock() - oldest.timestamp / 1000, 0.0) if oldest.timestamp_type else None
        return Lag(max(end - oldest.offset, 1), age)

    async def close(self) -> None:
        """See `Source`."""
        consumer, self._consumer = self._consumer, None
        self._read.clear()
        self.progress.forget()
        if consumer is not None:
            await consumer.stop()


def _deliveries(records: Sequence[Record], answer_ids: AnswerIds, default: str) -> Deliveries:
    sent = list(map(_headers, records))
    kinds: list[str] = [default] * len(sent)
    kept: list[Headers] = [()] * len(sent)
    if any(sent):
        kinds = [content_type(headers, default) for headers in sent]
        for number, (record, kind) in enumerate(zip(records, kinds, strict=True)):
            one = kept_headers(record.headers, structured=kind == CLOUD_EVENT)
            event = kind == CLOUD_EVENT or is_event(one)
            kept[number] = (*one, (ANSWER_ID, answer_ids.of(record.offset))) if event else one
    first, last = records[0].offset, records[-1].offset
    without_gaps = last - first == len(records) - 1
    positions = list(range(first + 1, last + 2)) if without_gaps else [record.offset + 1 for record in records]
    return Deliveries(positions, list(map(_value, records)), kinds, kept, list(map(_key, records)))
