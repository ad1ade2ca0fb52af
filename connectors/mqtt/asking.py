"""Questions over MQTT, and their answers: what any asker does."""

import asyncio
import contextlib
from collections import deque
from typing import Final

from connectors.asking import Answered, Failed
from connectors.base import JSON
from connectors.mqtt.client import Connection
from connectors.mqtt.messages import Incoming, Outgoing
from connectors.mqtt.protocols import Receiver
from connectors.mqtt.reasons import ACCEPTED, name_of
from connectors.mqtt.settings import MqttSettings
from connectors.retry import Backoff
from oracle.errors import BusError, PerpetuaError, RefusedError

__all__ = ["MqttAsker"]

_NOBODY: Final = 0x10
"""The broker has accepted a message, and there is no subscription that it matches."""

_Sent = asyncio.Future[bool]


class MqttAsker(Receiver):
    """See `Asker`. Publishes at QoS 1, and nothing twice; a lost connection is made again, in the same session.

    Args:
        settings: Who connects, under an id of its own; the topic is that of the replies.
        queries: Where questions go.
    """

    def __init__(self, settings: MqttSettings, queries: str) -> None:
        self._settings, self._queries = settings, queries
        self._waiting: deque[tuple[Outgoing, _Sent]] = deque()
        self._in_flight: dict[int, _Sent] = {}
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    async def open(self, answered: Answered, failed: Failed) -> None:
        """See `Asker.open`."""
        self._answered = answered
        connection = await self._connected()
        self._task = asyncio.create_task(self._run(connection, failed))

    async def send(self, correlation: bytes, body: bytes) -> bool:
        """See `Asker.send`. Where the connection ends before the broker has accepted it, nobody knows."""
        sent: _Sent = asyncio.get_running_loop().create_future()
        self._waiting.append((Outgoing(self._queries, body, JSON, correlation), sent))
        self._news.set()
        return await sent

    async def close(self) -> None:
        """See `Asker.close`."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.leave(forget=True)

    def received(self, message: Incoming) -> None:
        """See `Receiver.received`."""
        if message.correlation is not None:
            self._answered(message.correlation, message.body)
        if message.qos and self._connection is not None:
            self._connection.acknowledge(message.mid)

    def published(self, mid: int, reason: int) -> None:
        """See `Receiver.published`."""
        sent = self._in_flight.pop(mid, None)
        self._news.set()
        if sent is None or sent.done():
            return
        topic = f"topic {self._queries}"
        if reason >= ACCEPTED:
            sent.set_exception(RefusedError(f"{topic}: the broker does not take the query ({name_of(reason)})"))
        elif reason == _NOBODY:
            text = "nobody is subscribed to it, so the query is lost; start `perpetua serve`"
            sent.set_exception(BusError(f"{topic}: {text}"))
        else:
            sent.set_result(True)

    async def _connected(self) -> Connection:
        self._connection = connection = Connection(self._settings, self)
        await connection.enter()
        try:
            await connection.subscribe_queries()
        except BaseException:
            self._connection = None
            await connection.leave(forget=True)
            raise
        connection.lost.add_done_callback(lambda _: self._news.set())
        return connection

    async def _run(self, connection: Connection, failed: Failed) -> None:
        """Publish over a connection until it is lost, and then over the next one."""
        backoff = Backoff()
        try:
            while True:
                began = asyncio.get_running_loop().time()
                await self._publish(connection)
                await connection.leave(gracefully=False)
                for sent in self._in_flight.values():
                    if not sent.done():
                        sent.set_result(False)
                self._in_flight.clear()
                while True:
                    await asyncio.sleep(backoff.pause(asyncio.get_running_loop().time() - began))
                    with contextlib.suppress(BusError):
                        connection = await self._connected()
                        break
        except PerpetuaError as exc:
            failed(exc)
        except Exception as exc:  # noqa: BLE001 -- the client's; an asker that is dead in silence waits for ever
            failed(BusError(f"broker: the client failed: {type(exc).__name__}"))

    async def _publish(self, connection: Connection) -> None:
        """Send what waits, so much at a time as the broker lets us, until the connection is lost."""
        while not connection.lost.done():
            self._news.clear()
            while self._waiting and len(self._in_flight) < connection.window:
                message, sent = self._waiting.popleft()
                if sent.done():  # cancelled before it left
                    continue
                try:
                    self._in_flight[connection.ask(message, self._settings.topic)] = sent
                except RefusedError as exc:
                    sent.set_exception(exc)
                except BusError:
                    sent.set_result(False)
                    return
            await self._news.wait()
