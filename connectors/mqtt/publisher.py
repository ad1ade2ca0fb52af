"""Publishes the outbox over one connection, in order, and gives up what no broker takes."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final

from connectors.base import JSON
from connectors.mqtt.client import Connection
from connectors.mqtt.messages import Outgoing
from connectors.mqtt.outbox import Outbox, Publication
from connectors.mqtt.poison import PoisonDetector
from connectors.mqtt.protocols import Observer
from connectors.mqtt.reasons import ACCEPTED, QUOTA_EXCEEDED, Ending, closed_to_us, name_of, of_the_message
from connectors.mqtt.replies import status, undelivered
from connectors.mqtt.settings import RECEIVE_MAXIMUM_LIMIT
from oracle.errors import BusError, PerpetuaError, RefusedError

__all__ = ["Publisher"]

_QUIET: Final = 0.05
"""Seconds without news after which it is made durable what the broker has accepted; under load, commits say it."""

_DRAIN: Final = 5.0


class Publisher:
    """What is sent over a connection and not yet accepted.

    Args:
        connection: Entered.
        outbox: Open.

    Attributes:
        trouble: What ends the connection, though it stands.
        progress: Whether something was given up over this connection: the next one need not wait.
    """

    def __init__(
        self,
        connection: Connection,
        outbox: Outbox,
        poison: PoisonDetector,
        observer: Observer,
        fail: Callable[[PerpetuaError], None],
    ) -> None:
        self._settings = connection.settings
        self._connection = connection
        self._outbox = outbox
        self._poison = poison
        self._observer = observer
        self._fail = fail
        self._in_flight: dict[int, Publication | None] = {}
        self._refused: deque[tuple[Publication, str]] = deque()
        self._closing = False
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self.trouble: BusError | None = None
        self.progress = False

    def send_status(self, *, online: bool) -> None:
        """Send the status message, if there is a topic for it.

        Raises:
            BusError: The connection is gone.
        """
        if self._settings.status is not None:
            self._in_flight[self._connection.send_status(status(self._settings, online=online))] = None

    def published(self, mid: int, reason: int) -> None:
        """See `Receiver.published`."""
        if mid not in self._in_flight:
            return
        publication = self._in_flight[mid]
        if reason >= ACCEPTED:
            self._on_refused(mid, publication, reason)
        else:
            del self._in_flight[mid]
            if publication is not None:
                self._poison.accepted(publication)
                self._outbox.published(publication)
        self._outbox.wake()

    def check(self) -> None:
        """Raise what ends the connection.

        Raises:
            BusError: It is lost, or of no use.
        """
        if self.trouble is not None:
            raise self.trouble
        if self._connection.lost.done():
            raise self._connection.lost.result()

    def _on_refused(self, mid: int, publication: Publication | None, reason: int) -> None:
        """Decide on a refused message: nobody's fault, the operator's, its own, or perhaps the broker's."""
        name = name_of(reason)
        if reason == QUOTA_EXCEEDED:
            self.trouble = BusError(f"broker: {name}")
        elif (
            publication is None
            or not self._may_give_up(publication)
            or (publication.message.ours and closed_to_us(reason))
        ):
            topic = self._settings.status if publication is None else publication.message.topic
            self._fail(RefusedError(f"topic {topic}: the broker refuses our messages: {name}"))
        elif closed_to_us(reason) or of_the_message(reason):
            del self._in_flight[mid]
            self._refused.append((publication, f"answer refused: {name}"))
        else:
            self._poison.refused(publication)
            self.trouble = BusError(f"broker: refuses an answer: {name}")

    def _may_give_up(self, publication: Publication) -> bool:
        """Return whether a message has something in it that an asker chose; ledger events have not."""
        return publication.message.topic != self._settings.ledger

    async def run(self) -> None:
        """Publish until the connection ends, so much at a time as the broker and suspicion let us.

        Raises:
            StorageError: The outbox could not be written.
        """
        while not (self._closing or self._connection.lost.done() or self.trouble):
            while self._refused:
                await self._give_up(*self._refused[0])
                self._refused.popleft()
            try:
                wait = await self._send()
            except BusError:
                return
            if self._refused:
                continue  # refused while a note was written
            try:
                async with asyncio.timeout(_QUIET if self._outbox.progress_unsaved else wait):
                    await self._outbox.wait()
            except TimeoutError:
                await self._outbox.save_progress()

    async def _send(self) -> float | None:
        """Send what may go out now; return how many seconds the next one is to wait, None if not for the time."""
        queue, window = self._outbox.queue, min(self._connection.window, RECEIVE_MAXIMUM_LIMIT)
        while queue and len(self._in_flight) < (1 if self._poison.one_by_one else window):
            publication, now = queue[0], self._clock()
            may_give_up = self._may_give_up(publication)
            reason = self._poison.verdict(publication, now) if may_give_up else None
            if reason is None:
                wait = self._began + self._poison.uptime_for(publication) - now
                if wait > 0:
                    return wait
                try:
                    self._in_flight[self._connection.send(publication.message)] = publication
                except RefusedError as exc:
                    if not may_give_up:
                        self._fail(exc)
                        return None
                    reason = "answer cannot be sent"
            queue.popleft()
            if reason is not None:
                await self._give_up(publication, reason)
        return None

    async def _give_up(self, publication: Publication, reason: str) -> None:
        """Make it durable that an answer is lost, to all but a note of it, and go on without it."""
        message = publication.message
        if self._settings.dead_letter not in {None, message.topic}:
            note = undelivered(len(message.body), publication.position, self._settings.topic)
            await self._outbox.add([Outgoing(self._settings.dead_letter or "", note, JSON)])
        self._poison.removed(publication)
        self._outbox.published(publication)
        self.progress = True
        self._observer.given_up(reason)

    async def end(self, publishing: "asyncio.Task[None]", *, drain: bool) -> None:
        """Let it go on for a while if we are to stop (`drain`), and say that we are gone; then end it.

        It is never cancelled: it may be writing to the outbox.

        Raises:
            PerpetuaError: What it has failed with.
        """
        publishing.add_done_callback(lambda _: self._outbox.wake())
        if drain:
            with contextlib.suppress(TimeoutError, BusError):
                async with asyncio.timeout(_DRAIN):
                    while not self._outbox.settled and not publishing.done():
                        await self._outbox.wait()
                    self.send_status(online=False)
                    while self._in_flight and not publishing.done():
                        await self._outbox.wait()
        self._closing = True
        self._outbox.wake()
        await asyncio.wait({publishing})
        publishing.result()

    def ended(self, ending: Ending) -> None:
        """The connection is over: what the broker has not accepted goes first over the next one."""
        left = [publication for publication in self._in_flight.values() if publication is not None]
        nearer = self._poison.connection_ended(left, ending, status_too=len(left) < len(self._in_flight))
        self.progress = self.progress or nearer
        self._outbox.requeue([*(publication for publication, _ in self._refused), *left])
        self._refused.clear()
        self._in_flight.clear()
