"""Sending queries and reading answers, as an asker would: for demonstrations."""

import asyncio
from collections.abc import Callable, Sequence

from connectors.base import JSON
from connectors.mqtt.client import Connection
from connectors.mqtt.messages import Incoming, Outgoing
from connectors.mqtt.protocols import Receiver
from connectors.mqtt.settings import MqttSettings
from oracle.errors import BusError

__all__ = ["hold_session", "read", "send"]


class _Traffic(Receiver):
    """Counts what the broker has accepted, and hands on what comes."""

    def __init__(self, on_message: Callable[[Incoming], None]) -> None:
        self._on_message = on_message
        self.in_flight = 0
        self.wakeup = asyncio.Event()

    def received(self, message: Incoming) -> None:
        self._on_message(message)

    def published(self, mid: int, reason: int) -> None:
        del mid, reason
        self.in_flight -= 1
        self.wakeup.set()


async def hold_session(settings: MqttSettings) -> None:
    """Make the broker keep a session for this client, subscribed to its topic, from now on.

    Raises:
        BusError: The broker does not answer.
        RefusedError: It does not let us in.
    """
    connection = Connection(settings, _Traffic(lambda _message: None))
    await connection.enter()
    await connection.subscribe_queries()
    await connection.leave()


async def send(settings: MqttSettings, bodies: Sequence[bytes]) -> None:
    """Publish JSON queries at QoS 1, in order, and wait until the broker has accepted all of them.

    Raises:
        BusError: The connection was lost.
        RefusedError: The broker does not let us in.
    """
    traffic = _Traffic(lambda _message: None)
    connection = Connection(settings, traffic)
    await connection.enter()
    connection.lost.add_done_callback(lambda _: traffic.wakeup.set())
    left = iter(bodies)
    body = next(left, None)
    while body is not None or traffic.in_flight:
        while body is not None and traffic.in_flight < connection.window:
            connection.send(Outgoing(settings.topic, body, JSON))
            traffic.in_flight += 1
            body = next(left, None)
        traffic.wakeup.clear()
        await traffic.wakeup.wait()
        if connection.lost.done():
            raise BusError(f"topic {settings.topic}: {connection.lost.result()}")
    await connection.leave()


async def read(settings: MqttSettings, take: Callable[[bytes], None]) -> None:
    """Hand over the body of all that comes on a session's topic until the connection is lost.

    Raises:
        BusError: The broker does not answer.
        RefusedError: It does not let us in.
    """

    def on_message(message: Incoming) -> None:
        take(message.body)
        if message.qos:
            connection.acknowledge(message.mid)

    connection = Connection(settings, _Traffic(on_message))
    await connection.enter()
    await connection.subscribe_queries()
    await connection.lost
    await connection.leave()
