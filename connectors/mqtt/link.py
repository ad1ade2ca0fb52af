"""The link to the broker: keeps a connection, journals what comes before it is acknowledged, publishes the outbox.

The order in which things happen to a query, and why an end of anything between two of them is harmless:

    1. it is journalled and fsynced;
    2. it is acknowledged to the broker;
    3. it is answered, and the answer is durable in the outbox together with the position behind the query;
    4. the answer is published, and
    5. acknowledged by the broker.

Before 1 the broker sends the query again. Between 1 and 2 it does too, marked DUP, and `Redeliveries` knows it. Between
2 and 3 the journal has it. Between 3 and 5 the outbox publishes the answer again, the very same bytes.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final

from connectors.base import Lag
from connectors.journal.journal import Journal
from connectors.mqtt.client import Connection
from connectors.mqtt.messages import Incoming, SessionBegan, pack, stored
from connectors.mqtt.outbox import Outbox
from connectors.mqtt.poison import PoisonDetector
from connectors.mqtt.protocols import Observer, Receiver
from connectors.mqtt.publisher import Publisher
from connectors.mqtt.reasons import Ending
from connectors.mqtt.redeliveries import Redeliveries
from connectors.mqtt.replies import status
from connectors.mqtt.settings import RECEIVE_MAXIMUM_LIMIT, MqttSettings
from connectors.retry import Backoff
from oracle.errors import BusError, FencedError, PerpetuaError, RefusedError, StorageError

__all__ = ["Link"]

_FULL_SECONDS: Final = 0.2
_SHORT_SECONDS: Final = 30.0
_MOST_SHORT: Final = 4
_MOST_BYTES: Final = 32 << 20
"""Bytes received and not yet journalled, properties too, above which no more is read from the connection."""

_MOST_MESSAGES: Final = 4096
"""Most messages that are journalled, and then acknowledged, together: far fewer than `Redeliveries` remembers."""


class Link(Receiver):
    """One model's connection, made again whenever it is lost. Use from one event loop.

    Args:
        journal: Of the queries; open while the link is begun.
        outbox: Open while the link is begun.
        reload: Returns the settings with the login as it is on disk now: passwords are changed while we run.
    """

    def __init__(
        self,
        settings: MqttSettings,
        journal: Journal,
        outbox: Outbox,
        observer: Observer,
        reload: Callable[[], MqttSettings] | None = None,
    ) -> None:
        self._settings = settings
        self._reload = reload or (lambda: settings)
        self._journal = journal
        self._outbox = outbox
        self._observer = observer
        self._redeliveries = Redeliveries()
        self._order = asyncio.Lock()  # of what is journalled and what is remembered of it
        self._incoming: deque[Incoming] = deque()
        self._incoming_bytes = 0
        self._connection: Connection | None = None
        self._publisher: Publisher | None = None
        self._poison = PoisonDetector()
        self._ever_connected = self._connected = False
        self._short_connections = 0
        self._wakeup = asyncio.Event()
        self._stopping = asyncio.Event()
        self._failed: PerpetuaError | None = None
        self._full = False
        self._notify: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None

    def begin(self, notify: Callable[[], None]) -> None:
        """Begin to connect; `notify` is called whenever the journal has grown, and when the link has failed."""
        self._notify, self._failed = notify, None
        self._stopping.clear()
        self._task = asyncio.create_task(self._run())

    def check(self) -> None:
        """Raise what has ended the link for good.

        Raises:
            RefusedError: The broker does not let us in, or refuses what we publish on a topic of our own.
            FencedError: Another client has taken our place.
            StorageError: The journal could not be written.
        """
        if self._failed is not None:
            raise self._failed

    def lag(self) -> Lag:
        """Return how many journalled queries are not answered."""
        last = self._outbox.last
        left = max(self._redeliveries.newest - (last.position if last else 0), 0)
        return Lag(left, None if left else 0.0)

    def wake(self) -> None:
        """Say that the journal may have room again."""
        self._wakeup.set()

    async def remember(self) -> None:
        """Journal what is remembered of the newest queries, so that they themselves may be dropped.

        It waits until all is remembered that the journal holds: a record of a part would stand in for the whole.

        Raises:
            StorageError: It could not be written.
            PerpetuaError: See `check`.
        """
        async with self._order:
            self.check()
            await asyncio.to_thread(self._journal.append, [pack(self._redeliveries.recent())])

    async def end(self) -> None:
        """Take nothing more, give what is in the outbox a few seconds to be published, and disconnect."""
        self._stopping.set()
        self._wakeup.set()
        self._outbox.wake()
        task, self._task = self._task, None
        if task is not None:
            await asyncio.wait({task})

    def received(self, message: Incoming) -> None:
        """See `Receiver.received`. What comes at QoS 0 faster than it can be journalled is dropped."""
        if message.qos == 0 and len(self._incoming) >= RECEIVE_MAXIMUM_LIMIT:
            self._observer.noted("dropped at QoS 0")
            return
        self._incoming.append(message)
        self._incoming_bytes += message.size
        if self._incoming_bytes > _MOST_BYTES and self._connection is not None:
            self._connection.pause()
        self._wakeup.set()

    def passed_over(self, reason: str) -> None:
        """See `Receiver.passed_over`."""
        self._observer.noted(reason)

    def published(self, mid: int, reason: int) -> None:
        """See `Receiver.published`."""
        if self._publisher is not None:
            self._publisher.published(mid, reason)
            if self._publisher.trouble is not None:
                self._wakeup.set()

    def _fail(self, error: PerpetuaError) -> None:
        self._failed = self._failed or error
        self._wakeup.set()
        self._outbox.wake()
        self._notify()

    async def _run(self) -> None:
        backoff = Backoff()
        try:
            async with self._order:
                await asyncio.to_thread(self._redeliveries.restore, self._journal)
            while not self._stopping.is_set():
                began = asyncio.get_running_loop().time()
                try:
                    await self._connect_once()
                except FencedError:
                    raise
                except RefusedError as exc:
                    if self._failed is not None or not self._ever_connected:
                        raise  # it has never worked: the configuration's fault, to be mended before anything else
                    self._observer.refused(exc)
                except BusError as exc:
                    self._observer.lost(self._explained(exc, asyncio.get_running_loop().time() - began))
                except PerpetuaError:
                    raise
                except Exception as exc:  # noqa: BLE001 -- the client's; a link that is dead in silence is the worst
                    self._observer.lost(BusError(f"broker: the client failed: {type(exc).__name__}"))
                if self._publisher is not None and self._publisher.progress:
                    backoff.reset()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(backoff.pause(asyncio.get_running_loop().time() - began)):
                        await self._stopping.wait()
        except PerpetuaError as exc:
            self._fail(exc)

    def _explained(self, error: BusError, seconds: float) -> BusError:
        """Say of connections that end soon after they let us in what it may be: some brokers do not say it."""
        self._short_connections = self._short_connections + 1 if self._connected and seconds < _SHORT_SECONDS else 0
        if self._short_connections < _MOST_SHORT:
            return error
        return BusError(
            f"{error}, {self._short_connections} times in a row soon after connecting; check the network, the broker, "
            f"and that no other client uses mqtt.client_id = {self._settings.client_id!r}: each state needs its own"
        )

    async def _connect_once(self) -> None:
        """Connect, and serve the connection until it is lost or we are to stop."""
        self._connected = False
        self._incoming.clear()  # the broker sends again what was not acknowledged
        self._incoming_bytes = 0
        self._publisher = None
        let_in = False
        try:
            self._connection = connection = await self._new_connection()
            await connection.enter()
            let_in = True
        finally:
            self._poison.connection_tried(let_in=let_in)
        publisher = Publisher(connection, self._outbox, self._poison, self._observer, self._fail)
        self._publisher = publisher
        connection.lost.add_done_callback(lambda _: self._on_lost())
        gracefully = False
        try:
            await self._begin_session(connection, publisher)
            publishing = asyncio.create_task(publisher.run())
            try:
                await self._store(connection, publisher)
            finally:
                await self._end_publishing(connection, publisher, publishing)
            gracefully = self._outbox.settled
        finally:
            ending = connection.ending if connection.lost.done() else Ending.ELSEWHERE
            await connection.leave(gracefully=gracefully)
            publisher.ended(ending)

    async def _new_connection(self) -> Connection:
        """Return a connection with the login, and the files of TLS, as they are now."""
        try:
            settings = await asyncio.to_thread(self._reload)
            return Connection(settings, self, status(settings, online=False))
        except StorageError as exc:
            if not self._ever_connected:
                raise
            raise RefusedError(str(exc)) from exc

    def _on_lost(self) -> None:
        self._wakeup.set()
        self._outbox.wake()

    async def _begin_session(self, connection: Connection, publisher: Publisher) -> None:
        """Go on with the session that the broker has kept, or begin one, and make that known before all else."""
        if not connection.session_present:
            if self._journal.end > 0:
                self._observer.noted("the broker had no session of ours")
            async with self._order:
                self._redeliveries.forget()
                await asyncio.to_thread(self._journal.append, [pack(SessionBegan())])
        self._redeliveries.connected()
        await connection.subscribe_queries()
        publisher.send_status(online=True)
        self._ever_connected = self._connected = True
        self._observer.connected()

    async def _store(self, connection: Connection, publisher: Publisher) -> None:
        """Journal what comes, then acknowledge it; while the journal is full, do neither."""
        while not self._stopping.is_set():
            self.check()
            publisher.check()
            self._wakeup.clear()
            if not self._incoming:
                await self._wakeup.wait()
                continue
            if self._is_full():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_FULL_SECONDS):
                        await self._wakeup.wait()
                continue
            batch = self._next_batch()
            fresh = [stored(message, self._settings) for message in batch if not self._redeliveries.holds(message)]
            if fresh:
                async with self._order:
                    end = await asyncio.to_thread(self._journal.append, [pack(query) for query in fresh])  # 1.
                    self._redeliveries.newest = end
                    for query in fresh:
                        self._redeliveries.add(query)
                self._notify()
            if self._incoming_bytes <= _MOST_BYTES:
                connection.resume()
            for message in batch:
                if message.qos:
                    connection.acknowledge(message.mid)  # 2.

    def _next_batch(self) -> list[Incoming]:
        """Return what is to be journalled together: about as much as one segment holds, so that segments can go."""
        batch: list[Incoming] = []
        size = 0
        while self._incoming and size < self._journal.segment_bytes and len(batch) < _MOST_MESSAGES:
            batch.append(self._incoming.popleft())
            size += batch[-1].size
        self._incoming_bytes -= size
        return batch

    def _is_full(self) -> bool:
        full = self._journal.full
        if full and not self._full:
            self._observer.noted("journal full, taking nothing until a snapshot is past it")
        self._full = full
        return full

    async def _end_publishing(
        self, connection: Connection, publisher: Publisher, publishing: "asyncio.Task[None]"
    ) -> None:
        drain = self._stopping.is_set() and not connection.lost.done() and self._failed is None
        try:
            await publisher.end(publishing, drain=drain)
        except PerpetuaError as exc:
            self._fail(exc)
        if self._stopping.is_set():
            await self._outbox.save_progress()
