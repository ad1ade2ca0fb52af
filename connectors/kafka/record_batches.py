"""Record batches as brokers store them, read whole: also those that the client cannot read.

Brokers store a producer's batch as it came, and check no more of it than that they can read it themselves. The client's
fast reader fails on some of what they can: header names that are not UTF-8, a record's attributes above 127 (one byte
there, a varint here), lengths with bits beyond the 32 that count. And it believes the offset that a record says it has,
which brokers do not look at. A batch with any of that is read by the reader here, which reads as brokers do: otherwise
one record, from anybody who may ask, would stop the client for good.

Compressed batches are unpacked here too, as far as there is room: 1 MB can unpack to 30 GB. Brokers store none where
`compression.type=uncompressed`, as is asked for, but those from before that was set are still there.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, NamedTuple

import cramjam
from aiokafka.codec import snappy_decode
from aiokafka.errors import CorruptRecordException, UnsupportedForMessageFormatError
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords
from crc32c import crc32c

__all__ = ["FetchedBatches", "Record", "RecordBatch", "UnpackedBatchError"]

_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_BEFORE_LENGTH_ENDS: Final = _LENGTH_AT + _LENGTH.size
_FORMAT_AT: Final = 16
_FORMAT: Final = b"\2"
_CHECKSUM: Final = struct.Struct(">I")
_CHECKSUM_AT: Final = 17
_CHECKED_AT: Final = 21
_COUNT_AT: Final = 57
_RECORDS_AT: Final = 61
_CONTINUES: Final = 0x80
_MOST_UNPACKED: Final = 32 << 20
_PLAIN, _SNAPPY = 0, 2  # it grows 21 times at most
_UNPACK: Final = {1: cramjam.gzip.decompress_into, 3: cramjam.lz4.decompress_into, 4: cramjam.zstd.decompress_into}
_offset = attrgetter("offset")
_FAST_FAILS: Final = (CorruptRecordException, UnicodeDecodeError, OverflowError, MemoryError)
"""What the fast reader raises; the last two where a size of 64 bits and its place add up to more than 64."""


class FetchedBatches:
    """The batches in the bytes of one answer to a fetch; it has the interface of aiokafka's `MemoryRecords`."""

    def __init__(self, data: bytes) -> None:
        self._records = MemoryRecords(data)
        self._data = data
        self._at = 0

    def size_in_bytes(self) -> int:
        """Return how many bytes there are, of batches that are cut off too."""
        return len(self._data)

    def has_next(self) -> bool:
        """Return whether there is another batch."""
        return self._records.has_next()

    def next_batch(self) -> "_Batch | None":
        """Return the next batch, None if there is none.

        Raises:
            UnsupportedForMessageFormatError: The batch is of another format than Kafka has since 0.11.
        """
        start = self._at
        if self.has_next() and self._data[start + _FORMAT_AT : start + _FORMAT_AT + 1] != _FORMAT:
            raise UnsupportedForMessageFormatError("records are not in the format of Kafka 0.11 and later")
        batch = self._records.next_batch()
        if batch is None:
            return None
        self._at = start + _BEFORE_LENGTH_ENDS + _LENGTH.unpack_from(self._data, start + _LENGTH_AT)[0]
        return _Batch(batch, memoryview(self._data)[start : self._at])


class Record(NamedTuple):
    """One record; the client's own, which its fast reader makes, have the same attributes.

    Attributes:
        offset: Its place in the partition.
        timestamp: Milliseconds.
        timestamp_type: 0 if the asker set it, 1 if the broker did.
        key: None if there is none.
        value: None in a tombstone.
        headers: Bytes of a name that are not UTF-8 are lone surrogates in it.
    """

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class RecordBatch(NamedTuple):
    """The records of one batch, as the one thing that the client hands over.

    Attributes:
        offset: That of its last record.
        records: Those of the whole batch, at least one: the first ones may lie before where reading was to begin.
        producer: Id and epoch of the producer that wrote it, below 0 where that had none.
    """

    offset: int
    records: Sequence[Record]
    producer: tuple[int, int]


class _Batch:
    """One batch as aiokafka knows it, but that iterating over it gives one `RecordBatch`."""

    def __init__(self, fast: _DefaultRecordBatchPy, data: memoryview) -> None:
        self._fast = fast
        self._data = data

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever the client asks its own batch
        return getattr(self._fast, name)

    def __next__(self) -> object:
        return next(self._fast)

    def validate_crc(self) -> bool:
        """Return whether the checksum is right, in a twelfth of the client's time: by the processor's instruction."""
        (announced,) = _CHECKSUM.unpack_from(self._data, _CHECKSUM_AT)
        return bool(crc32c(self._data[_CHECKED_AT:]) == announced)

    def __iter__(self) -> Iterator[RecordBatch]:
        records = self._records()
        if records:
            yield RecordBatch(records[-1].offset, records, (self._fast.producer_id, self._fast.producer_epoch))

    def _records(self) -> Sequence[Record]:
        first = self._fast.base_offset
        if self._is_plain():
            try:
                records = list(self._fast)
            except _FAST_FAILS:
                records = []
            if records and list(map(_offset, records)) == list(range(first, first + len(records))):
                return records
        return list(_read(self._data))

    def _is_plain(self) -> bool:
        """Return whether records can be given to the fast reader: no gaps, not compressed, attributes as it knows them.

        Query topics have neither compressed batches nor, unless they are compacted, gaps.
        """
        fast, data, at = self._fast, self._data.tobytes(), _RECORDS_AT
        (count,) = _LENGTH.unpack_from(data, _COUNT_AT)
        if fast.compression_type or count != fast.last_offset_delta + 1:
            return False
        try:
            for _ in range(count):
                length, shift = data[at], 7
                if length >= _CONTINUES:
                    length -= _CONTINUES
                    while data[at := at + 1] >= _CONTINUES:
                        length |= (data[at] - _CONTINUES) << shift
                        shift += 7
                    length |= data[at] << shift
                if data[at + 1] >= _CONTINUES:
                    return False
                at += 1 + (length >> 1)
        except IndexError:
            return False
        return True


