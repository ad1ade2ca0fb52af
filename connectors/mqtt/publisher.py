"""Publishes the outbox over one connection after another, in order, and gives up what no broker takes."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final

from connectors.base import JSON
from connectors.mqtt.client import Connection
from connectors.mqtt.messages import Outgoing
from connectors.mqtt.observer import Observer
from connectors.mqtt.outbox import Outbox, Publication
from connectors.mqtt.reach import Reach
from connectors.mqtt.reasons import ACCEPTED, QUOTA_EXCEEDED, Ending, closed_to_us, of_the_message, words
from connectors.mqtt.replies import status, undelivered
from connectors.mqtt.settings import RECEIVE_MAXIMUM_LIMIT, MqttSettings
from connectors.mqtt.suspects import Suspects
from oracle.errors import BusError, PerpetuaError, RefusedError

__all__ = ["Publisher"]

_QUIET: Final = 0.05
"""Seconds without news after which it is made durable what the broker has taken over; under load, commits say it."""

_DRAIN: Final = 5.0


class Publisher:
    """What is sent and not yet taken over, on one connection at a time.

    Args:
        settings: The broker and the topics.
        outbox: Open.
        observer: Who is told.
        fail: Told of what ends the link for good.

    Attributes:
        trouble: What ends the connection, though it stands.
        progress: Whether something was given up over this connection, or a suspect is nearly found: the next one need
            not wait.
    """

    def __init__(
        self, settings: MqttSettings, outbox: Outbox, observer: Observer, fail: Callable[[PerpetuaError], None]
    ) -> None:
        self._settings = settings
        self._outbox = outbox
        self._observer = observer
        self._fail = fail
        self._suspects = Suspects()
        self._reach = Reach()
        self._under_way: dict[int, Publication | None] = {}
        self._given_up: deque[tuple[Publication, str]] = deque()
        self._connection: Connection | None = None
        self._closing = False
        self._began = 0.0
        self.trouble: BusError | None = None
        self.progress = False

    def entering(self) -> None:
        """A connection is tried."""
        self._closing, self.trouble, self.progress = False, None, False
        self._under_way.clear()

    def let_in(self, connection: Connection | None) -> None:
        """The broker has let us in; None: it has not."""
        self._connection = connection
        self._suspects.let_in(at_once=connection is not None)

    def tell(self, *, online: bool) -> None:
        """Send the status message, if there is a topic for it.

        Raises:
            BusError: The connection is gone.
        """
        if self._settings.status is not None and self._connection is not None:
            self._under_way[self._connection.send_status(status(self._settings, online=online))] = None

    def published(self, mid: int, reason: int) -> None:
        """See `Receiver.published`."""
        if mid not in self._under_way:
            return
        parcel = self._under_way[mid]
        if reason < ACCEPTED:
            del self._under_way[mid]
            if parcel is not None:
                self._gone(parcel)
                if not parcel.message.ours:
                    self._reach.taken(parcel.message.topic)
        else:
            self._refused(mid, parcel, reason)
        self._outbox.wake()

    def _refused(self, mid: int, parcel: Publication | None, reason: int) -> None:
        """Decide on a refused message: nobody's fault, the operator's, its own, or perhaps the broker's."""
        told = words(reason)
        if reason == QUOTA_EXCEEDED:
            self.trouble = BusError(f"broker: {told}")
        elif parcel is None or not self._may_be_given_up(parcel) or (parcel.message.ours and closed_to_us(reason)):
            topic = self._settings.status if parcel is None else parcel.message.topic
            self._fail(RefusedError(f"topic {topic}: the broker does not let us publish: {told}"))
        elif closed_to_us(reason) or of_the_message(reason):
            del self._under_way[mid]
            self._given_up.append((parcel, f"answer refused: {told}"))
        else:
            self._suspects.refused(parcel)
            self.trouble = BusError(f"broker: it refuses an answer: {told}")

    def _may_be_given_up(self, parcel: Publication) -> bool:
        """Return whether a message has something in it that an asker chose; ledger events have not."""
        return parcel.message.topic != self._settings.ledger

    async def run(self, connection: Connection) -> None:
        """Publish until the connection ends, so much at a time as the broker and suspicion let us.

        Raises:
            StorageError: The outbox could not be written.
        """
        self._began = asyncio.get_running_loop().time()
        while not (self._closing or connection.lost.done() or self.trouble):
            await self._give_up_refused()
            try:
                wait = await self._send(connection)
            except BusError:
                return
            if self._given_up:
                continue  # refused while a note was written
            try:
                async with asyncio.timeout(_QUIET if self._outbox.unsaid else wait):
                    await self._outbox.wait()
            except TimeoutError:
                await self._outbox.remember()

    async def _send(self, connection: Connection) -> float | None:
        """Send what may go out now; return how many seconds the next one is to wait, None if not for the time.

        Raises:
            BusError: The connection is gone.
        """
        queue, window = self._outbox.queue, min(connection.window, RECEIVE_MAXIMUM_LIMIT)
        while queue and len(self._under_way) < (1 if self._suspects.alone else window):
            parcel, now = queue[0], asyncio.get_running_loop().time()
            if not parcel.message.ours and self._reach.beyond(parcel.message.topic, now):
                queue.popleft()
                await self._give_up(parcel, "answer given up: topics so deep or long end the connection")
                continue
            if self._suspects.guilty(parcel) and self._may_be_given_up(parcel):
                queue.popleft()
                if not parcel.message.ours:
                    self._reach.ended(parcel.message.topic, now)
                await self._give_up(parcel, "answer given up: its publication ends the connection")
                continue
            left = self._began + self._suspects.patience(parcel) - now
            if left > 0:
                return left
            try:
                mid = connection.send(parcel.message)
            except RefusedError as exc:
                queue.popleft()
                if not self._may_be_given_up(parcel):
                    self._fail(exc)
                    return None
                await self._give_up(parcel, "answer cannot be sent")
                continue
            queue.popleft()
            self._under_way[mid] = parcel
        return None

    async def _give_up_refused(self) -> None:
        while self._given_up:
            await self._give_up(*self._given_up[0])
            self._given_up.popleft()

    async def _give_up(self, parcel: Publication, reason: str) -> None:
        """Make it durable that an answer is lost, to all but a note of it, and go on without it."""
        message = parcel.message
        if self._settings.dead_letter not in {None, message.topic}:
            note = undelivered(len(message.body), parcel.position, self._settings.topic)
            await self._outbox.add([Outgoing(self._settings.dead_letter or "", note, JSON)])
        self._gone(parcel)
        self.progress = True
        self._observer.given_up(reason)

    def _gone(self, parcel: Publication) -> None:
        self._suspects.gone(parcel)
        self._outbox.published(parcel)

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
                    self.tell(online=False)
                    while self._under_way and not publishing.done():
                        await self._outbox.wait()
        self._closing = True
        self._outbox.wake()
        await asyncio.wait({publishing})
        publishing.result()

    def ended(self, ending: Ending) -> None:
        """The connection is over: what the broker has not taken over goes first over the next one."""
        left = [parcel for parcel in self._under_way.values() if parcel is not None]
        nearer = self._suspects.ended(left, ending, beside=len(left) < len(self._under_way))
        self.progress = self.progress or nearer
        self._outbox.return_first([*(parcel for parcel, _ in self._given_up), *left])
        self._given_up.clear()
        self._under_way.clear()
