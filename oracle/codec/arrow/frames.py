"""What an Arrow IPC stream announces, read before anything of it is decoded.

A stream is a chain of frames: a marker, the length of a flatbuffer, the flatbuffer (`Message`: a schema or a record
batch), and the body that it gives the length of. All that could make a short message cost much stands in the
flatbuffers, so it can be refused by name while it costs nothing. A stream is let through only if:

    * no buffer is compressed, and no message has metadata of its own, where older streams announce compression;
    * no column has a dictionary or is of views: both let a few bytes stand for many, each to be validated;
    * no column is of a type that others have made: what that is read as, or fails on, depends on what this process and
      this version of Arrow know of, and what is a query must not;
    * the buffers of a batch are together no longer than its body, and a schema's texts together no longer than the
      schema: both formats could point to one place from many;
    * there are not too many columns, and not too many in all its batches together, and the schema is not too long:
      what it says of types that others have made is unpacked to many times its length.

What is left takes memory in proportion to its length, but for strings, of which a message may have fewer rows. Slots
are numbered as in Arrow's Message.fbs and Schema.fbs.
"""

import struct
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = ["Announced", "UnsupportedFrameError", "read_frames"]

_MOST_COLUMNS: Final = 4096
_MOST_CHUNKS: Final = 524_288
_LONGEST_SCHEMA: Final = 4 << 20
_CACHED_BYTES: Final = 65_536
_CACHED_BATCH_BYTES: Final = 8_192

_COMPRESSED: Final = "an uncompressed Arrow stream"
_NOT_PLAIN: Final = "columns without dictionaries, views and extension types"
_OWN_METADATA: Final = "Arrow messages without metadata of their own"
_WIDE: Final = f"at most {_MOST_COLUMNS} columns, with those in others"
_LONG: Final = f"a schema of at most {_LONGEST_SCHEMA} bytes"
_CHOPPED: Final = f"at most {_MOST_CHUNKS} columns in all batches together"

_MARKER: Final = 0xFFFFFFFF
_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_I32: Final = struct.Struct("<i")
_I64: Final = struct.Struct("<q")
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # MessageHeader
_TIMESTAMP, _UNION, _VIEWS = 10, 14, (23, 24)  # Type
_NODE_BYTES, _BUFFER_BYTES = 16, 16  # FieldNode, Buffer
_EXTENSION: Final = b"ARROW:extension:name"
_VISIT_BYTES: Final = 24  # a field or a pair takes at least its place in a vector, its table's head and two offsets


class UnsupportedFrameError(Exception):
    """The stream is Arrow, of a kind that is not taken; the one argument says what would be."""


class Announced(NamedTuple):
    """What the frames of a stream say.

    Attributes:
        first: Where the first of them begins, right behind the schema; 0 if there is no schema.
        last: Where the last of them ends.
        flat: Whether all columns of a batch, and all columns within columns, have as many rows as the batch.
    """

    rows: int
    batches: int
    first: int
    last: int
    flat: bool


class _Batch(NamedTuple):
    """What the metadata of a record batch say: rows, columns, length of the body behind it, and as `Announced.flat`."""

    rows: int
    columns: int
    size: int
    flat: bool


class _Table:
    """A flatbuffer's table, read with every offset checked."""

    __slots__ = ("_at", "_data", "_ends", "_slots")

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._slots = at - _I32.unpack_from(data, at)[0]
        if self._slots < 0:
            raise ValueError("a table's slots are outside")
        self._ends = self._slots + _U16.unpack_from(data, self._slots)[0]

    def offset(self, slot: int) -> int:
        """Return where a slot's value stands, or 0 where it is left out."""
        entry = self._slots + 4 + 2 * slot
        if entry + 2 > self._ends:
            return 0
        offset: int = _U16.unpack_from(self._data, entry)[0]
        return self._at + offset if offset else 0

    def byte(self, slot: int) -> int:
        offset = self.offset(slot)
        return self._data[offset] if offset else 0

    def long(self, slot: int) -> int:
        """Return a signed integer of 64 bits, which must not be negative; 0 where it is left out."""
        offset = self.offset(slot)
        value: int = _I64.unpack_from(self._data, offset)[0] if offset else 0
        if value < 0:
            raise ValueError("a negative length")
        return value

    def target(self, slot: int) -> int:
        """Return where a slot points to, or 0 where it is left out."""
        offset = self.offset(slot)
        return offset + int(_U32.unpack_from(self._data, offset)[0]) if offset else 0

    def table(self, slot: int) -> "_Table | None":
        target = self.target(slot)
        return _Table(self._data, target) if target else None

    def vector(self, slot: int, size: int) -> tuple[int, int]:
        """Return where a vector's elements of `size` bytes begin, and how many there are."""
        target = self.target(slot)
        if not target:
            return 0, 0
        count: int = _U32.unpack_from(self._data, target)[0]
        if target + 4 + count * size > len(self._data):
            raise ValueError("a vector goes beyond its flatbuffer")
        return target + 4, count

    def text(self, slot: int) -> bytes:
        first, count = self.vector(slot, 1)
        return self._data[first : first + count]

    def tables(self, slot: int) -> "list[_Table]":
        first, count = self.vector(slot, 4)
        if count > _MOST_COLUMNS:
            raise UnsupportedFrameError(_WIDE)
        offsets = range(first, first + 4 * count, 4)
        return [_Table(self._data, offset + _U32.unpack_from(self._data, offset)[0]) for offset in offsets]


