"""A trial on a real broker: topics and a group of one run, a service on them, and the clock outside of it.

The queries wait in an open transaction until the service has answered a few others, so that everything is warm and all
of them become readable at once. The clock is the broker's: it runs from the time at which it took in the first answers
to the time of the last ones, and the first ones do not count; over many partitions, from when the queries are readable.
"""

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from numpy.typing import NDArray

from connectors.base import JSON
from tests.support.broker import Broker
from tests.support.folders import command, environment

_SECONDS: Final = 120.0
_WARM: Final = 200
_READ: Final = 50_000
_numbers = itertools.count()


@dataclass
class Trial:
    """One run's topics and group.

    Attributes:
        broker: A running broker.
        folder: For the service's files; empty.
        partitions: Of the query topic and of the answer topic.
        content_type: Of the queries.
    """

    broker: Broker
    folder: Path
    partitions: int = 1
    content_type: str = JSON
    name: str = field(default_factory=lambda: f"bench-{os.getpid()}-{next(_numbers)}")

    @property
    def queries(self) -> str:
        """The query topic."""
        return f"{self.name}.queries"

    @property
    def answers(self) -> str:
        """The answer topic."""
        return f"{self.name}.answers"

    def __enter__(self) -> Self:
        self.folder.mkdir()
        self.broker.create_topic(self.queries, self.partitions, {"compression.type": "uncompressed"})
        bounds = {"max.message.bytes": "40000000", "message.timestamp.type": "LogAppendTime"}
        self.broker.create_topic(self.answers, self.partitions, bounds)
        return self

    def __exit__(self, *_: object) -> None:
        for topic in (self.queries, self.answers):
            self.broker.delete_topic(topic)

    def producer(self, transaction: str | None = None) -> Producer:
        """Return a producer of queries."""
        settings: dict[str, str | int] = {"bootstrap.servers": self.broker.servers, "linger.ms": 2}
        settings |= {"queue.buffering.max.messages": 2_000_000, "queue.buffering.max.kbytes": 2_000_000}
        if transaction:
            settings["transactional.id"] = f"{self.name}-{transaction}"
        return Producer(settings)

    def send(self, producer: Producer, bodies: Sequence[bytes], partition: int) -> None:
        """Produce queries and wait until they are in the log."""
        # The content type goes without saying for JSON: it is what a query without a header is.
        headers: dict[str, str | bytes | None] = {}
        if self.content_type != JSON:
            headers["content-type"] = self.content_type
        for body in bodies:
            producer.produce(self.queries, body, partition=partition, headers=headers or None)
        producer.flush(_SECONDS)

    def wait(self, offsets: int, monitored: Sequence[subprocess.Popen[bytes]]) -> None:
        """Wait until the group has committed this offset on all partitions.

        Raises:
            RuntimeError: It takes too long, or a monitored process has ended.
        """
        parts = [TopicPartition(self.queries, partition) for partition in range(self.partitions)]
        reader = Consumer({"bootstrap.servers": self.broker.servers, "group.id": self.name, "log_level": 0})
        deadline = time.monotonic() + _SECONDS
        try:
            while not _at(reader, parts, offsets):
                time.sleep(0.02)
                if time.monotonic() > deadline or any(process.poll() is not None for process in monitored):
                    message = f"{self.name}: no answers; see the logs in {self.folder}"
                    raise RuntimeError(message)
        finally:
            reader.close()

    def read(self, partition: int, count: int) -> list[Message]:
        """Return the first committed answers of a partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.servers,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(self.answers, partition, 0)])
        found: list[Message] = []
        deadline = time.monotonic() + _SECONDS
        while len(found) < count and time.monotonic() < deadline:
            found += [message for message in consumer.consume(_READ, 0.1) if not message.error()]
        consumer.close()
        return found


def _at(reader: Consumer, parts: list[TopicPartition], offset: int) -> bool:
    try:
        return all(part.offset >= offset for part in reader.committed(parts, timeout=5.0))
    except KafkaException:
        return False


class Service:
    """What answers on a trial."""

    def commands(self, trial: Trial) -> list[list[str]]:
        """Return the command line of each of its processes."""
        raise NotImplementedError

    @contextlib.contextmanager
    def running(self, trial: Trial) -> Iterator[list[subprocess.Popen[bytes]]]:
        """Run it, and kill it at the end."""
        processes = []
        try:
            for number, line in enumerate(self.commands(trial)):
                with (trial.folder / f"log-{number}").open("wb") as log:
                    processes.append(subprocess.Popen(line, stdout=log, stderr=log, env=environment()))
            yield processes
        finally:
            for process in processes:
                process.kill()
                process.wait()


@dataclass(frozen=True)
class Daemons(Service):
    """`perpetua serve`, in one or more processes over one state.

    Attributes:
        state: A fresh state, of which each trial gets a copy.
        processes: How many.
        session: Seconds after which the group takes one for dead that is silent.
    """

    state: Path
    processes: int = 1
    session: float = 10.0

    def commands(self, trial: Trial) -> list[list[str]]:
        """See `Service.commands`."""
        if not (trial.folder / "state").exists():  # else it goes on
            shutil.copytree(self.state, trial.folder / "state")
        config = trial.folder / "serve.toml"
        config.write_text(f"""
