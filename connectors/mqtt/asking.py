"""One query over MQTT, and its answer: what any asker does."""

import asyncio
import secrets
from typing import Any, Final

from connectors.base import JSON
from connectors.mqtt.client import Connection
from connectors.mqtt.messages import Incoming, Outgoing
from connectors.mqtt.protocols import Receiver
from connectors.mqtt.reasons import ACCEPTED, name_of
from connectors.mqtt.settings import MqttSettings
from oracle.errors import BusError, RefusedError

__all__ = ["ask"]

_NOBODY: Final = 0x10
"""The broker has accepted a message, and there is no subscription that it matches."""


class _Asker(Receiver):
    """Waits for the message with our correlation data."""

    def __init__(self, correlation: bytes) -> None:
        self._correlation = correlation
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[bytes] = loop.create_future()
        self.accepted: asyncio.Future[int] = loop.create_future()

    def received(self, message: Incoming) -> None:
        if message.correlation == self._correlation and not self.answer.done():
            self.answer.set_result(message.body)

    def published(self, mid: int, reason: int) -> None:
        del mid
        self.accepted.set_result(reason)


async def ask(settings: MqttSettings, queries: str, body: bytes) -> bytes:
    """Publish one JSON query and return its answer, which comes on the settings' topic; it waits without an end.

    Raises:
        BusError: The broker does not answer, or nobody is subscribed to the queries.
        RefusedError: It does not let us in, or does not take the query.
    """
    correlation = secrets.token_bytes(16)
    asker = _Asker(correlation)
    connection = Connection(settings, asker, probe=True)
    await connection.enter()
    try:
        await connection.subscribe_queries()
        connection.ask(Outgoing(queries, body, JSON, correlation), settings.topic)
        await _first(asker.accepted, connection.lost)
        reason = asker.accepted.result()
        if reason >= ACCEPTED:
            raise RefusedError(f"topic {queries}: the broker does not take the query ({name_of(reason)})")
        if reason == _NOBODY:
            raise BusError(f"topic {queries}: nobody is subscribed to it, so the query is lost; start `perpetua serve`")
        await _first(asker.answer, connection.lost)
        return asker.answer.result()
    finally:
        await connection.leave()


async def _first(wanted: "asyncio.Future[bytes] | asyncio.Future[int]", lost: asyncio.Future[BusError]) -> None:
    waiting: set[asyncio.Future[Any]] = {wanted, lost}
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if not wanted.done():
        raise lost.result()
