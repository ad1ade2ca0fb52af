"""One model's query topic as a `Source`: what the journal holds. A position is a record's number in it."""

import asyncio
from functools import partial

from connectors.base import Lag
from connectors.events import AnswerIds
from connectors.journal.journal import Journal
from connectors.journal.source import JournalSource
from connectors.mqtt.link import Link
from connectors.mqtt.messages import delivery

__all__ = ["MqttSource"]


class MqttSource(JournalSource):
    """Reads the journal that the link writes. Delivery guarantee: replayable while the journal keeps the records.

    What was published at QoS 1 or 2 and reached our session at the broker is journalled, once or more often: MQTT has
    no way to tell a publisher's own repetition from a second query. What the broker repeats to us is journalled once.
    What was published at QoS 0 may be lost.

    Args:
        journal: Of the queries, not yet open.
        link: Not yet begun; begins when the source is open.
        answer_ids: Of the answers to events.
    """

    def __init__(self, journal: Journal, link: Link, answer_ids: AnswerIds) -> None:
        super().__init__(journal, partial(delivery, answer_ids=answer_ids), live=True, check=link.check)
        self._link = link
        self._pressed_from = 0

    async def open(self, position: int | None) -> None:
        """See `Source.open`, and `Journal.open` for its errors. It does not wait for the broker."""
        await self.close()
        await asyncio.to_thread(self._journal.open)
        await super().open(position)
        self._pressed_from = 0
        self._link.begin(self.notify)

    def lag(self) -> Lag | None:
        """See `Source.lag`: what is journalled and not answered; what the broker holds is not known."""
        return self._link.lag() if self._reader is not None else None

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
        """See `Source.close`. Ends the connection, and publishes before that what is there to be."""
        await self._link.end()
        await self._stop_reading()
        await asyncio.to_thread(self._journal.close)
