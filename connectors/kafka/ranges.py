"""A part of a partition that ends, as a `Source`: what a replay reads."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from connectors.base import Delivery, Lag
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.source import KafkaSource
from oracle.errors import BusError

__all__ = ["KafkaRange"]


class KafkaRange:
    """Reads the records of one partition from offset `first` up to, but without, `end`, as if the log ended there."""

    def __init__(self, settings: KafkaSettings, partition: int, first: int, end: int) -> None:
        self._source = KafkaSource(replace(settings, first_offset=first, stop_at=None), partition)
        self._patience = settings.request_seconds
        self._end = end
        self._reached = first

    @property
    def exhausted(self) -> bool:
        """See `Source`."""
        return self._reached >= self._end

    async def open(self, position: int | None) -> None:
        """See `Source`."""
        await self._source.open(position)
        self._reached = await self._source.reached()

    async def fetch(self, limit: int, wait: float) -> Sequence[Delivery]:
        """See `Source`; what lies before the end is there, so it is waited for.

        Raises:
            SourceError: The records were deleted.
            BusError: The brokers do not hand them over.
        """
        deadline = asyncio.get_running_loop().time() + max(wait, self._patience)
        while not self.exhausted:
            deliveries = await self._source.fetch(limit, wait)
            self._reached = await self._source.reached()
            if deliveries:
                self._source.progress.take(deliveries[-1].position, b"")  # nothing commits them: forget them
            found = [delivery for delivery in deliveries if delivery.position <= self._end]
            if found:
                return found
            if asyncio.get_running_loop().time() > deadline:
                raise BusError(f"offset {self._reached}: the brokers do not hand over what is there")
        return []

    def lag(self) -> Lag | None:
        """None: what is read here was answered before, or is answered for nobody who waits."""
        return None

    async def close(self) -> None:
        """See `Source`."""
        await self._source.close()
