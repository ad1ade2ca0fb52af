"""A part of a partition that ends, as a `Source`: what a replay reads."""

import asyncio
from dataclasses import replace

from connectors.base import Deliveries, Lag
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.source import KafkaSource
from oracle.errors import BusError

__all__ = ["KafkaRange"]


class KafkaRange(KafkaSource):
    """Reads the records of one partition from offset `first` up to, but without, `end`, as if the log ended there."""

    def __init__(self, settings: KafkaSettings, partition: int, first: int, end: int) -> None:
        super().__init__(replace(settings, first_offset=first, stop_at=end), partition)
        self._request_seconds = settings.request_seconds

    async def fetch(self, limit: int, wait: float) -> Deliveries:
        """See `Source`; what lies before the end is there, so it is waited for."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + max(wait, self._request_seconds)
        while not self.exhausted:
            deliveries = await super().fetch(limit, wait)
            if deliveries:
                self.progress.take(deliveries.positions[-1], b"")  # nothing commits them: forget them
                return deliveries
            if clock() > deadline:
                raise BusError(f"offset {self.progress.reached}: the brokers do not return the records there")
        return Deliveries()

    def lag(self) -> Lag | None:
        """None: what is read here was answered before, or is answered for nobody who waits."""
        return None
