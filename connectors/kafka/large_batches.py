"""A batch of large records, put together at the end from pieces.

The client's own builder is the better one for small records; of large ones it makes a copy more, and what it takes to
check them by is a dozen times slower than the processor's own instruction. `LargeBatch` has the names that the client
asks of a batch, private ones too: its version is pinned, and a test compares the bytes with what the public way makes.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from aiokafka.record.default_records import DefaultRecordBase
from crc32c import crc32c

__all__ = ["LARGE", "LargeBatch", "Record"]

Record = tuple[bytes | None, bytes]
"""A record's key and value."""

LARGE: Final = 4096
"""Bytes of a record from which on a large batch is the quicker one."""

_HEADER: Final = DefaultRecordBase.HEADER_STRUCT
_AFTER_LENGTH: Final = 12
_CHECKSUM: Final = slice(17, 21)
_CHECKED_AT: Final = 21
_NO_EPOCH: Final = -1
_MAGIC: Final = 2
_TRANSACTIONAL: Final = 0x10
_NONE: Final = b"\x01"
"""Length of what is not there."""


class LargeBatch:
    """A transaction's batch of records with one time.

    Args:
        size: Most bytes, but for a single record, which may be larger.
        timestamp: Of all records, in ms.
    """

    def __init__(self, size: int, timestamp: int) -> None:
        self._most = size
        self._timestamp = timestamp
        self._pieces: list[bytes] = []
        self._size: int = _HEADER.size
        self._count = 0
        self._closed = False
        self._producer = (-1, -1, 0)
        self._built: bytes | None = None

    def fill(self, records: Iterable[Record], headers: Sequence[tuple[str, bytes]]) -> int:
        """Append records with the same headers until there are no more or the batch is full; return how many went in.

        Nothing is appended any more once it was full, or given to the client.
        """
        first, behind = self._count, _headers(headers)
        for key, value in () if self._closed else records:
            before = b"\0\0" + _number(self._count) + _sized(key) + _number(len(value))  # attributes, time: the first's
            length = len(before) + len(value) + len(behind)
            prefix = _number(length)
            size = len(prefix) + length
            if self._count and self._size + size >= self._most:
                self._closed = True
                break
            self._pieces += prefix, before, value, behind
            self._size += size
            self._count += 1
        return self._count - first

    def close(self) -> None:
        """See the client's."""
        self._closed = True

    def closed(self) -> bool:
        """See the client's."""
        return self._closed

    def size(self) -> int:
        """See the client's."""
        return self._size

    def record_count(self) -> int:
        """See the client's."""
        return self._count

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        self._producer = (producer_id, producer_epoch, base_sequence)

    def _build(self) -> bytes:
        """Return the batch's bytes."""
        self._closed = True
        if self._built is None:
            length, count = self._size - _AFTER_LENGTH, self._count
            fields = (_TRANSACTIONAL, count - 1, self._timestamp, self._timestamp, *self._producer, count)
            head = bytearray(_HEADER.pack(0, length, _NO_EPOCH, _MAGIC, 0, *fields))
            checksum = crc32c(head[_CHECKED_AT:])
            for piece in self._pieces:
                checksum = crc32c(piece, checksum)
            head[_CHECKSUM] = checksum.to_bytes(4, "big")
            self._built = b"".join([head, *self._pieces])
            self._pieces.clear()
        return self._built


def _headers(headers: Sequence[tuple[str, bytes]]) -> bytes:
    return b"".join([_number(len(headers)), *(_sized(name.encode()) + _sized(value) for name, value in headers)])


def _sized(data: bytes | None) -> bytes:
    return _NONE if data is None else _number(len(data)) + data


def _number(number: int) -> bytes:
    """Return a varint of a number that is not negative."""
    twice, found = number << 1, bytearray()
    while twice > 0x7F:  # noqa: PLR2004 -- seven bits a byte
        found.append(0x80 | (twice & 0x7F))
        twice >>= 7
    found.append(twice)
    return bytes(found)
