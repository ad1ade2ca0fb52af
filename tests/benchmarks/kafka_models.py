"""Many models in one process on Kafka, each with topics of its own, beside one model that gets as many queries.

And beside an echo of as many topics that decides nothing: what the brokers, the client and the machine take by
themselves.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import psutil
from confluent_kafka import Consumer, TopicPartition

from oracle.planning.plan import Plan
from oracle.state.folder import FolderStore
from oracle.state.keys import create_key_file
from tests.benchmarks.kafka import json_bodies
from tests.benchmarks.kafka_trial import Service, Trial
from tests.benchmarks.pairs import Floor, Row, Settings
from tests.benchmarks.states import box_plan
from tests.support.broker import Broker
from tests.support.folders import command
from tests.support.sharded import shard_snapshot

_SECONDS: Final = 120.0
_TICK: Final = 0.005
_WARM: Final = 4
_LEFT_OUT: Final = 0.25
"""Share of each model's queries at the beginning that are not counted."""

_TAKEN: Final = 500
_POLL: Final = 0.02

_P50: Final = Floor("value", 150.0, above=False)
_P99: Final = Floor("value", 500.0, above=False)
_MEMORY: Final = Floor("value", 400.0, above=False)


@dataclass(frozen=True)
class Models(Service):
    """`perpetua serve` of many models.

    Attributes:
        trials: The topics of each, and where its state is.
    """

    trials: Sequence[Trial]

    def commands(self, trial: Trial) -> list[list[str]]:
        """See `Service.commands`; the group has the trial's name."""
        top = f"""
[kafka]
servers = ["{trial.broker.servers}"]
[source]
kind = "kafka"
group = "{trial.name}"
[sink]
kind = "kafka"
[service]
log = "json"
"""
        entries = [
            f"""
[[models]]
name = "model-{number}"
state.folder = "{one.folder / "state"}"
source.topic = "{one.queries}"
sink.topic = "{one.answers}"
"""
            for number, one in enumerate(self.trials)
        ]
        config = trial.folder / "serve.toml"
        config.write_text(top + "".join(entries))
        return [command("serve", config)]


@dataclass(frozen=True)
class Echo(Models):
    """An echo of all topics, by the daemon's own client."""

    def commands(self, trial: Trial) -> list[list[str]]:
        """See `Service.commands`."""
        topics = (",".join(getattr(one, name) for one in self.trials) for name in ("queries", "answers"))
        return [
            [sys.executable, "-m", "tests.benchmarks.kafka_echo", "many", trial.broker.servers, *topics, trial.name]
        ]


@dataclass
class _Reader:
    """Reads committed answers of all topics, as their askers would.

    Attributes:
        seen: By topic, when each answer was read.
    """

    trials: Sequence[Trial]
    seen: dict[str, list[float]] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Read until it is over."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.trials[0].broker.servers,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(trial.answers, 0, 0) for trial in self.trials])
        self.seen |= {trial.answers: [] for trial in self.trials}
        while not self.ended.is_set():
            found = [message for message in consumer.consume(_TAKEN, _POLL) if not message.error()]
            now = time.time()
            for message in found:
                self.seen[message.topic() or ""].append(now)
        consumer.close()

    def wait(self, count: int, process: psutil.Process) -> None:
        """Wait until so many answers of each model were read.

        Raises:
            RuntimeError: It takes too long, or the process has ended.
        """
        deadline = time.monotonic() + _SECONDS
        while not self.seen or min(map(len, self.seen.values())) < count:
            time.sleep(_POLL)
            if time.monotonic() > deadline or process.status() == psutil.STATUS_ZOMBIE:
                message = f"no answers; see the logs in {self.trials[0].folder}"
                raise RuntimeError(message)


@dataclass(frozen=True)
class Figures:
    """What one run gave.

    Attributes:
        p50: Seconds that half of the answers did not exceed.
        p99: 99 of 100.
        memory: Resident bytes of the process behind the load.
        busy: CPU seconds of the process for each query.
    """

    p50: float
    p99: float
    memory: float
    busy: float


