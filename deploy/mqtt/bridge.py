#!/usr/bin/env python3
"""Carries the ledger of a daemon on MQTT to a compacted Kafka topic: bridge.py BRIDGE.toml, on Perpetua's interpreter.

Every event that the MQTT broker has for us is on Kafka in the end, and equal events are one record there:

    1. the MQTT broker keeps events for our session until we acknowledge them, also while we are away;
    2. an event is written to Kafka, and all in-sync copies have it;
    3. only then is it acknowledged to the MQTT broker.

An end of anything between 2 and 3 brings the event again, and the daemon publishes some of its events again after a
crash, the very same bytes. The key is a digest of these bytes, so that a repetition replaces what it repeats.

Exit status: 0 stopped by a signal, 2 refused (the configuration, or a broker that does not let us), 4 a file
cannot be read or Kafka's topic does not take an event, 5 another client has taken our session over.
"""

import asyncio
import contextlib
import hashlib
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from connectors.kafka.client import close_quietly, make_sender, start
from connectors.kafka.errors import translated
from connectors.kafka.security import Security
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.topics import describe
from connectors.mqtt.client import Connection
from connectors.mqtt.messages import Incoming
from connectors.mqtt.protocols import Receiver
from connectors.mqtt.settings import MqttSettings
from connectors.retry import Backoff
from oracle.config import daemon as config
from oracle.config import mqtt as config_mqtt
from oracle.config.credentials import tls_of
from oracle.config.documents import read_toml
from oracle.errors import BusError, FencedError, InputError, PerpetuaError, RefusedError
from oracle.hosting.kafka_settings import sasl_of
from oracle.hosting.mqtt import broker_settings

REFUSED: Final = 2
UNSTORED: Final = 4
TAKEN_OVER: Final = 5

_MESSAGE_BYTES: Final = 65_536
"""Largest packet that is taken from MQTT; an event has less than a thousand bytes."""


class Bridge(BaseModel):
    """The configuration.

    Attributes:
        ledger: The MQTT topic: what the daemon has as `sink.ledger`.
        topic: The Kafka topic; it must be there, and compacted.
        mqtt: As the daemon's, with a `client_id` of the bridge's own.
        kafka: As that of a daemon on Kafka.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    ledger: config_mqtt.Topic
    topic: config.Topic
    mqtt: config_mqtt.MqttConfig
    kafka: config.KafkaConfig


def load(path: Path) -> Bridge:
    """Read a configuration.

    Raises:
        SourceError: The file cannot be read.
        InputError: It is not TOML, or a field is missing, unknown or outside its bound.
    """
    try:
        bridge = Bridge.model_validate(read_toml(path))
    except ValidationError as exc:
        error = exc.errors()[0]
        field = ".".join(map(str, error["loc"]))
        raise InputError(field, "...", error["msg"][0].lower() + error["msg"][1:]) from exc
    for field, table in (("mqtt.login", bridge.mqtt.login), ("kafka.sasl", bridge.kafka.sasl)):
        if table is not None and table.password is not None:
            raise InputError(f"{field}.password", "...", "secrets come from files: set password_file")
    if bridge.mqtt.client_id is None:
        raise InputError("mqtt.client_id", None, "must be set, and differ from the daemon's: the session hangs on it")
    return bridge


def mqtt_settings(bridge: Bridge) -> MqttSettings:
    """Return what the MQTT connector is told: the ledger is what is subscribed to.

    Raises:
        StorageError: A password file cannot be read.
    """
    mqtt = bridge.mqtt
    settings = broker_settings(mqtt, str(mqtt.client_id), topic=bridge.ledger, answers="")
    return replace(settings, session_seconds=mqtt.session_seconds, message_bytes=_MESSAGE_BYTES)


def kafka_settings(bridge: Bridge) -> KafkaSettings:
    """Return what the Kafka connector is told: one topic, and no group.

    Raises:
        InputError: There is a name and no password.
        StorageError: A password file cannot be read.
    """
    kafka = bridge.kafka
    return KafkaSettings(
        servers=tuple(kafka.servers),
        topic=bridge.topic,
        answers=bridge.topic,
        group="",
        model="",
        security=Security(tls_of(kafka.tls, "kafka.tls"), sasl_of(kafka.sasl)),
        request_seconds=kafka.request_seconds,
    )


class Inbox(Receiver):
    """What one connection has brought and nobody has taken out yet."""

    def __init__(self) -> None:
        self.stirred = asyncio.Event()
        self._waiting: list[Incoming] = []

    def received(self, message: Incoming) -> None:
        """Take an event in; the broker sends no more than `receive_maximum` ahead of our acknowledgements."""
        self._waiting.append(message)
        self.stirred.set()

    def passed_over(self, reason: str) -> None:
        """Say that a message was none that can be read, or of another topic; no event of a daemon's is such a one."""
        say(f"a message was passed over: {reason}")

    def take(self) -> list[Incoming]:
        """Return all that waits, in its order."""
        taken, self._waiting = self._waiting, []
        self.stirred.clear()
        return taken


