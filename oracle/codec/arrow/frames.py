"""What an Arrow IPC stream announces, read before anything of it is decoded.

A stream is a chain of frames: a marker, the length of a flatbuffer, the flatbuffer (`Message`: a schema, a dictionary
or a record batch), and the body that it gives the length of. All that could make a short message cost much stands in
the flatbuffers, and in the first 8 bytes of each compressed buffer, so it is refused by name while it costs nothing. A
stream is let through only if:

    * buffers that are compressed are LZ4 frames or of zstd, and no message has metadata of its own, where older streams
      announce compression; how long they are unpacked is counted, and decoders hold them to what they announce;
    * dictionaries and views are of columns of their own, and each dictionary is one column's; it counts again with each
      batch that uses it, as it is validated with each;
    * no column is of a type that others have made: what that is read as, or fails on, depends on what this process and
      this version of Arrow know of, and what is a query must not;
    * the buffers of a batch are together no longer than its body, and a schema's texts together no longer than the
      schema: both formats could point to one place from many;
    * there are not too many columns, and not too many in all its batches together, and the schema is not too long:
      what it says of types that others have made is unpacked to many times its length.

What is left takes memory in proportion to what is announced, but for texts that many views or places of a dictionary
point to (`plain.py` counts these). Slots are numbered as in Arrow's Message.fbs and Schema.fbs.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from oracle.codec.arrow.flatbuffers import Table, TooManyError

__all__ = ["Announced", "UnsupportedFrameError", "read_frames"]

_MOST_COLUMNS: Final = 4096
_MOST_CHUNKS: Final = 524_288
_LONGEST_SCHEMA: Final = 4 << 20
_CACHED_BYTES: Final = 65_536
_CACHED_BATCH_BYTES: Final = 8_192

_CODECS: Final = "buffers that are uncompressed, LZ4 frames or of zstd"
_EXTENDED: Final = "columns without extension types"
_WITHIN: Final = "dictionaries and views of columns of their own, with no columns within"
_SHARED: Final = "a dictionary of its own for each column"
_OWN_METADATA: Final = "Arrow messages without metadata of their own"
_WIDE: Final = f"at most {_MOST_COLUMNS} columns, with those in others"
_LONG: Final = f"a schema of at most {_LONGEST_SCHEMA} bytes"
_CHOPPED: Final = f"at most {_MOST_CHUNKS} columns in all batches together"

_MARKER: Final = 0xFFFFFFFF
_U32: Final = struct.Struct("<I")
_I64: Final = struct.Struct("<q")
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # MessageHeader
_TIMESTAMP, _UNION, _VIEWS = 10, 14, (23, 24)  # Type
_LZ4_FRAME, _ZSTD = 0, 1  # CompressionType
_NODE_BYTES, _BUFFER_BYTES = 16, 16  # FieldNode, Buffer
_AS_IT_IS: Final = -1
"""In place of a length: the buffer is not compressed, as it would not have been shorter."""

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
        unpacked: Bytes of all bodies, as long as they are unpacked; of a dictionary with each batch that uses it.
        plain: Whether a batch means the same behind any other: no dictionaries, no views, nothing compressed.
    """

    rows: int
    batches: int
    first: int
    last: int
    flat: bool
    unpacked: int
    plain: bool


class _Schema(NamedTuple):
    """What a schema says: the length of the body behind it, the ids of its dictionaries, whether it has views."""

    size: int
    dictionaries: frozenset[int]
    views: bool


class _Batch(NamedTuple):
    """What the metadata of a record batch say.

    Attributes:
        size: Length of the body behind it.
        flat: As `Announced.flat`.
        packed: Where compressed buffers stand in the body: offsets and lengths. None if nothing is compressed.
    """

    rows: int
    columns: int
    size: int
    flat: bool
    packed: tuple[tuple[int, int], ...] | None


class _Dictionary(NamedTuple):
    """A dictionary's id, whether its values come behind those that are there, and the values: one column."""

    id: int
    delta: bool
    values: _Batch