def read_frames(body: bytes) -> Announced:
    """Return what a stream announces.

    Raises:
        UnsupportedFrameError: It is not taken, whatever its columns hold.
        ValueError: It is no chain of frames that ends with the message.
        struct.error: The same.
        IndexError: The same.
    """
    at = first = last = rows = batches = chunks = 0
    flat = True
    while at < len(body):
        (length,) = _U32.unpack_from(body, at)
        at += 4
        if length == _MARKER:  # streams of before 2019 have none
            (length,) = _U32.unpack_from(body, at)
            at += 4
        if not length:
            break
        metadata = body[at : at + length]
        if len(metadata) < length:
            raise ValueError("a cut frame")
        if not first:
            if length > _LONGEST_SCHEMA:
                raise UnsupportedFrameError(_LONG)
            at += length + (_known_schema if length <= _CACHED_BYTES else _check_schema)(metadata)
            first = last = at
            continue
        batch = (_known_batch if length <= _CACHED_BATCH_BYTES else _check_batch)(metadata)
        rows += batch.rows
        batches += 1
        chunks += batch.columns
        flat = flat and batch.flat
        if chunks > _MOST_CHUNKS:
            raise UnsupportedFrameError(_CHOPPED)
        at = last = at + length + batch.size
    if at != len(body):
        raise ValueError("bytes behind the stream, or a cut frame")
    return Announced(rows, batches, first, last, flat)


def _open(metadata: bytes, kind: int) -> tuple[_Table, int]:
    """Return the header of a message of one kind, and the length of the body behind it."""
    message = _Table(metadata, _U32.unpack_from(metadata)[0])
    if message.offset(4):
        raise UnsupportedFrameError(_OWN_METADATA)
    if message.byte(1) == _DICTIONARY:
        raise UnsupportedFrameError(_NOT_PLAIN)
    header = message.table(2)
    if header is None or message.byte(1) != kind:
        raise ValueError("a frame of another kind")
    return header, message.long(3)


def _check_batch(metadata: bytes) -> _Batch:
    batch, size = _open(metadata, _BATCH)
    if batch.offset(3):
        raise UnsupportedFrameError(_COMPRESSED)
    first, count = batch.vector(2, _BUFFER_BYTES)
    lengths = struct.unpack_from(f"<{2 * count}q", metadata, first)[1::2]
    if lengths and (min(lengths) < 0 or sum(lengths) > size):
        raise ValueError("buffers that share bytes")
    rows = batch.long(0)
    first, columns = batch.vector(1, _NODE_BYTES)
    flat = set(struct.unpack_from(f"<{2 * columns}q", metadata, first)[::2]) <= {rows}
    return _Batch(rows, columns, size, flat)


def _check_schema(metadata: bytes) -> int:
    """Check all fields of a schema, each as often as it is pointed to; return the length of the body behind it."""
    header, size = _open(metadata, _SCHEMA)
    fields = header.tables(1)
    weight = _pairs_weight(header, 2)
    visited = 0
    while fields and weight <= len(metadata):
        field = fields.pop()
        visited += 1
        if field.offset(4) or field.byte(2) in _VIEWS or any(pair.text(0) == _EXTENSION for pair in field.tables(6)):
            raise UnsupportedFrameError(_NOT_PLAIN)
        weight += _VISIT_BYTES + field.vector(0, 1)[1] + _type_weight(field) + _pairs_weight(field, 6)
        fields += field.tables(5)
        if visited + len(fields) > _MOST_COLUMNS:
            raise UnsupportedFrameError(_WIDE)
    if weight > len(metadata):
        raise ValueError("a schema whose parts share bytes")
    return size


_known_schema = lru_cache(maxsize=16)(_check_schema)
"""The same, for free where a schema came before, as an asker's mostly do. Refusals are not kept."""

_known_batch = lru_cache(maxsize=64)(_check_batch)
"""`_check_batch`, for free where a batch of as many rows and nulls came before. Refusals are not kept."""


def _type_weight(field: _Table) -> int:
    """Return the bytes of a time zone's name or a union's codes."""
    kind = field.byte(2)
    if kind not in {_TIMESTAMP, _UNION}:
        return 0
    detail = field.table(3)
    size = 1 if kind == _TIMESTAMP else 4
    return size * detail.vector(1, size)[1] if detail is not None else 0


def _pairs_weight(owner: _Table, slot: int) -> int:
    """Return the bytes of keys and values of custom metadata."""
    return sum(_VISIT_BYTES + pair.vector(0, 1)[1] + pair.vector(1, 1)[1] for pair in owner.tables(slot))