def key_of(ledger: str, event: bytes) -> bytes:
    """Return the key of an event: the same for the same bytes of one ledger, and for no others."""
    return f"{ledger}/{hashlib.sha256(event).hexdigest()}".encode()


async def carry(bridge: Bridge) -> None:
    """Connect to both brokers and carry events until a connection is lost.

    Raises:
        RefusedError: A broker does not let us, or the topic is not compacted.
        BusError: A broker does not answer, or a connection was lost.
        FencedError: Another client has connected under our client id.
        StorageError: The topic does not take an event.
    """
    kafka = kafka_settings(bridge)
    await check_topic(kafka)
    producer = make_sender(kafka)
    try:
        await start(producer, kafka, f"topic {bridge.topic}")
        inbox = Inbox()
        connection = Connection(mqtt_settings(bridge), inbox)
        await connection.enter()
        connection.lost.add_done_callback(lambda _: inbox.stirred.set())
        try:
            if not connection.session_present:
                say("the MQTT broker had no session of ours: events from before now have not been kept for us")
            await connection.subscribe_queries()
            say("connected")
            await forward(bridge, connection, inbox, producer)
        finally:
            await connection.leave()
    finally:
        await close_quietly(producer)


async def check_topic(kafka: KafkaSettings) -> None:
    """Refuse a topic that would forget events, or is not there: brokers may make one that would.

    Raises:
        RefusedError: It does not fit.
        BusError: The brokers do not answer.
    """
    facts = (await describe(kafka)).get(kafka.topic)
    if facts is None:
        raise RefusedError(f"topic {kafka.topic}: it does not exist; create it, with cleanup.policy=compact")
    if facts.configs.get("cleanup.policy") != "compact":
        raise RefusedError(f"topic {kafka.topic}: cleanup.policy: must be compact, so that no event is ever deleted")


async def forward(bridge: Bridge, connection: Connection, inbox: Inbox, producer: Any) -> None:  # noqa: ANN401 -- aiokafka has no types
    """Write what comes to Kafka, then acknowledge it; see `carry` for what it raises."""
    while not connection.lost.done():
        batch = inbox.take()
        await write(bridge, [message.body for message in batch], producer)  # 2.
        for message in batch:
            if message.qos:
                connection.acknowledge(message.mid)  # 3.
        await inbox.stirred.wait()
    raise connection.lost.result()


async def write(bridge: Bridge, events: list[bytes], producer: Any) -> None:  # noqa: ANN401 -- as `forward`
    """Write events, and return when all in-sync copies have them; see `carry` for what it raises."""
    with translated(f"topic {bridge.topic}"):
        async with asyncio.timeout(2 * bridge.kafka.request_seconds):
            headers = [("content-type", b"application/json")]
            sent = [
                await producer.send(bridge.topic, event, key_of(bridge.ledger, event), headers=headers)
                for event in events
            ]
            if sent:
                await asyncio.wait(sent)
            for delivery in sent:
                delivery.result()


async def keep(bridge: Bridge) -> None:
    """Carry events for ever; a lost connection is made again, with pauses that grow.

    Raises:
        PerpetuaError: What waiting does not help against.
    """
    loop, backoff = asyncio.get_running_loop(), Backoff()
    while True:
        began = loop.time()
        try:
            await carry(bridge)
        except FencedError:
            raise
        except BusError as exc:
            say(str(exc))
        await asyncio.sleep(backoff.pause(loop.time() - began))


async def run(bridge: Bridge) -> None:
    """Carry events until SIGTERM or SIGINT; see `keep` for what it raises."""
    task = asyncio.create_task(keep(bridge))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def say(text: str) -> None:
    """Tell the operator; events are public, and nothing else passes here."""
    sys.stderr.write(f"bridge: {text}\n")


def main(arguments: list[str]) -> int:
    """Run with the arguments of a command line, and return the exit status."""
    if len(arguments) != 1:
        say("usage: bridge.py BRIDGE.toml")
        return REFUSED
    try:
        asyncio.run(run(load(Path(arguments[0]))))
    except PerpetuaError as exc:
        say(str(exc))
        if isinstance(exc, FencedError):
            return TAKEN_OVER
        return REFUSED if isinstance(exc, RefusedError) else UNSTORED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