[state]
folder = "{trial.folder / "state"}"
[kafka]
servers = ["{trial.broker.servers}"]
[source]
kind = "kafka"
topic = "{trial.queries}"
group = "{trial.name}"
session_seconds = {self.session}
[sink]
kind = "kafka"
topic = "{trial.answers}"
[service]
log = "json"
""")
        return [command("serve", config)] * self.processes


@dataclass(frozen=True)
class Echo(Service):
    """One of `kafka_echo`'s.

    Attributes:
        kind: Which.
    """

    kind: str

    def commands(self, trial: Trial) -> list[list[str]]:
        """See `Service.commands`."""
        names = [trial.broker.servers, trial.queries, trial.answers, trial.name]
        return [[sys.executable, "-m", "tests.benchmarks.kafka_echo", self.kind, *names]]


@dataclass(frozen=True)
class Throughput:
    """What one run gave.

    Attributes:
        rate: Messages a second, over all partitions.
        busy: CPU seconds of the service's processes for each message, which depend less on what else the machine does.
        answers: The bodies of the answers to the load, by partition; empty if they were not wanted.
    """

    rate: float
    busy: float
    answers: list[list[bytes]]


def measure_throughput(
    trial: Trial, service: Service, bodies: Sequence[Sequence[bytes]], *, keep: bool = False
) -> Throughput:
    """Have a service answer some messages for each partition; see the top of this file.

    Args:
        trial: Fresh.
        service: Not running.
        bodies: Messages by partition, equally many for each.
        keep: Whether to return the answers.
    """
    load, warm = len(bodies[0]), min(_WARM, len(bodies[0]))
    with trial, service.running(trial) as processes:
        producer = trial.producer()
        for partition, part in enumerate(bodies):
            trial.send(producer, part[:warm], partition)
        trial.wait(warm, processes)
        producer = trial.producer("load")
        producer.init_transactions(_SECONDS)
        producer.begin_transaction()
        for partition, part in enumerate(bodies):
            trial.send(producer, part, partition)
        started, busy = time.time(), _busy(processes)
        producer.commit_transaction(_SECONDS)
        trial.wait(warm + load, processes)
        busy = _busy(processes) - busy
        answers = [trial.read(partition, warm + load)[warm:] for partition in range(trial.partitions)]
    assert all(len(part) == load for part in answers)
    times = np.array([message.timestamp()[1] for part in answers for message in part]) / 1000
    kept = [[message.value() or b"" for message in part] for part in answers] if keep else []
    total = trial.partitions * load
    return Throughput(_rate(times, started, trial.partitions), busy / total, kept)


def _rate(times: NDArray[np.float64], started: float, partitions: int) -> float:
    """Return answers a second behind the first time.

    Where there is but one time, or the first answers of one partition come while others are being answered, it is all
    answers a second since the load was let go.
    """
    later = np.count_nonzero(times > times.min())
    if partitions > 1 or not later:
        return float(len(times) / (times.max() - started))
    return float(later / (times.max() - times.min()))


def _busy(processes: Sequence[subprocess.Popen[bytes]]) -> float:
    """Return the CPU seconds that the processes took, all threads counted, to the nanosecond.

    Ticks of /proc are too coarse for tiny runs: a quick echo would have taken nothing. Linux makes a process's CPU
    clock of its number as written here (clock_getcpuclockid(3), which Python has for threads only).
    """
    return sum(time.clock_gettime((~process.pid << 3) | 2) for process in processes)
