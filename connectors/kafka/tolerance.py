"""Headers whose names are not UTF-8: Kafka takes them, the client does not, and one such record would stop it for good.

Anybody who may ask can write one. The client's fast reader fails on it; then the records of that batch are read
again by its slow one, which is shown the name with U+FFFD in place of what cannot be read.
"""

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

__all__ = ["TolerantRecords", "install"]

_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_BEFORE_LENGTH_ENDS: Final = _LENGTH_AT + _LENGTH.size


class TolerantRecords:
    """Stands in for the client's own `MemoryRecords`: the batches of one answer to a fetch.

    Args:
        data: The bytes as they came.
    """

    def __init__(self, data: bytes) -> None:
        self._records = MemoryRecords(data)
        self._data = data
        self._at = 0

    def size_in_bytes(self) -> int:
        """See the client's."""
        size: int = self._records.size_in_bytes()
        return size

    def has_next(self) -> bool:
        """See the client's."""
        return bool(self._records.has_next())

    def next_batch(self) -> "_Batch | None":
        """See the client's."""
        batch = self._records.next_batch()
        if batch is None:
            return None
        start = self._at
        self._at = start + _BEFORE_LENGTH_ENDS + _LENGTH.unpack_from(self._data, start + _LENGTH_AT)[0]
        return _Batch(batch, memoryview(self._data)[start : self._at])


class _Batch:
    """One batch: the fast one, as long as it can be read."""

    def __init__(self, fast: Any, data: memoryview) -> None:  # noqa: ANN401 -- the client has no types
        self._fast = fast
        self._data = data

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._fast, name)

    def __next__(self) -> Any:  # noqa: ANN401
        return next(self._fast)

    def __iter__(self) -> Iterator[Any]:
        read = 0
        try:
            for record in self._fast:
                yield record
                read += 1
        except UnicodeDecodeError:
            slow = _DefaultRecordBatchPy(self._data)
            iter(slow)  # unpacks it
            slow._buffer = _Tolerant(slow._buffer)  # noqa: SLF001 -- the client's reader cannot be told otherwise
            yield from islice(slow, read, None)


class _Tolerant(bytearray):
    """Bytes whose slices decode to text in any case."""

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401 -- as its parent
        found = super().__getitem__(place)
        return _Tolerant(found) if isinstance(place, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "replace") -> str:
        return super().decode(encoding, errors)


def install() -> None:
    """Have all consumers of this process read with it."""
    fetcher.MemoryRecords = TolerantRecords
