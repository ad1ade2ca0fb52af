"""Encoded metrics, cached for a second."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from oracle.telemetry.collector import RecordCollector
from oracle.telemetry.metrics import Format, encode

__all__ = ["Scrapes"]

_KEPT_SECONDS: Final = 1.0


class Scrapes:
    """Encodes the metrics in a thread, at most once a second in each format; requests in between get the same bytes.

    Args:
        collector: Returns the collector of the moment.
        clock: Seconds, monotone.
    """

    def __init__(self, collector: Callable[[], RecordCollector], clock: Callable[[], float] = time.monotonic) -> None:
        self._collector = collector
        self._clock = clock
        self._kept: dict[Format, tuple[float, bytes]] = {}
        self._making = asyncio.Lock()

    async def get(self, wanted: Format) -> bytes:
        """Return them, no older than a second."""
        async with self._making:
            made, body = self._kept.get(wanted, (None, b""))
            now = self._clock()
            if made is None or now - made >= _KEPT_SECONDS:
                body = await asyncio.to_thread(encode, self._collector(), wanted)
                self._kept[wanted] = (now, body)
            return body
