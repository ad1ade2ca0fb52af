"""The bridge of deploy/mqtt, for real: queries over Mosquitto, the ledger in a compacted topic of Kafka."""

import collections
import itertools
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from oracle.errors import InputError
from tests.support.broker import Broker
from tests.support.folders import environment
from tests.support.kafka import Answer, KafkaModelUnderTest
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt import MqttModelUnderTest
from tests.support.shards import bodies, deliveries_of, new_shard, process_in_batches
from tests.support.waiting import TIMEOUT, eventually

_ROOT = Path(__file__).resolve().parents[3]
_PROGRAM = _ROOT / "deploy" / "mqtt" / "bridge.py"
_DIES = """
import asyncio, os, runpy, signal, sys
from aiokafka import AIOKafkaProducer
from connectors.mqtt.client import Connection

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

async def die_later(*_, **__):
    await asyncio.sleep(0.5)  # whatever was acknowledged too soon has left by then
    die()

{broken}
sys.argv[:1] = []
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_BEFORE_KAFKA = _DIES.format(broken="AIOKafkaProducer.send = die_later")
_BEFORE_ACKNOWLEDGING = _DIES.format(broken="Connection.acknowledge = die")


@dataclass
class _Bridged:
    """A model on MQTT, and the bridges that carry its ledger to a topic."""

    model: MqttModelUnderTest
    kafka: Broker
    topic: str
    bridges: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def config(self, **changed: str) -> Path:
        """Write the bridge's configuration."""
        path = self.model.folder / "bridge.toml"
        path.write_text(f"""
ledger = "{self.model.name}/ledger"
topic = "{changed.get("topic", self.topic)}"
{changed.get("extra", "")}
[mqtt]
server = "{self.model.broker.server}"
{changed.get("client", f'client_id = "{self.model.name}-bridge"')}
[kafka]
servers = ["{self.kafka.servers}"]
""")
        return path

    def bridge(self, broken: str | None = None, **changed: str) -> subprocess.Popen[bytes]:
        """Start a bridge; one that is `broken` dies by SIGKILL at a certain place."""
        line = [sys.executable, *(["-c", broken] if broken else []), str(_PROGRAM), str(self.config(**changed))]
        with self.log.open("ab") as output:
            process = subprocess.Popen(
                line, stdout=output, stderr=output, env={**environment(), "PYTHONPATH": str(_ROOT)}, cwd=_ROOT
            )
        self.bridges.append(process)
        return process

    @property
    def log(self) -> Path:
        """What the bridges say."""
        return self.model.folder / "bridge.log"

    def wait_until_connected(self, count: int) -> None:
        """Wait until bridges have connected so often."""
        eventually(lambda: self.log.read_text().count("bridge: connected") >= count, what=self.log.read_text)

    def records(self) -> list[Answer]:
        """Return all records of the topic, repetitions too."""
        return KafkaModelUnderTest(self.kafka, "reader", self.model.folder).read(self.topic)

    def compacted(self) -> list[bytes]:
        """Return the events as compaction leaves them: the last record of each key."""
        return list({record.key: record.value for record in self.records()}.values())