def read_frames(body: bytes) -> Announced:
    """Return what a stream announces.

    Raises:
        UnsupportedFrameError: It is not taken, whatever its columns hold.
        ValueError: It is no chain of frames that ends with the message.
        struct.error: The same.
        IndexError: The same.
    """
    try:
        return _read(body)
    except TooManyError as exc:
        raise UnsupportedFrameError(_WIDE) from exc


def _read(body: bytes) -> Announced:
    at = first = last = 0
    schema: _Schema | None = None
    counted = _Counted()
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
        at += length
        if schema is None:
            if length > _LONGEST_SCHEMA:
                raise UnsupportedFrameError(_LONG)
            schema = (_known_schema if length <= _CACHED_BYTES else _check_schema)(metadata)
            first = last = at = at + schema.size
            continue
        frame = (_known_frame if length <= _CACHED_BATCH_BYTES else _check_frame)(metadata)
        last = at = at + counted.add(frame, body, at, schema)
    if at != len(body):
        raise ValueError("bytes behind the stream, or a cut frame")
    if schema is None:
        return Announced(0, 0, 0, 0, flat=True, unpacked=0, plain=True)
    plain = counted.plain and not schema.views and not schema.dictionaries
    return Announced(counted.rows, counted.batches, first, last, counted.flat, counted.unpacked, plain)


class _Counted:
    """What frames say together, as far as they were read; see `Announced`."""

    def __init__(self) -> None:
        self.rows = self.batches = self.unpacked = 0
        self.flat = self.plain = True
        self._chunks = 0
        self._dictionaries: dict[int, int] = {}

    def add(self, frame: "_Batch | _Dictionary", body: bytes, at: int, schema: _Schema) -> int:
        """Count a frame whose body is at a place of the message, and return how long that is."""
        batch = frame.values if isinstance(frame, _Dictionary) else frame
        size = batch.size if batch.packed is None else _announced(body, at, batch)
        if isinstance(frame, _Dictionary):
            if frame.id not in schema.dictionaries:
                raise ValueError("a dictionary of no column")
            before = self._dictionaries.get(frame.id, 0) if frame.delta else 0
            size = self._dictionaries[frame.id] = before + max(size, batch.rows)
            self.plain = False
        else:
            self.rows += batch.rows
            self.batches += 1
            self.flat = self.flat and batch.flat
            size += sum(self._dictionaries.values())
        self.unpacked += size
        self.plain = self.plain and batch.packed is None
        self._chunks += batch.columns
        if self._chunks > _MOST_CHUNKS:
            raise UnsupportedFrameError(_CHOPPED)
        return batch.size


def _announced(body: bytes, at: int, batch: _Batch) -> int:
    """Return how long the buffers of a compressed body say that they are unpacked."""
    if at + batch.size > len(body):
        raise ValueError("a cut frame")
    return sum(_unpacked(body, at + offset, length) for offset, length in batch.packed or ())


def _unpacked(body: bytes, at: int, length: int) -> int:
    (size,) = _I64.unpack_from(body, at)
    if size < _AS_IT_IS:
        raise ValueError("a negative length")
    return length if size == _AS_IT_IS else int(size)


def _open(metadata: bytes, kinds: Iterable[int]) -> tuple[Table, int, int]:
    """Return the header of a message of one of some kinds, which it is, and the length of the body behind it."""
    message = Table(metadata, _U32.unpack_from(metadata)[0])
    if message.offset(4):
        raise UnsupportedFrameError(_OWN_METADATA)
    header, kind = message.table(2), message.byte(1)
    if header is None or kind not in kinds:
        raise ValueError("a frame of another kind")
    return header, kind, message.long(3)


def _check_frame(metadata: bytes) -> _Batch | _Dictionary:
    header, kind, size = _open(metadata, (_DICTIONARY, _BATCH))
    if kind == _BATCH:
        return _check_batch(metadata, header, size)
    data = header.table(1)
    if data is None:
        raise ValueError("a dictionary without values")
    values = _check_batch(metadata, data, size)
    if values.columns != 1 or not values.flat:
        raise ValueError("a dictionary of more than one column")
    return _Dictionary(header.long(0), bool(header.byte(2)), values)


