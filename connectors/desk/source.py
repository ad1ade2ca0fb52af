"""The questions that were handed in as a `Source`: a position is a record's number in their journal."""

import asyncio

from connectors.base import Lag
from connectors.desk.desk import Desk
from connectors.desk.records import delivery
from connectors.desk.sink import DeskSink
from connectors.journal.source import JournalSource

__all__ = ["DeskSource"]


class DeskSource(JournalSource):
    """Reads what the desk journals. Delivery guarantee: replayable while the journal keeps the records.

    What an asker was told to be taken in is journalled once.

    Args:
        sink: Of the same desk; opened before this.
    """

    def __init__(self, desk: Desk, sink: DeskSink) -> None:
        super().__init__(desk.questions, delivery, live=True, check=desk.check)
        self._desk, self._sink = desk, sink
        self._pressed_from = 0

    async def open(self, position: int | None) -> None:
        """See `Source.open`, and `Journal.open` for its errors."""
        await self.close()
        await asyncio.to_thread(self._journal.open)
        await super().open(position)
        self._pressed_from = 0
        await self._desk.open(self._sink.position, self.notify)

    def lag(self) -> Lag | None:
        """See `Source.lag`: what is journalled and not answered."""
        if self._reader is None:
            return None
        left = max(self._journal.end - self._sink.position, 0)
        return Lag(left, None if left else 0.0)

    @property
    def pressed(self) -> bool:
        """Whether the journal has grown so far that a snapshot should be taken, so that it can shrink."""
        limit = self._journal.limit
        return self._journal.size >= min(max(limit // 2, self._pressed_from), limit)

    async def forget(self, position: int) -> None:
        """Drop what no restart needs: records up to a snapshot's position.

        Raises:
            StorageError: It could not be dropped.
        """
        await asyncio.to_thread(self._journal.forget, position)
        self._pressed_from = self._journal.size + self._journal.limit // 8

    async def close(self) -> None:
        """See `Source.close`."""
        await self._desk.close()
        await self._stop_reading()
        await asyncio.to_thread(self._journal.close)
