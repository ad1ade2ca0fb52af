"""MQTT from end to end on a real Mosquitto of this machine: the daemon against an echo, the journal against fsync."""

import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from connectors.journal.journal import Journal
from tests.benchmarks.pairs import Floor, Row, Settings, paired
from tests.benchmarks.states import box_plan, queries
from tests.support.folders import command, environment, make_state
from tests.support.mosquitto import Mosquitto

_WINDOW: Final = 100
_SECONDS: Final = 120.0
_GROUP: Final = 50
_BODY: Final = bytes(120)
_numbers = itertools.count()


class _Driver:
    """Publishes queries at QoS 1, so many unanswered at most, and times their answers."""

    def __init__(self, port: int, topic: str, answers: str) -> None:
        self._topic = topic
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.max_inflight_messages_set(_WINDOW)
        self._client.on_message = self._on_message
        listens = threading.Event()
        self._client.on_subscribe = lambda *_: listens.set()
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._client.subscribe(answers, qos=1)
        assert listens.wait(_SECONDS)
        self._slots = threading.Semaphore(0)
        self._sent: dict[bytes, float] = {}
        self.delays: list[float] = []

    def _on_message(self, _client: Any, _userdata: Any, message: paho.MQTTMessage) -> None:
        began = self._sent.pop(getattr(message.properties, "CorrelationData", b""), None)
        if began is not None:
            self.delays.append(time.perf_counter() - began)
            self._slots.release()

    def play(self, bodies: list[bytes], rate: float | None = None) -> float:
        """Ask all, at an even rate if one is given, and return answers a second."""
        self._slots = threading.Semaphore(_WINDOW)
        self.delays.clear()
        started = time.perf_counter()
        for number, body in enumerate(bodies):
            if rate is not None:
                time.sleep(max(started + number / rate - time.perf_counter(), 0.0))
            assert self._slots.acquire(timeout=_SECONDS), "no answer came"
            correlation = b"%d" % next(_numbers)
            properties = Properties(PacketTypes.PUBLISH)
            properties.CorrelationData = correlation
            self._sent[correlation] = time.perf_counter()
            self._client.publish(self._topic, body, 1, properties=properties)
        for _ in range(_WINDOW):
            assert self._slots.acquire(timeout=_SECONDS), "no answer came"
        return len(bodies) / (time.perf_counter() - started)

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()


@contextlib.contextmanager
def _running(line: list[str], ready: bytes) -> Iterator[None]:
    """Run a process that says when it is ready."""
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment()) as process:
        assert process.stdout is not None
        try:
            for said in process.stdout:
                if ready in said:
                    break
            drain = threading.Thread(target=process.stdout.read, daemon=True)
            drain.start()
            yield
        finally:
            process.kill()
            drain.join()


def measure(settings: Settings) -> Iterator[Row]:
    """Measure one JSON query a message, through the daemon and through a bare echo in turns, and the journal alone."""
    with tempfile.TemporaryDirectory() as folder, Mosquitto(Path(folder) / "broker") as broker:
        plan = box_plan(settings.narrow, settings.epsilon)
        make_state(Path(folder) / "state", plan)
        config = Path(folder) / "serve.toml"
        config.write_text(
            f'[state]\nfolder = "{folder}/state"\n[mqtt]\nserver = "{broker.server}"\nclient_id = "bench"\n'
            '[source]\nkind = "mqtt"\ntopic = "q"\n[sink]\nkind = "mqtt"\ntopic = "a"\n[service]\nlog = "json"\n'
        )
        echo = [sys.executable, "-m", "tests.benchmarks.mqtt_echo", str(broker.port), "eq", "ea"]
        rows = queries(settings.mqtt_queries, settings.narrow, seed=4).round(2).tolist()
        bodies = [b'{"id":"q%d","x":%b}' % (number, msgspec.json.encode(row)) for number, row in enumerate(rows)]
        with _running(command("serve", config), b"bus.connected"), _running(echo, b"ready"):
            daemon, bare = _Driver(broker.port, "q", "a"), _Driver(broker.port, "eq", "ea")
            value, baseline = paired(settings, lambda: daemon.play(bodies), lambda: bare.play(bodies))
            name = "mqtt, JSON at QoS 1 on both sides, against a bare aiomqtt echo"
            yield Row(name, value, "queries/s", baseline, Floor("ratio", 0.8))
            rate = min(value, baseline) / 2
            delays = {}
            for key, driver in (("daemon", daemon), ("echo", bare)):
                driver.play(bodies[: max(int(rate * settings.mqtt_seconds), 100)], rate)
                delays[key] = np.quantile(driver.delays, [0.5, 0.99]) * 1000
            for share, ours, theirs in zip(("p50", "p99"), delays["daemon"], delays["echo"], strict=True):
                yield Row(f"mqtt, delay at {rate:,.0f} queries/s, {share}", float(ours), "ms", float(theirs))
            daemon.close()
            bare.close()
    yield _journal(settings)


def _journal(settings: Settings) -> Row:
    """Measure groups of records, fsynced, against the same bytes appended and fsynced."""
    groups = max(settings.mqtt_queries // (4 * _GROUP), 2)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        journal = Journal(Path(folder) / "j", bytes(32), "bench", limit=1 << 40)
        journal.open()
        plain = os.open(Path(folder) / "plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

        def raw() -> None:
            os.write(plain, _BODY * _GROUP)
            os.fsync(plain)

        value, baseline = paired(
            settings,
            lambda: _rate(groups, lambda: journal.append([_BODY] * _GROUP)),
            lambda: _rate(groups, raw),
        )
        journal.close()
        os.close(plain)
    return Row(f"mqtt, journal in groups of {_GROUP}, against raw appends with fsync", value, "records/s", baseline)


def _rate(groups: int, work: Callable[[], object]) -> float:
    started = time.perf_counter()
    for _ in range(groups):
        work()
    return groups * _GROUP / (time.perf_counter() - started)
