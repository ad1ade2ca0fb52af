"""Arrow messages that differ in their numbers only: where these stand is found once, and then they are copied out.

Most messages of a stream come from one program: the same schema, columns of float64 without nulls, as many rows. Where
the numbers stand follows from the bytes before them (the schema and the batch's metadata) and the message's length; so
do all reasons to reject it, as nothing else is looked at in columns of numbers that have no bitmap of nulls.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.codec.arrow.frames import read_frames
from oracle.codec.arrow.streams import MALFORMED, read_stream

__all__ = ["Layouts"]

_HEAD: Final = struct.Struct("<II")
_MARKER: Final = 0xFFFFFFFF
_ITEM: Final = 8
_CACHED: Final = 1 << 18
"""Bytes that are worked on at once."""


class _Layout(NamedTuple):
    """What messages have in common.

    Attributes:
        length: Their bytes.
        before: What they begin with, up to the batch's body.
        behind: What they end with, behind it.
        rows: Their rows.
        starts: Where the numbers of each feature begin.
    """

    length: int
    before: bytes
    behind: bytes
    rows: int
    starts: Sequence[int]

    def fits(self, body: bytes) -> bool:
        return len(body) == self.length and body.startswith(self.before) and body.endswith(self.behind)


class Layouts:
    """Reads messages of the layout that came last.

    Formal guarantees:
        * What `read` returns is what pyarrow reads of each message alone, with all checks: each message has the very
          bytes around its numbers that one had which was read so.

    Args:
        names: The features, all of them numbers.
        most_rows: Most rows of a message.
        most_bytes: Most bytes of a message.
    """

    def __init__(self, names: Sequence[str], most_rows: int, most_bytes: int) -> None:
        self._names = names
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._last: _Layout | None = None
        self._other = b""  # what a message that has no layout began with: its schema, or the batch's metadata too

    def read(self, bodies: Sequence[bytes]) -> tuple[NDArray[np.float64], int] | None:
        """Return float64[n rows, D] and how many rows a message has; None if they are not of one layout."""
        layout = self._last
        if layout is None or not layout.fits(bodies[0]):
            self._last = layout = self._learnt(bodies[0])
        if layout is None or not all(map(layout.fits, bodies)):
            return None
        length, _, _, rows, starts = layout
        features = np.empty((len(bodies), rows, len(starts)))
        few = max(_CACHED // length, 1)
        for first in range(0, len(bodies), few):
            some = bodies[first : first + few]
            data = b"".join(some)
            for index, start in enumerate(starts):
                numbers = np.ndarray((len(some), rows), "<f8", data, start, (length, _ITEM))
                features[first : first + few, :, index] = numbers
        return features.reshape(len(bodies) * rows, len(starts)), rows

    def _learnt(self, body: bytes) -> _Layout | None:
        """Return the layout of a message, if it has one and would not be rejected."""
        if len(body) > self._most_bytes or (self._other and body.startswith(self._other)):
            return None
        try:
            rows, batches, first, last, flat = read_frames(body)
            marker, size = _HEAD.unpack_from(body, first)
            if batches != 1 or not flat or not 0 < rows <= self._most_rows or marker != _MARKER:
                return None
            table = read_stream(body)
        except MALFORMED:
            return None
        begin = first + _HEAD.size + size
        names = table.column_names
        if not self._are_numbers(table.schema):
            self._other = body[:first]
            return None
        if not all(map(_is_plain, table.columns)):
            self._other = body[:begin]
            return None
        columns = [table.column(names.index(name)).chunk(0) for name in self._names]
        starts = [column.buffers()[1].address - pa.py_buffer(body).address for column in columns]
        within = all(begin <= start <= last - _ITEM * rows for start in starts)
        return _Layout(len(body), body[:begin], body[last:], rows, starts) if within else None

    def _are_numbers(self, schema: pa.Schema) -> bool:
        """Return whether all columns are of numbers, those of the features of float64, and none is of ids."""
        names = schema.names
        return (
            "id" not in names
            and all(pa.types.is_floating(kind) or pa.types.is_integer(kind) for kind in schema.types)
            and all(names.count(name) == 1 and schema.field(name).type == pa.float64() for name in self._names)
        )


def _is_plain(column: pa.ChunkedArray) -> bool:
    """Return whether a column of numbers has no bitmap of nulls: whatever they are, it is a valid one."""
    if column.num_chunks != 1:
        return False
    bitmap, numbers = column.chunk(0).buffers()
    return bitmap is None and numbers is not None
