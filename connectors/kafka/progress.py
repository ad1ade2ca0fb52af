"""What a partition's source has read and its sink has committed: the one thing that the two share."""

import bisect
import functools
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter

from connectors.kafka.offset_metadata import OffsetMetadata
from connectors.kafka.record_batches import Record

__all__ = ["Asked", "Progress"]

Asked = Callable[[], Sequence[tuple[int, bytes | None]]]
"""Tells offset and value of the records that replies answer, one for each."""

_offset = attrgetter("offset")


class Progress:
    """The records that were read and are not committed; the source adds them, the sink takes them out.

    So the sink learns what to commit with an offset, and the source, after a restart, what was committed.

    Attributes:
        begun: Where a state began that was to begin at the log's end; None if it was not to, or is not open yet.
        expected: Last committed position, and the time (ms) of the record that ends there; None if nothing was.
        looked: The offset up to which the log was seen to hold nothing behind that position; 0 if it was not.
        reached: The offset up to which all was handed over, or is no delivery; 0 while the source is not open.
        answered: The position up to which records were taken out, and the time of the last one, -1 if not known.
    """

    def __init__(self) -> None:
        self.begun: int | None = None
        self.expected: tuple[int, int] | None = None
        self.looked = self.reached = 0
        self.answered = (0, -1)
        self._pending: deque[Sequence[Record]] = deque()
        self._leaving: Record | None = None

    def expect(self, position: int, metadata: OffsetMetadata) -> None:
        """Say what was committed last: the source looks whether the log still holds it, as far as it is kept."""
        self.expected = self.answered = (position, metadata.timestamp)
        self.looked, self.begun = metadata.looked, metadata.begun

    def read(self, records: Sequence[Record]) -> None:
        """Add records that were handed over, at least one."""
        self._pending.append(records)

    def forget(self) -> None:
        """Drop the records: the source is closed, and nothing is known of what is behind any position."""
        self.reached = 0
        self._pending.clear()
        self._leaving = None

    def queries(self, position: int, count: int) -> Asked:
        """Return what tells offset and value of the last so many records before `position`, also once they are taken.

        It tells the offset -1 of those not known.
        """
        return functools.cache(partial(_last_before, tuple(self._pending), position, count))

    def take(self, position: int, mark: bytes) -> OffsetMetadata:
        """Return what is to be committed with `position`, of which the oracle's mark is a part.

        The records before it are taken out; the first one's age counts as the lag's until `committed`.
        """
        oldest = self.oldest()
        if self._leaving is None and oldest is not None and oldest.offset < position:
            self._leaving = oldest
        while self._pending and self._pending[0][0].offset < position:
            records = self._pending[0]
            last = records[bisect.bisect_left(records, position, key=_offset) - 1]
            self.answered = (last.offset + 1, int(last.timestamp))
            if records[-1].offset >= position:
                break
            self._pending.popleft()
        timestamp = self.answered[1] if self.answered[0] == position else -1
        return OffsetMetadata(mark, timestamp, self._empty_behind(position), self.begun)

    def _empty_behind(self, position: int) -> int:
        """Return up to which offset there is no delivery behind `position`, by what was read; 0 if nothing was."""
        behind = (record.offset for records in self._pending for record in records if record.offset >= position)
        found = next(behind, self.reached)
        return found if found > position > 0 and self.reached else 0

    def committed(self) -> None:
        """Say that what was taken is durable."""
        self._leaving = None

    def oldest(self) -> Record | None:
        """Return the first record that is not committed, None if there is none."""
        if self._leaving is not None:
            return self._leaving
        answered = self.answered[0]
        for records in self._pending:
            if records[-1].offset >= answered:
                return records[bisect.bisect_left(records, answered, key=_offset)]
        return None


def _last_before(pending: Sequence[Sequence[Record]], position: int, count: int) -> Sequence[tuple[int, bytes | None]]:
    records = [record for batch in pending for record in batch if record.offset < position]
    found = [(record.offset, record.value) for record in records[-count:]]
    return [*([(-1, None)] * (count - len(found))), *found]
