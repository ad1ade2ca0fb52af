"""One model's query topic as a `Source`: what the journal holds. A position is a record's number in it."""

import asyncio
from collections.abc import Sequence
from typing import Final

from connectors.base import Delivery, Lag
from connectors.journal.journal import Journal
from connectors.journal.source import JournalSource
from connectors.mqtt.link import Link
from connectors.mqtt.messages import delivery

__all__ = ["MqttSource"]

_SLICE: Final = 0.2


class MqttSource:
    """Reads the journal that the link writes. Delivery guarantee: replayable while the journal keeps the records.

    What was published at QoS 1 or 2 and reached our session at the broker is journalled, once or more often: MQTT has
    no way to tell a publisher's own repetition from a second query. What the broker repeats to us is journalled once.
    What was published at QoS 0 may be lost.

    Args:
        journal: Of the queries, not yet open.
        link: Not yet begun; begins when the source is open.
    """

    def __init__(self, journal: Journal, link: Link) -> None:
        self._journal = journal
        self._link = link
        self._source = JournalSource(journal, delivery, live=True)
        self._pressed_from = 0

    @property
    def exhausted(self) -> bool:
        """See `connectors.base.Source.exhausted`."""
        return False

    async def open(self, position: int | None) -> None:
        """See `connectors.base.Source.open`. It does not wait for the broker.

        Raises:
            SourceError: The records behind `position` were dropped, or have never been there.
            StorageError: The journal is damaged, held by another process, or cannot be opened.
            WrongKeyError: It belongs to another state.
        """
        await self.close()
        await asyncio.to_thread(self._journal.open)
        await self._source.open(position)
        self._pressed_from = 0
        self._link.begin(self._source.notify)

    async def fetch(self, limit: int, wait: float) -> Sequence[Delivery]:
        """See `connectors.base.Source.fetch`.

        Raises:
            SourceError: The source is not open.
            StorageError: The journal is damaged, or could not be written.
            RefusedError: The broker does not let us in, or refuses what we publish on a topic of our own.
            FencedError: Another client has taken our place.
        """
        self._link.check()
        found = await self._source.fetch(limit, min(wait, _SLICE))
        while not found and wait > _SLICE:
            self._link.check()
            wait -= _SLICE
            found = await self._source.fetch(limit, min(wait, _SLICE))
        return found

    def lag(self) -> Lag | None:
        """See `connectors.base.Source.lag`: what is journalled and not answered; what the broker holds is not known."""
        return self._link.lag() if self._source.lag() is not None else None

    @property
    def pressed(self) -> bool:
        """Whether the journal has grown so far that a snapshot should be taken, so that it can shrink."""
        limit = self._journal.limit
        return self._journal.size >= min(max(limit // 2, self._pressed_from), limit)

    async def forget(self, position: int) -> None:
        """Drop what no restart needs: records up to a snapshot's position; what they were is kept for redeliveries.

        Raises:
            StorageError: It could not be dropped, or the rest not be written.
        """
        if self._journal.droppable(position):
            await self._link.remember()
            self._journal.forget(position)
            self._link.wake()
        self._pressed_from = self._journal.size + self._journal.limit // 8

    async def close(self) -> None:
        """See `connectors.base.Source.close`. Ends the connection, and publishes before that what is there to be."""
        await self._link.end()
        await self._source.close()
        await asyncio.to_thread(self._journal.close)
