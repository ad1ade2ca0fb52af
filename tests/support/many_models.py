"""Many models on a real broker, of different predictors and numbers of partitions, in one configuration or in many."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from oracle.planning.plan import Plan
from oracle.state.folder import FolderStore
from oracle.state.keys import create_key_file
from oracle.state.shards import begin_shards, finish_shards, shard_name
from tests.support.broker import Broker
from tests.support.folders import long_plan
from tests.support.kafka import KafkaModelUnderTest
from tests.support.shards import bodies, deliveries_of, first_snapshot, new_shard, process_in_batches
from tests.support.waiting import TIMEOUT, eventually


@dataclass
class OneOfMany(KafkaModelUnderTest):
    """A model of many: its group is that of all of them, and each of its shards has a key of its own.

    Attributes:
        label: What it is called.
        first_key: Of its first shard's key, a byte; the next shard has the next one.
    """

    label: str = ""
    group_name: str = ""
    first_key: int = 0

    @property
    def group(self) -> str:
        """The consumer group."""
        return self.group_name

    def secret(self, partition: int = 0) -> bytes:
        """Return the key of a shard."""
        return bytes([self.first_key + partition]) * 32

    def create(self, **query_config: str) -> "OneOfMany":
        """Make the topics, but for that of marks, and the state."""
        self.broker.create_topic(self.queries, self.partitions, {"compression.type": "uncompressed", **query_config})
        self.broker.create_topic(self.answers, self.partitions, {"max.message.bytes": "20000000"})
        self.make_state()
        return self

    def make_state(self) -> None:
        """Make the state, of as many shards as the query topic has partitions."""
        state = self.folder / f"{self.label}-state"
        state.mkdir(mode=0o700)
        key = create_key_file(state / "key")
        folders = [state]
        if self.partitions > 1:
            begin_shards(state, self.partitions)
            folders = [state / shard_name(number) for number in range(self.partitions)]
        for number, folder in enumerate(folders):
            folder.mkdir(mode=0o700, exist_ok=True)
            with FolderStore.open(folder, key) as store:
                store.write_plan(self.plan.encode())
                store.save(first_snapshot(self.plan, self.secret(number)))
        if self.partitions > 1:
            (state / "plan.json").write_bytes(self.plan.encode())
            finish_shards(state)

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """What is its own of a configuration."""
        return {
            "state": {"folder": str(self.folder / f"{self.label}-state")},
            "source": {"topic": self.queries},
            "sink": {"topic": self.answers},
        }

    def contents(self, count: int, seed: int = 1) -> list[bytes]:
        """Return queries."""
        return bodies(count, seed, self.plan)

    def expected_of(self, partition: int, contents: Sequence[bytes]) -> list[bytes]:
        """Return the answers of one uninterrupted run in memory, from a shard as it was made."""
        shard = new_shard(self.plan, self.secret(partition))
        return process_in_batches(shard, deliveries_of(list(contents))).replies


@dataclass
class ManyModels:
    """Three models and what serves them.

    Attributes:
        name: Begins the names of all topics.
        shapes: Of each model, its name, its predictor and its partitions.
    """

    broker: Broker
    name: str
    folder: Path
    shapes: Sequence[tuple[str, str, int]] = (
        ("box", "rectangles", 1),
        ("stump", "stumps", 2),
        ("learn", "bisection", 1),
    )
    plans: Sequence[Plan] = ()
    models: dict[str, OneOfMany] = field(default_factory=dict)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def group(self) -> str:
        """The consumer group."""
        return f"{self.name}.group"

    def create(self) -> "ManyModels":
        """Make all topics and states."""
        key = 1
        for label, predictor, partitions in self.shapes:
            model = OneOfMany(
                self.broker, f"{self.name}.{label}", self.folder, partitions, long_plan(predictor), label=label
            )
            model.group_name, model.first_key = self.group, key
            self.models[label] = model.create()
            key += partitions
        return self

    def __getitem__(self, label: str) -> OneOfMany:
        """Return a model."""
        return self.models[label]

    def config(
        self,
        *labels: str,
        name: str = "many.toml",
        top: str = "",
        own: dict[str, dict[str, dict[str, Any]]] | None = None,
    ) -> Path:
        """Write a configuration of these models, or of all; `own` has tables over those of a model, by its name."""
        lines = [self._top(), top]
        for label in labels or self.models:
            lines += ["[[models]]", f'name = "{label}"']
            for table, values in self.models[label].tables.items():
                changed = {**values, **((own or {}).get(label, {}).get(table, {}))}
                lines += [f"{table}.{key} = {_toml(value)}" for key, value in changed.items()]
        path = self.folder / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def config_of(self, label: str) -> Path:
        """Write the configuration of one model in a file of its own."""
        lines = [self._top()]
        text = "\n".join(lines)
        for table, values in self.models[label].tables.items():
            added = "".join(f"{key} = {_toml(value)}\n" for key, value in values.items())
            text = text.replace(f"[{table}]\n", f"[{table}]\n{added}")
        path = self.folder / f"{label}.toml"
        path.write_text(text)
        return path

    def _top(self) -> str:
        return f"""
[kafka]
servers = ["{self.broker.servers}"]
request_seconds = 5
[state]
snapshot_rounds = 500
[source]
kind = "kafka"
group = "{self.group}"
session_seconds = 2
[sink]
kind = "kafka"
transaction_seconds = 30
[service]
log = "json"
drain_seconds = 60
"""

    def serve(self, config: Path, log: str = "serve.log") -> subprocess.Popen[bytes]:
        """Start a daemon."""
        any_model = next(iter(self.models.values()))
        process = any_model.serve(config, log)
        self.processes.append(process)
        return process

    def log(self, log: str = "serve.log") -> list[dict[str, Any]]:
        """Return a daemon's log lines."""
        return next(iter(self.models.values())).log(log)

    def site(self, log: str = "serve.log") -> "Site":
        """Return the web server of a daemon, as soon as it listens."""
        lines: list[dict[str, Any]] = []

        def listens() -> bool:
            lines[:] = [line for line in self.log(log) if line.get("event") == "web.listening"]
            return bool(lines)

        eventually(listens)
        return Site(int(lines[-1]["port"]))

    def end(self) -> None:
        """Kill what still runs."""
        for process in self.processes:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class Site:
    """The web server of a daemon."""

    port: int

    def ask(self, path: str) -> httpx.Response:
        """Return what it answers."""
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", trust_env=False, timeout=TIMEOUT)


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