@pytest.fixture
def bridged(broker: Broker, topic, tmp_path: Path) -> Iterator[_Bridged]:
    """A model on a Mosquitto of the test's own, and a compacted topic; nothing runs yet but the brokers."""
    name = topic(config={"cleanup.policy": "compact"}, word="ledger")
    with Mosquitto(tmp_path / "mosquitto") as mosquitto:
        model = MqttModelUnderTest(mosquitto, "m", tmp_path).create()
        made = _Bridged(model, broker, name)
        yield made
        model.end()
        for process in made.bridges:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_every_event_is_on_kafka_once_by_key_whatever_is_killed(bridged):
    """Bridges die before Kafka, before the acknowledgement and anywhere, the daemon twice: nothing is lost or doubled.

    Each event that one uninterrupted run makes is there, and one of each start and of the clean stop.
    """
    model, contents = bridged.model, bodies(1500)
    watcher, asker = model.asker("m/ledger"), model.asker()

    def answered(count: int) -> None:
        eventually(lambda: len({one.body for one in asker.heard}) >= count, what=lambda: model.log()[-5:])

    def ask(start: int, stop: int) -> None:
        for body in contents[start:stop]:
            asker.ask(model.queries, body)

    def kill(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    first = bridged.bridge()
    bridged.wait_until_connected(1)
    daemon = model.serve(model.config())
    model.wait_for_event("bus.connected")
    ask(0, 500)
    answered(200)
    kill(first)
    kill(daemon)
    daemon = model.serve(model.config())  # its start is an event that waits for a bridge
    ask(500, 1000)
    assert bridged.bridge(_BEFORE_KAFKA).wait(TIMEOUT) == -9
    assert bridged.bridge(_BEFORE_ACKNOWLEDGING).wait(TIMEOUT) == -9
    answered(600)
    second = bridged.bridge()
    bridged.wait_until_connected(4)
    kill(daemon)
    daemon = model.serve(model.config())
    ask(1000, 1500)
    answered(1100)
    kill(second)
    answered(1500)
    assert model.stop(daemon) == 0
    last = bridged.bridge()
    eventually(lambda: _kinds(bridged.compacted())["shard-stopped"], what=bridged.log.read_text)
    last.terminate()
    assert last.wait(TIMEOUT) == 0

    events = bridged.compacted()
    planned = process_in_batches(new_shard(model.plan), deliveries_of(contents)).ledger
    lifecycle = [event for event in events if _kinds([event]).keys() & {"shard-started", "shard-stopped"}]
    assert _kinds(planned)["phase-ended"] >= 3
    assert sorted(event for event in events if event not in lifecycle) == sorted(planned)
    assert _kinds(lifecycle) == {"shard-started": 3, "shard-stopped": 1}
    eventually(lambda: {one.body for one in watcher.heard} >= set(events))
    assert set(events) == {one.body for one in watcher.heard}
    assert len(bridged.records()) > len(events), "no bridge died between Kafka and its acknowledgement"
    rounds = [msgspec.json.decode(event)["round"] for event in sorted(events, key=_round)]
    assert all(earlier <= later for earlier, later in itertools.pairwise(rounds))


def test_topics_that_would_forget_events_are_refused(bridged, topic):
    """One that is not compacted, and one that the brokers would make by themselves: status 2, and what to do."""
    forgetting = topic(word="forgets")
    for name, told in (
        (forgetting, f"topic {forgetting}: cleanup.policy: must be compact"),
        ("there-is-none", "topic there-is-none: it does not exist; create it, with cleanup.policy=compact"),
    ):
        assert bridged.bridge(topic=name).wait(TIMEOUT) == 2
        assert told in bridged.log.read_text().splitlines()[-1]
    assert "there-is-none" not in bridged.kafka.topics()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"client": ""}, "mqtt.client_id is not set: must be set, and differ from the daemon's"),
        (
            {"client": 'login = {username = "u", password = "p"}'},
            "mqtt.login.password: secrets come from files",
        ),
        ({"extra": "topics = 1"}, "topics: extra inputs are not permitted"),
    ],
)
def test_unfit_configurations_are_refused_by_name(bridged, changed, told):
    """No client id of its own, a password in the file, an unknown setting: the field and the bound are named."""
    with pytest.raises(InputError, match=f"^{re.escape(told)}"):
        runpy.run_path(str(_PROGRAM))["load"](bridged.config(**changed))


def _kinds(events: list[bytes]) -> collections.Counter[str]:
    return collections.Counter(msgspec.json.decode(event)["kind"] for event in events)


def _round(event: bytes) -> int:
    return int(msgspec.json.decode(event)["round"])
