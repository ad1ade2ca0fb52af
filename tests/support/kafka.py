"""One model on a real broker: its topics, its state folder, its daemons as processes, its queries and answers."""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # public by their documentation

from connectors.kafka.settings import KafkaSettings
from oracle.planning.plan import Plan
from tests.support.broker import Broker
from tests.support.folders import command, long_plan, make_state
from tests.support.served import Served
from tests.support.waiting import TIMEOUT, all_come, eventually

wait_until = eventually


@dataclass(frozen=True)
class Answer:
    """One committed record of a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...]

    @property
    def body(self) -> Any:
        """Its JSON."""
        return msgspec.json.decode(self.value)


@dataclass
class KafkaModelUnderTest(Served):
    """A model with topics of its own.

    Attributes:
        broker: The broker.
        name: Begins the names of all its topics.
        folder: Where its state and configurations are.
        partitions: Of the query topic.
        plan: The plan.
    """

    broker: Broker
    name: str
    folder: Path
    partitions: int = 1
    plan: Plan = field(default_factory=long_plan)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def queries(self) -> str:
        """The query topic."""
        return f"{self.name}.queries"

    @property
    def answers(self) -> str:
        """The answer topic."""
        return f"{self.name}.answers"

    @property
    def group(self) -> str:
        """The consumer group."""
        return f"{self.name}.group"

    @property
    def marks(self) -> str:
        """The topic of the daemon's own marks."""
        return f"{self.group}.marks"

    @property
    def settings(self) -> KafkaSettings:
        """The connector's settings: what must be set."""
        return KafkaSettings(
            servers=(self.broker.servers,), topic=self.queries, answers=self.answers, group=self.group, model="m"
        )

    def create(self, **query_config: str) -> "KafkaModelUnderTest":
        """Make the topics and the state."""
        self.create_topics(**query_config)
        make_state(self.folder / "state", self.plan)
        return self

    def create_topics(self, **query_config: str) -> None:
        """Make the topics."""
        self.broker.create_topic(self.queries, self.partitions, {"compression.type": "uncompressed", **query_config})
        self.broker.create_topic(self.answers, self.partitions, {"max.message.bytes": "20000000"})
        self.broker.create_topic(f"{self.name}.ledger", 1, {"cleanup.policy": "compact"})
        self.broker.create_topic(f"{self.name}.dead", 1)
        self.broker.create_topic(self.marks, self.partitions, {"cleanup.policy": "compact"})

    def config(self, name: str = "serve.toml", *, state: str = "state", extra: str = "", **sections: str) -> Path:
        """Write a configuration; `sections` are lines added to the table of that name."""
        text = f"""
[state]
folder = "{self.folder / state}"
{sections.get("state", "snapshot_rounds = 500")}
[kafka]
servers = ["{self.broker.servers}"]
{sections.get("kafka", "request_seconds = 5")}
[source]
kind = "kafka"
topic = "{self.queries}"
group = "{self.group}"
{sections.get("source", "session_seconds = 2")}
[sink]
kind = "kafka"
topic = "{self.answers}"
ledger = "{self.name}.ledger"
dead_letter = "{self.name}.dead"
{sections.get("sink", "transaction_seconds = 30")}
[service]
log = "json"
{sections.get("service", "drain_seconds = 60")}
{extra}
"""
        path = self.folder / name
        path.write_text(text)
        return path

    def serve(
        self, config: Path, log: str = "serve.log", *options: str, trap: tuple[str, int] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a daemon; `trap` is a point of `kafka_launcher`, and the position that the commit reaches."""
        line = command("serve")
        if trap is not None:
            line = [sys.executable, "-m", "tests.support.kafka_launcher", trap[0], str(trap[1]), "serve"]
        return self.start([*line, str(config), *options], log)

    def ask(  # noqa: PLR0913 -- what a producer can be asked for
        self,
        bodies: Iterable[bytes | None],
        *,
        partition: int = 0,
        headers: Sequence[tuple[str, bytes]] = (),
        key: bytes | None = None,
        transaction: str | None = None,
        abort: bool = False,
    ) -> None:
        """Produce queries to one partition, in order."""
        settings: dict[str, Any] = {"bootstrap.servers": self.broker.servers, "linger.ms": 5}
        if transaction:
            settings["transactional.id"] = transaction
        producer = Producer(settings)
        if transaction:
            producer.init_transactions()
            producer.begin_transaction()
        for body in bodies:
            while True:
                try:
                    producer.produce(self.queries, body, key=key, partition=partition, headers=list(headers))
                    break
                except BufferError:
                    producer.poll(0.05)
        assert producer.flush(TIMEOUT) == 0
        if transaction:
            if abort:
                producer.abort_transaction()
            else:
                producer.commit_transaction()

    def delete_records(self, before: int, *, partition: int = 0) -> None:
        """Delete a partition's queries before an offset, as retention does."""
        part = TopicPartition(self.queries, partition, before)
        (future,) = self.broker.admin.delete_records([part]).values()
        assert future.result().low_watermark == before

    def read(self, topic: str | None = None, *, partitions: int | None = None) -> list[Answer]:
        """Return all committed records of a topic, partition by partition."""
        topic = topic or self.answers
        count = partitions or len(self.broker.admin.list_topics(topic, timeout=TIMEOUT).topics[topic].partitions)
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.servers,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        found: list[Answer] = []
        for partition in range(count):
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                message = consumer.poll(TIMEOUT)
                assert message is not None, f"nothing comes of {topic}, partition {partition}, not even its end"
                error = message.error()
                if error and error.code() == KafkaError._PARTITION_EOF:
                    break
                if error:  # the client tells of brokers that are away, and tries on
                    continue
                found.append(
                    Answer(
                        partition,
                        message.offset() or 0,
                        message.key(),
                        message.value() or b"",
                        _headers(message.headers()),
                    )
                )
        consumer.close()
        return found

    def count(self) -> int:
        """Return how many answers there are."""
        return len(self.read())

    def written(self) -> int:
        """Return the offset that the answers of partition 0 end at, before open transactions; cheap to ask.

        Markers of transactions are counted.
        """
        ends = {TopicPartition(self.answers, 0): OffsetSpec.latest()}
        (end,) = self.broker.admin.list_offsets(ends, isolation_level=IsolationLevel.READ_COMMITTED).values()
        return int(end.result().offset)

    def values(self, partition: int = 0) -> list[bytes]:
        """Return the answers of one partition, in order."""
        return [answer.value for answer in self.read() if answer.partition == partition]

    def wait_for_answers(self, count: int) -> list[Answer]:
        """Read until there are so many answers; there is time as long as more of them come."""
        found: list[Answer] = []
        while len(found) < count:
            all_come(self.count, len(found) + 1, lambda: self.log()[-5:])
            found = self.read()
        return found


def _headers(given: Any) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, value or b"") for name, value in given or ())