def _check_batch(metadata: bytes, batch: Table, size: int) -> _Batch:
    first, count = batch.vector(2, _BUFFER_BYTES)
    numbers = struct.unpack_from(f"<{2 * count}q", metadata, first)
    lengths = numbers[1::2]
    if lengths and (min(numbers) < 0 or sum(lengths) > size):
        raise ValueError("buffers that share bytes")
    places, viewed = batch.vector(4, 8)
    buffers = struct.unpack_from(f"<{viewed}q", metadata, places)
    if buffers and (min(buffers) < 0 or sum(buffers) > count):
        raise ValueError("more buffers of views than there are")
    rows = batch.long(0)
    nodes, columns = batch.vector(1, _NODE_BYTES)
    flat = set(struct.unpack_from(f"<{2 * columns}q", metadata, nodes)[::2]) <= {rows}
    return _Batch(rows, columns, size, flat, _packed(batch, numbers, size))


def _packed(batch: Table, numbers: tuple[int, ...], size: int) -> tuple[tuple[int, int], ...] | None:
    """Return the places of compressed buffers, which are within the body; None if nothing is compressed."""
    if not batch.offset(3):
        return None
    compression = batch.table(3)
    if compression is None or compression.byte(0) not in {_LZ4_FRAME, _ZSTD} or compression.byte(1):
        raise UnsupportedFrameError(_CODECS)
    spans = tuple((at, length) for at, length in zip(numbers[::2], numbers[1::2], strict=True) if length)
    if any(length < _I64.size or at + length > size for at, length in spans):
        raise ValueError("a compressed buffer outside its body")
    return spans


def _check_schema(metadata: bytes) -> _Schema:
    """Check all fields of a schema, each as often as it is pointed to."""
    header, _, size = _open(metadata, (_SCHEMA,))
    weight = _pairs_weight(header, 2)
    visited = 0
    views = False
    dictionaries: list[int] = []
    fields = [(field, True) for field in header.tables(1, _MOST_COLUMNS)]
    while fields and weight <= len(metadata):
        field, outermost = fields.pop()
        visited += 1
        if any(pair.text(0) == _EXTENSION for pair in field.tables(6, _MOST_COLUMNS)):
            raise UnsupportedFrameError(_EXTENDED)
        within = field.tables(5, _MOST_COLUMNS)
        encoding = field.table(4)
        if encoding is not None:
            dictionaries.append(encoding.long(0))
        viewed = field.byte(2) in _VIEWS
        if (encoding is not None or viewed) and (within or not outermost):
            raise UnsupportedFrameError(_WITHIN)
        views = views or viewed
        weight += _VISIT_BYTES + field.vector(0, 1)[1] + _type_weight(field) + _pairs_weight(field, 6)
        fields += [(one, False) for one in within]
        if visited + len(fields) > _MOST_COLUMNS:
            raise UnsupportedFrameError(_WIDE)
    if weight > len(metadata):
        raise ValueError("a schema whose parts share bytes")
    if len(set(dictionaries)) < len(dictionaries):
        raise UnsupportedFrameError(_SHARED)
    return _Schema(size, frozenset(dictionaries), views)


_known_schema = lru_cache(maxsize=16)(_check_schema)
"""The same, for free where a schema came before, as an asker's mostly do. Refusals are not kept."""

_known_frame = lru_cache(maxsize=64)(_check_frame)
"""`_check_frame`, for free where a batch of as many rows and nulls came before. Refusals are not kept."""


def _type_weight(field: Table) -> int:
    """Return the bytes of a time zone's name or a union's codes."""
    kind = field.byte(2)
    if kind not in {_TIMESTAMP, _UNION}:
        return 0
    detail = field.table(3)
    size = 1 if kind == _TIMESTAMP else 4
    return size * detail.vector(1, size)[1] if detail is not None else 0


def _pairs_weight(owner: Table, slot: int) -> int:
    """Return the bytes of keys and values of custom metadata."""
    pairs = owner.tables(slot, _MOST_COLUMNS)
    return sum(_VISIT_BYTES + pair.vector(0, 1)[1] + pair.vector(1, 1)[1] for pair in pairs)