_Fields = tuple[int, int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]
"""Of a record: its time and its offset, less those of the batch; key, value, headers."""


class UnpackedBatchError(CorruptRecordException):
    """A compressed batch that cannot be unpacked, or not in the room there is for it; its text is public."""


def _read(data: memoryview) -> Iterator[Record]:
    """Read a batch's records as a broker does.

    Raises:
        CorruptRecordException: No broker takes it.
        UnpackedBatchError: It cannot be unpacked.
    """
    batch = _DefaultRecordBatchPy(data)  # of which only the head is looked at
    (count,) = _LENGTH.unpack_from(data, _COUNT_AT)
    found = _Reader(_unpacked(batch, data[_RECORDS_AT:])).records(count)
    offsets = _offsets([fields[1] for fields in found], batch.last_offset_delta)
    kind = batch.timestamp_type
    for offset, (delta, _, key, value, headers) in zip(offsets, found, strict=True):
        time = batch.max_timestamp if kind == batch.LOG_APPEND_TIME else batch.first_timestamp + delta
        yield Record(batch.base_offset + offset, _wrapped(time), kind, key, value, headers)


def _unpacked(batch: _DefaultRecordBatchPy, data: memoryview) -> bytes:
    kind = batch.compression_type
    if kind == _PLAIN:
        return bytes(data)
    try:
        if kind == _SNAPPY:
            return bytes(snappy_decode(data.tobytes()))
        buffer = bytearray(_MOST_UNPACKED)
        return bytes(memoryview(buffer)[: _UNPACK[kind](data.tobytes(), buffer)])
    except Exception as exc:  # of four libraries
        begin, end = batch.base_offset, batch.base_offset + batch.last_offset_delta + 1
        raise UnpackedBatchError(
            f"the compressed batch from offset {begin} to {end} cannot be decompressed, or only to "
            f"more than {_MOST_UNPACKED >> 20} MiB; set compression.type=uncompressed, so that brokers store no such "
            f"batch; to leave its queries unanswered, delete the records before offset {end} and set "
            f"source.first_offset = {end}"
        ) from exc


def _offsets(deltas: Sequence[int], last: int) -> Sequence[int]:
    """Return the records' places in their batch: what they say if it makes sense, else one after the other.

    A batch as it was produced has no gaps, so that only one saying makes sense; a compacted one may have any.
    """
    rise = all(before < after for before, after in pairwise([-1, *deltas, last + 1]))
    return deltas if rise else range(len(deltas))


def _wrapped(number: int) -> int:
    """Return the 64 low bits as a signed number, as brokers add."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def records(self, count: int) -> list[_Fields]:
        """Return the fields of so many records, which must be all there is."""
        try:
            found = [self._record() for _ in range(count)]
        except IndexError as exc:
            raise CorruptRecordException("the records are truncated") from exc
        if self._at != len(self._data):
            raise CorruptRecordException("bytes after the last record")
        return found

    def _record(self) -> _Fields:
        length = self._number(32)
        end = self._at + length
        self._at += 1  # attributes: none are in use
        fields = self._number(64), self._number(32), self._bytes(), self._bytes(), self._headers()
        if self._at != end:
            raise CorruptRecordException("a record's length does not match its fields")
        return fields

    def _headers(self) -> list[tuple[str, bytes | None]]:
        return [self._header() for _ in range(self._size())]

    def _header(self) -> tuple[str, bytes | None]:
        name = self._cut(self._size())
        return name.decode("utf-8", errors="surrogateescape"), self._bytes()

    def _size(self) -> int:
        size = self._number(32)
        if size < 0:
            raise CorruptRecordException("a negative size")
        return size

    def _bytes(self) -> bytes | None:
        size = self._number(32)
        return None if size < 0 else self._cut(size)

    def _cut(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise CorruptRecordException("a field is longer than the batch")
        return self._data[start : self._at]

    def _number(self, bits: int) -> int:
        """Read a varint; what it has beyond so many bits is dropped, as brokers drop it."""
        data, at = self._data, self._at
        raw = shift = 0
        while data[at] >= _CONTINUES:
            raw |= (data[at] - _CONTINUES) << shift
            shift += 7
            at += 1
            if shift >= bits:
                raise CorruptRecordException("an unterminated number")
        raw = (raw | data[at] << shift) % (1 << bits)
        self._at = at + 1
        return (raw >> 1) ^ -(raw & 1)