def measure(settings: Settings) -> Iterator[Row]:
    """Measure delays, memory and CPU of many models, and of one, at the same rate over all."""
    assert settings.broker is not None
    broker, plan = Broker(settings.broker), box_plan(settings.narrow, settings.epsilon)
    bodies = json_bodies(settings, int(settings.kafka_models_rate * settings.kafka_seconds))
    many, one, echo = list[Figures](), list[Figures](), list[Figures]()
    for _ in range(settings.kafka_pairs):
        for count, service, runs in ((settings.kafka_models, Models, many), (1, Models, one), (0, Echo, echo)):
            topics = count or settings.kafka_models
            with tempfile.TemporaryDirectory() as folder, _trials(broker, Path(folder), plan, topics) as trials:
                runs.append(_figures(trials, service(trials), bodies, settings.kafka_models_rate))
    name = f"kafka-models, {settings.kafka_models} models at {settings.kafka_models_rate:,} queries/s over all"
    for word, baseline, floors in (("one", one, (_P50, _P99)), ("an echo of their topics", echo, (None, None))):
        for figure, floor in zip(("p50", "p99"), floors, strict=True):
            value, other = _best(many, figure) * 1e3, _best(baseline, figure) * 1e3
            yield Row(f"{name}, against {word}, {figure}", value, "ms", other, floor)
    memory, busy = _best(many, "memory") / 2**20, _best(many, "busy") * 1e6
    yield Row(f"{name}, against one, memory", memory, "MiB", _best(one, "memory") / 2**20, _MEMORY)
    yield Row(f"{name}, against one, CPU of a query", busy, "µs", _best(one, "busy") * 1e6)
    yield Row(f"{name}, against an echo of their topics, CPU of a query", busy, "µs", _best(echo, "busy") * 1e6)


def _best(runs: Sequence[Figures], figure: str) -> float:
    return float(min(getattr(run, figure) for run in runs))


@contextmanager
def _trials(broker: Broker, folder: Path, plan: Plan, count: int) -> Iterator[list[Trial]]:
    """Make topics and a state for each model, and delete the topics at the end."""
    trials = [Trial(broker, folder / f"model-{number}") for number in range(count)]
    begun: list[Trial] = []
    try:
        for number, trial in enumerate(trials):
            begun.append(trial.__enter__())
            state = trial.folder / "state"
            state.mkdir(mode=0o700)
            with FolderStore.open(state, create_key_file(state / "key")) as store:
                store.write_plan(plan.encode())
                store.save(shard_snapshot(plan, number))
        yield trials
    finally:
        for trial in begun:
            trial.__exit__()


def _figures(trials: Sequence[Trial], service: Models, bodies: Sequence[bytes], rate: float) -> Figures:
    """Have one process answer queries that are spread evenly over its models."""
    reader, share = _Reader(trials), len(bodies) // len(trials)
    thread = threading.Thread(target=reader.run, daemon=True)
    with service.running(trials[0]) as (popen,):
        process, producer = psutil.Process(popen.pid), trials[0].producer()
        thread.start()
        try:
            for trial in trials:
                trial.send(producer, bodies[:_WARM], 0)
            reader.wait(_WARM, process)
            busy = sum(process.cpu_times()[:2])
            made = np.empty(share * len(trials))
            started, done = time.time(), 0
            while done < len(made):
                due = min(len(made), int((time.time() - started) * rate) + 1)
                made[done:due] = time.time()
                for number in range(done, due):
                    producer.produce(trials[number % len(trials)].queries, bodies[number], partition=0)
                done = due
                producer.poll(0)
                time.sleep(_TICK)
            producer.flush()
            reader.wait(_WARM + share, process)
            busy = sum(process.cpu_times()[:2]) - busy
            memory = process.memory_info().rss
        finally:
            reader.ended.set()
            thread.join()
    read = np.array([reader.seen[trial.answers][_WARM : _WARM + share] for trial in trials]).T.ravel()
    taken = (read - made)[int(len(made) * _LEFT_OUT) :]
    return Figures(float(np.percentile(taken, 50)), float(np.percentile(taken, 99)), memory, busy / len(made))
