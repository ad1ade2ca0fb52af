"""Flatbuffers, as Arrow's messages have them: read with every offset checked, and without a copy."""

import struct
from typing import Final

__all__ = ["Table", "TooManyError"]

_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_I32: Final = struct.Struct("<i")
_I64: Final = struct.Struct("<q")


class TooManyError(Exception):
    """A vector has more tables than are looked at."""


class Table:
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
        """Return an unsigned integer of 8 bits; 0 where it is left out."""
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

    def table(self, slot: int) -> "Table | None":
        """Return the table that a slot points to, or None where it is left out."""
        target = self.target(slot)
        return Table(self._data, target) if target else None

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
        """Return a string's bytes; none where it is left out."""
        first, count = self.vector(slot, 1)
        return self._data[first : first + count]

    def tables(self, slot: int, most: int) -> "list[Table]":
        """Return the tables of a vector, `most` at most."""
        first, count = self.vector(slot, 4)
        if count > most:
            raise TooManyError
        offsets = range(first, first + 4 * count, 4)
        return [Table(self._data, offset + _U32.unpack_from(self._data, offset)[0]) for offset in offsets]
