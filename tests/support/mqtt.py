"""One model on a real MQTT broker: its state, its daemons as processes, its askers, and what they are answered."""

import contextlib
import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from oracle.planning.plan import Plan
from tests.support.folders import command, long_plan, make_state
from tests.support.mosquitto import Mosquitto
from tests.support.served import Served
from tests.support.waiting import TIMEOUT, eventually

_numbers = itertools.count()


@dataclass(frozen=True)
class Heard:
    """One message that came."""

    topic: str
    body: bytes
    content_type: str
    correlation: bytes | None
    user: tuple[tuple[str, str], ...]
    expiry: int | None
    retained: bool

    @property
    def json(self) -> Any:
        """Its body, decoded."""
        return msgspec.json.decode(self.body)


class Asker:
    """A client with a persistent session: publishes queries, and keeps what comes on the topics it listens to.

    Args:
        server: The broker, "host:port".
        topics: Topic filters to listen to.
        name: Its client id.
        prepare: Called with paho's client before it connects (TLS, password).
    """

    def __init__(
        self,
        server: str,
        topics: Sequence[str] = (),
        name: str | None = None,
        prepare: Callable[[paho.Client], object] = lambda _client: None,
    ) -> None:
        self.name = name or f"asker-{next(_numbers)}"
        self.heard: list[Heard] = []
        self.taken: set[int] = set()
        self.refused: dict[int, int] = {}
        self._topics = list(topics)
        self._listens = threading.Event()
        host, _, port = server.rpartition(":")
        self._client = paho.Client(CallbackAPIVersion.VERSION2, client_id=self.name, protocol=paho.MQTTv5)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = lambda *_: self._listens.set()
        self._client.on_message = self._on_message
        self._client.on_publish = self._on_publish
        self._client.max_inflight_messages_set(20)
        self._client.reconnect_delay_set(1, 1)
        prepare(self._client)
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3600
        self._client.connect(host, int(port), keepalive=10, clean_start=False, properties=properties)
        self._client.loop_start()
        if topics:
            assert self._listens.wait(TIMEOUT)

    def _on_connect(self, client: paho.Client, *_: Any) -> None:
        options = SubscribeOptions(qos=1, retainAsPublished=True)
        if self._topics:
            client.subscribe([(topic, options) for topic in self._topics])

    def _on_message(self, _client: paho.Client, _userdata: Any, message: paho.MQTTMessage) -> None:
        given = message.properties
        self.heard.append(
            Heard(
                message.topic,
                bytes(message.payload),
                getattr(given, "ContentType", ""),
                getattr(given, "CorrelationData", None),
                tuple(getattr(given, "UserProperty", ())),
                getattr(given, "MessageExpiryInterval", None),
                message.retain,
            )
        )

    def _on_publish(self, _client: paho.Client, _userdata: Any, mid: int, reason: Any, *_: Any) -> None:
        if reason.value >= 128:
            self.refused[mid] = reason.value
        self.taken.add(mid)

    def ask(  # noqa: PLR0913 -- what an MQTT publisher can say
        self,
        topic: str,
        body: bytes,
        *,
        qos: int = 1,
        retain: bool = False,
        content_type: str | None = None,
        reply: str | None = None,
        correlation: bytes | None = None,
        user: Sequence[tuple[str, str]] = (),
        expiry: int | None = None,
    ) -> int:
        """Publish a query, and return its packet id."""
        properties = Properties(PacketTypes.PUBLISH)
        if content_type is not None:
            properties.ContentType = content_type
        if reply is not None:
            properties.ResponseTopic = reply
        if correlation is not None:
            properties.CorrelationData = correlation
        if user:
            properties.UserProperty = list(user)
        if expiry is not None:
            properties.MessageExpiryInterval = expiry
        return self._client.publish(topic, body, qos, retain, properties).mid

    def on(self, topic: str) -> list[Heard]:
        """Return what came on a topic."""
        return [heard for heard in list(self.heard) if heard.topic == topic]

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        with contextlib.suppress(AttributeError):  # its thread may end, and be forgotten, while paho looks for it
            self._client.loop_stop()


@dataclass
class MqttModelUnderTest(Served):
    """A model with topics of its own.

    Attributes:
        broker: The broker.
        name: Begins the names of all its topics.
        folder: Where its state and configurations are.
        plan: The plan.
    """

    broker: Mosquitto
    name: str
    folder: Path
    plan: Plan = field(default_factory=long_plan)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    askers: list[Asker] = field(default_factory=list)

    @property
    def queries(self) -> str:
        """The query topic."""
        return f"{self.name}/queries"

    @property
    def answers(self) -> str:
        """The answer topic."""
        return f"{self.name}/answers"

    def create(self) -> "MqttModelUnderTest":
        """Make the state."""
        make_state(self.folder / "state", self.plan)
        return self

    def config(self, name: str = "serve.toml", *, extra: str = "", **sections: str) -> Path:
        """Write a configuration; `sections` are lines added to the table of that name."""
        text = f"""
[state]
folder = "{self.folder / "state"}"
{sections.get("state", "snapshot_rounds = 500")}
[mqtt]
server = "{self.broker.server}"
client_id = "{self.name}"
{sections.get("mqtt", "request_seconds = 10")}
[source]
kind = "mqtt"
topic = "{self.queries}"
{sections.get("source", "")}
[sink]
kind = "mqtt"
topic = "{self.answers}"
ledger = "{self.name}/ledger"
dead_letter = "{self.name}/dead"
status = "{self.name}/status"
reply_topics = ["{self.name}/replies/#"]
{sections.get("sink", "")}
[service]
log = "json"
{sections.get("service", "drain_seconds = 60")}
{extra}
"""
        path = self.folder / name
        path.write_text(text)
        return path

    def serve(self, config: Path, log: str = "serve.log", launcher: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start a daemon; `launcher` are arguments of Python before the command's own, to break it on purpose."""
        line = [sys.executable, *launcher, "serve"] if launcher else command("serve")
        return self.start([*line, str(config)], log)

    def asker(self, *topics: str, name: str | None = None) -> Asker:
        """Return a client that listens to topics, by default to the answers."""
        made = Asker(self.broker.server, topics or (self.answers,), name)
        self.askers.append(made)
        return made

    def wait_for_event(self, event: str, count: int = 1, log: str = "serve.log") -> None:
        """Wait until the daemon has logged something so often."""
        eventually(lambda: self.events(log).count(event) >= count, what=lambda: self.log(log)[-5:])

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        """Stop a daemon cleanly and return its exit code."""
        process.terminate()
        return process.wait(TIMEOUT)

    def end(self) -> None:
        """Kill what still runs."""
        for asker in self.askers:
            asker.close()
        super().end()
