"""`JournalSource`: a journal read as a `Source`. A position is a record's number."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from connectors.base import Deliveries, Delivery, Lag
from connectors.journal.journal import Journal, JournalReader
from connectors.journal.segment import Found
from oracle.errors import SourceError, StorageError

__all__ = ["Decode", "JournalSource"]

Decode = Callable[[Found], Delivery | None]
"""Makes a delivery of a record; None for one that is none."""

_ROWS: Final = 4096
"""Most records read at once."""


class JournalSource:
    """Reads a journal from any position of it. Delivery guarantee: replayable while the journal keeps the records.

    Args:
        journal: Open, or inspected, before the source is.
        live: Whether more may come; `notify` tells of it.
        check: Raises what ends a live source; called by each `fetch`, and after each `notify`.
    """

    def __init__(
        self, journal: Journal, decode: Decode, *, live: bool, check: Callable[[], None] = lambda: None
    ) -> None:
        self._journal = journal
        self._decode = decode
        self._live = live
        self._check = check
        self._reader: JournalReader | None = None
        self._ready: deque[Delivery] = deque()
        self._reading: asyncio.Future[list[Found]] | None = None
        self._news = asyncio.Event()
        self._handed = 0

    @property
    def exhausted(self) -> bool:
        """See `Source.exhausted`."""
        return not self._live and self._reader is not None and not self._ready and not self._behind(self._reader)

    def notify(self) -> None:
        """Say that the journal has grown, or that there is something else to look at."""
        self._news.set()

    async def open(self, position: int | None) -> None:
        """See `Source.open`."""
        await self._stop_reading()
        try:
            self._reader = self._journal.reader(position or 0)
        except StorageError as exc:
            raise SourceError(f"{exc}; restore it, or the state folder that goes with it") from exc
        self._handed = position or 0

    async def fetch(self, limit: int, wait: float) -> Deliveries:
        """See `Source.fetch`; what `check` raises comes too."""
        if self._reader is None:
            raise SourceError(f"{self._journal.folder}: fetch before open")
        self._check()
        deadline = asyncio.get_running_loop().time() + wait
        while not self._ready and not self.exhausted:
            self._news.clear()
            self._check()
            if not await self._read(self._reader):
                try:
                    async with asyncio.timeout_at(deadline):
                        await self._news.wait()
                except TimeoutError:
                    break
        found = [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]
        if found:
            self._handed = found[-1].position
        return Deliveries.of(found)

    def lag(self) -> Lag | None:
        """See `Source.lag`: by what was handed over; records have no age."""
        if self._reader is None:
            return None
        left = self._journal.end - self._handed
        return Lag(left, None if left else 0.0)

    async def close(self) -> None:
        """See `Source.close`. The journal stays open."""
        await self._stop_reading()

    async def _stop_reading(self) -> None:
        if self._reading is not None:
            await asyncio.wait({self._reading})
            self._reading = None
        self._reader = None
        self._ready.clear()

    def _behind(self, reader: JournalReader) -> bool:
        """Return whether there is something left to read, or being read."""
        return self._reading is not None or reader.position < self._journal.end

    async def _read(self, reader: JournalReader) -> bool:
        """Read what is there, and return whether there was something; what a cancelled call reads, the next finds."""
        if not self._behind(reader):
            return False
        if self._reading is None:
            self._reading = asyncio.ensure_future(asyncio.to_thread(reader.read, _ROWS))
        await asyncio.wait({self._reading})
        reading, self._reading = self._reading, None
        self._ready.extend(delivery for found in reading.result() if (delivery := self._decode(found)) is not None)
        return True
