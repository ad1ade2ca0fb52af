"""One partition of a query topic as a `Source`. A position is the offset behind a record."""

import asyncio
import bisect
import time
from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from connectors.base import JSON, Delivery, Lag
from connectors.columns import Deliveries
from connectors.kafka.client import close_quietly, make_consumer, start
from connectors.kafka.errors import translated
from connectors.kafka.position import Witness
from connectors.kafka.replies import content_type, kept_headers
from connectors.kafka.settings import KafkaSettings
from oracle.errors import BusError, InputError, LogCutError, LogDivergedError, SourceError

__all__ = ["KafkaSource"]

_key, _value, _headers = attrgetter("key"), attrgetter("value"), attrgetter("headers")
_offset = attrgetter("offset")

_LOOK_SECONDS: Final = 10.0


class KafkaSource:
    """Reads one partition, committed records only. Delivery guarantee: replayable while the topic keeps its records.

    A record without a value is a tombstone. Control records and those of aborted transactions are no deliveries. There
    is no reset to the first or the latest record, ever: what is gone is an error.

    Args:
        settings: The cluster and the topic.
        partition: The partition's number.
        clock: Seconds since 1970, for the age of records.
    """

    def __init__(self, settings: KafkaSettings, partition: int, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._where = f"topic {settings.topic}, partition {partition}"
        self._part = TopicPartition(settings.topic, partition)
        first_offset = settings.first_offset_of(partition)
        self._latest = first_offset == "latest"
        self._first_offset = 0 if first_offset == "latest" else first_offset
        self._stop_at = settings.stop_at_of(partition)
        self._begun: int | None = None
        self._next = self._seen = 0
        self._consumer: AIOKafkaConsumer | None = None
        self._read: list[Any] = []
        self._pending: deque[list[Any]] = deque()
        self._expected: tuple[int, int] | None = None
        self._looked = 0
        self._last = (0, -1)
        self._leaving: Any = None

    @property
    def exhausted(self) -> bool:
        """See `connectors.base.Source.exhausted`: once all before `stop_at` was handed over."""
        return self._stop_at is not None and self._seen >= self._stop_at

    @property
    def begun(self) -> int | None:
        """Where a state began that was to begin at the log's end; None if it was not to, or is not open yet."""
        return self._begun

    @property
    def begins(self) -> int:
        """The offset from which on the state answers."""
        return self._first_offset if self._begun is None else self._begun

    def expect(self, position: int, witness: Witness) -> None:
        """Say what was committed, for `open` and `fetch` to go by.

        Args:
            position: Where; all before it was there.
            witness: With it: `open` looks whether the record that ends there has its time, if it is still kept.
        """
        self._expected = self._last = (position, witness.timestamp)
        self._looked = witness.looked
        self._begun = witness.begun

    def timestamp_before(self, position: int) -> int:
        """Return the time (ms) of the delivered record that ends at `position`, -1 if it is not known.

        Deliveries up to there are forgotten, but for the last one, and for the first one's age until `committed`.
        """
        oldest = self._oldest_unanswered()
        if self._leaving is None and oldest is not None and oldest.offset < position:
            self._leaving = oldest
        while self._pending and self._pending[0][0].offset < position:
            records = self._pending[0]
            last = next(record for record in reversed(records) if record.offset < position)
            self._last = (last.offset + 1, int(last.timestamp))
            if records[-1].offset >= position:
                break
            self._pending.popleft()
        return self._last[1] if self._last[0] == position else -1

    def asked(self, position: int, count: int) -> list[tuple[int, bytes | None]]:
        """Return offset and value of the last so many deliveries before `position`, of which no commit was begun."""
        records = [record for batch in self._pending for record in batch if record.offset < position]
        found = [(record.offset, record.value) for record in records[-count:]]
        return [*([(-1, None)] * (count - len(found))), *found]

    def committed(self) -> None:
        """Say that the commit that `timestamp_before` was asked for is durable."""
        self._leaving = None

    async def looked_behind(self, position: int) -> int:
        """Return up to which offset there is no delivery behind `position`, one at which some delivery ends.

        It says so of all that was read; 0 if nothing was read behind it, or if it is closed.
        """
        if self._consumer is None:  # what was read and is pending is forgotten
            return 0
        reached = await self.reached()  # first: what is handed over meanwhile is pending
        behind = (record.offset for records in self._pending for record in records if record.offset >= position)
        looked = next(behind, reached)
        return looked if looked > position > 0 else 0

    async def open(self, position: int | None) -> None:
        """See `connectors.base.Source.open`.

        Raises:
            SourceError: The records behind `position` are gone.
            InputError: More was answered already than `stop_at` allows, or `first_offset` comes too late.
            LogDivergedError: The topic is not the one that was read before.
            BusError: The brokers do not answer.
        """
        await self.close()
        self._consumer = make_consumer(self._settings, whole=True)
        with translated(self._where):
            await start(self._consumer, self._settings, self._where)
            self._consumer.assign([self._part])
            first = (await self._consumer.beginning_offsets([self._part]))[self._part]
            last = (await self._consumer.end_offsets([self._part]))[self._part]
        begin = self._beginning(last) if position is None else self._after(position)
        if position is None and begin > last and self._begun is None:
            raise SourceError(
                f"{self._where}: it ends at offset {last}, before source.first_offset = {begin}; if partitions begin "
                f"at different offsets, give each its own: source.first_offset.{self._part.partition} = {first}"
            )
        self._check_stop(begin)
        begin = self._in_range(begin, first, last)
        if self._expected is not None:
            self._in_range(max(begin, self._expected[0]), first, last)
        await self._check_expected(first)
        self._consumer.seek(self._part, begin)
        self._next = self._seen = begin

    def _beginning(self, last: int) -> int:
        """Return where a state without a snapshot behind it begins, and fix it where that is the log's end."""
        if self._latest and self._begun is None:
            if self._expected is not None and self._expected[0] > 0:
                raise InputError(
                    "source.first_offset", "latest", f"must stay what it was: {self._where} was begun without it"
                )
            self._begun = last
        return self.begins

    def _check_stop(self, begin: int) -> None:
        """Refuse to leave to another model what was answered already: it would be answered twice."""
        reached = max(begin, self._expected[0] if self._expected else 0)
        if self._stop_at is not None and reached > self._stop_at:
            partition = self._part.partition
            raise InputError(
                f"source.stop_at.{partition}",
                self._stop_at,
                f"must be at least {reached}, up to where {self._where} was answered, or is not to be",
            )

    def _after(self, position: int) -> int:
        """Return where the next delivery behind a position can be: markers that were seen there may be gone."""
        is_last = self._expected is not None and self._expected[0] == position
        return max(position, self._looked) if is_last else position

    def _in_range(self, start: int, first: int, last: int) -> int:
        """Return where to begin: at `start`, or at the topic's first record if the operator gave up what was before."""
        if start > last:
            raise self._cut(last, start)
        if start >= first:
            return start
        if self._expected is not None and self._expected[0] > start:
            raise SourceError(
                f"{self._where}: the records from offset {start} to {first} were deleted (retention), and are needed "
                "to restore the state: use a newer copy of the state folder; give the topic a longer retention"
            )
        if self._first_offset < first:
            raise SourceError(
                f"{self._where}: it begins at offset {first}: the queries from {start} to {first} were deleted "
                f"(retention) before they were answered; to leave them unanswered, set source.first_offset = {first}, "
                f"or of this partition alone source.first_offset.{self._part.partition} = {first}"
            )
        return first

    async def _check_expected(self, first: int) -> None:
        """Look at the record before the committed position: a topic that was made anew has another one there."""
        if self._expected is None or self._consumer is None:
            return
        position, timestamp = self._expected
        if timestamp < 0 or position - 1 < first:
            return
        self._consumer.seek(self._part, position - 1)
        with translated(self._where):
            record = await self._record_at(position - 1)
        if record is None or record.timestamp != timestamp:
            raise LogDivergedError(
                f"log diverged: {self._where}: the record before offset {position} is not the one that was answered, "
                "or no record: the topic was made anew, or compacted by key: restore it, or make a new state for the "
                "new topic"
            )

    async def _record_at(self, offset: int) -> Any | None:  # noqa: ANN401 -- the client has no types
        """Return the record at an offset, to which the consumer was sent; None if there is none any more.

        Raises:
            TimeoutError: The brokers do not say.
        """
        consumer = self._consumer
        deadline = asyncio.get_running_loop().time() + _LOOK_SECONDS
        while consumer is not None and await consumer.position(self._part) <= offset:
            found = await consumer.getmany(self._part, timeout_ms=200, max_records=1)
            for batch in found.get(self._part, []):
                for record in batch.records:
                    if record.offset == offset:
                        return record
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError
        return None

    async def fetch(self, limit: int, wait: float) -> Sequence[Delivery]:
        """See `connectors.base.Source.fetch`.

        Raises:
            SourceError: The source is not open, or the records were deleted while they were read.
            LogCutError: The topic was made anew, or cut, while it was read.
            BusError: The brokers do not answer as they should, or do not hand over what is there: deliveries were
                committed behind what was read, so there are some.
        """
        if not self._read and not self.exhausted:
            await self._ask(limit, wait)
        records, self._read = self._read[:limit], self._read[limit:]
        if not records:
            self._seen = await self.reached()
            if self._expected is not None and self._seen < self._expected[0]:
                raise BusError(f"{self._where}, offset {self._next}: not handed over yet, though it was read before")
            return []
        self._next = self._seen = records[-1].offset + 1
        self._pending.append(records)
        return _deliveries(records)

    async def _ask(self, limit: int, wait: float) -> None:
        """Read what is there: at most so many batches, each of them whole."""
        consumer = self._consumer
        if consumer is None:
            raise SourceError(f"{self._where}: fetch before open")
        try:
            with translated(f"{self._where}, offset {self._next}"):
                found = await consumer.getmany(self._part, timeout_ms=max(int(wait * 1000), 1), max_records=limit)
        except SourceError:
            await self._refuse_cut(consumer)
            raise
        for batch in found.get(self._part, []):
            records = batch.records
            if records[0].offset < self._next:  # only where reading begins within a batch
                records = [record for record in records if record.offset >= self._next]
            if self._stop_at is not None and records and records[-1].offset >= self._stop_at:
                records = [record for record in records if record.offset < self._stop_at]
            self._read += records

    async def _refuse_cut(self, consumer: AIOKafkaConsumer) -> None:
        """Refuse a log that ends before what was read of it; nothing where it begins behind that."""
        with translated(self._where):
            last = (await consumer.end_offsets([self._part]))[self._part]
        if last < self._next:
            raise self._cut(last, self._next)

    def _cut(self, last: int, start: int) -> LogCutError:
        return LogCutError(
            f"log diverged: {self._where}: it ends at offset {last}, before {start}, up to which it was read: it was "
            "made anew, or cut; restore it, or make a new state for the new topic"
        )

    def lag(self) -> Lag | None:
        """See `connectors.base.Source.lag`; it goes by what the broker said when it last handed records over.

        Markers and aborted records count until they were passed over, and so does what waits behind somebody's open
        transaction. Of a record whose time its asker chose, nobody knows how old it is.
        """
        consumer = self._consumer
        if consumer is None or not consumer.assignment():
            return None
        end = consumer.highwater(self._part)
        if end is None:
            return None
        end = end if self._stop_at is None else min(end, self._stop_at)
        oldest = self._leaving or self._oldest_unanswered()
        if oldest is None:
            left = max(end - max(self._seen, self._last[0]), 0)
            return Lag(left, None if left else 0.0)
        age = max(self._clock() - oldest.timestamp / 1000, 0.0) if oldest.timestamp_type else None
        return Lag(max(end - oldest.offset, 1), age)

    def _oldest_unanswered(self) -> Any:  # noqa: ANN401 -- a record of the client's reader
        """Return the first record that was read and of which no commit was begun; None if there is none."""
        answered = self._last[0]
        for records in self._pending:
            if records[-1].offset >= answered:
                return records[bisect.bisect_left(records, answered, key=_offset)]
        return self._read[0] if self._read else None

    async def reached(self) -> int:
        """Return the offset behind all that was handed over, and behind records there that are no deliveries."""
        if self._consumer is None or self._read:
            return self._next
        position = int(await self._consumer.position(self._part))
        if self._stop_at is not None:
            position = min(position, self._stop_at)  # what is behind it was read, and not handed over
        return self._next if self._read else position

    async def close(self) -> None:
        """See `connectors.base.Source.close`."""
        consumer, self._consumer = self._consumer, None
        self._read.clear()
        self._pending.clear()
        self._leaving = None
        if consumer is not None:
            await close_quietly(consumer)


def _deliveries(records: Sequence[Any]) -> Sequence[Delivery]:
    if any(map(_headers, records)):
        return [_with_headers(record) if record.headers else _plain(record) for record in records]
    return Deliveries([record.offset + 1 for record in records], list(map(_value, records)), list(map(_key, records)))


def _plain(record: Any) -> Delivery:  # noqa: ANN401 -- the client has no types
    return Delivery(record.offset + 1, record.value, JSON, (), record.key)


def _with_headers(record: Any) -> Delivery:  # noqa: ANN401
    headers = record.headers
    return Delivery(record.offset + 1, record.value, content_type(headers), kept_headers(headers), record.key)
