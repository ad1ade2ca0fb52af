"""Confluent's wire format: a zero, four bytes of a schema's id, and behind Protobuf's the way to a message in it."""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from connectors.base import PROTOBUF
from oracle.codec.rejections import Reason, Rejection

__all__ = ["NO_FRAME", "Frame", "frame_of", "frame_start", "schema_of", "zigzag"]

NO_FRAME: Final = Rejection(Reason.MALFORMED, "body", "a zero, four bytes of a schema's id, and the message")

_HEAD: Final = struct.Struct(">BI")
_MOST_INDEXES: Final = 32
_VARINT_BYTES: Final = 5
_LOW: Final = 0x7F
_MORE: Final = 0x80


class Frame(NamedTuple):
    """A message's parts.

    Attributes:
        schema: The id of its schema.
        path: Of Protobuf: the message's number in its file, of one within it that one's number in it, and so on.
    """

    schema: int
    path: tuple[int, ...]
    payload: bytes


def schema_of(body: bytes | None) -> int | None:
    """Return the id of a body's schema; None where there is none."""
    if body is None or len(body) < _HEAD.size or body[0]:
        return None
    number: int = _HEAD.unpack_from(body)[1]
    return number


def frame_of(body: bytes, content_type: str) -> Frame | None:
    """Return the parts of a body; None if it is not in the wire format."""
    schema = schema_of(body)
    if schema is None:
        return None
    if content_type != PROTOBUF:
        return Frame(schema, (), body[_HEAD.size :])
    try:
        count, at = _read_zigzag(body, _HEAD.size)
        if not 0 <= count <= _MOST_INDEXES:
            return None
        path: list[int] = []
        for _ in range(count):
            index, at = _read_zigzag(body, at)
            path.append(index)
    except (IndexError, ValueError):
        return None
    return Frame(schema, tuple(path) or (0,), body[at:])  # the first message is most often meant: it is left out


def frame_start(schema: int, path: Iterable[int] | None = None) -> bytes:
    """Return what stands before a message: of Protobuf with a path, in full."""
    head = _HEAD.pack(0, schema)
    if path is None:
        return head
    indexes = tuple(path)
    return head + (b"\0" if indexes == (0,) else b"".join(map(zigzag, (len(indexes), *indexes))))


def zigzag(number: int) -> bytes:
    """Return an integer of 64 bits as Avro, and the wire format, write it.

    >>> zigzag(0).hex(), zigzag(-1).hex(), zigzag(64).hex()
    ('00', '01', '8001')
    """
    rest = (number << 1) ^ (number >> 63)
    data = bytearray()
    while rest > _LOW:
        data.append(rest & _LOW | _MORE)
        rest >>= 7
    data.append(rest)
    return bytes(data)


def _read_zigzag(body: bytes, at: int) -> tuple[int, int]:
    """Return an integer of at most 35 bits, and where it ends.

    Raises:
        IndexError: The body ends within it.
        ValueError: It is longer.
    """
    value = 0
    for step in range(_VARINT_BYTES):
        byte = body[at + step]
        value |= (byte & _LOW) << 7 * step
        if byte < _MORE:
            return (value >> 1) ^ -(value & 1), at + step + 1
    raise ValueError("a number of too many bytes")
