"""A Kafka topic as the log of `perpetua verify` and `fork`: a range of one partition, and what was answered to it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from connectors.base import Committed, Source
from connectors.kafka.committed_offset import committed_offset
from connectors.kafka.ranges import KafkaRange
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.topics import describe
from connectors.kafka.traffic import committed_values, first_and_last, send_event
from oracle.cli.replay.answers import line_of
from oracle.codec.guarded import Codec
from oracle.codec.kinds import codec_of
from oracle.config.daemon import load_config
from oracle.errors import InputError, RefusedError, StateError
from oracle.hosting.kafka_settings import kafka_settings
from oracle.hosting.registered import RegisteredSource, SchemaRegistry, open_registry
from oracle.planning.plan import Plan
from oracle.state.keys import mark_key
from oracle.state.shards import shard_folders, shard_name
from oracle.telemetry.client_logs import hear_client

__all__ = ["KafkaLog", "open_kafka_log"]

_QUIET = 3.0


@dataclass(frozen=True, slots=True)
class KafkaLog:
    """One partition of a query topic; its methods raise `BusError` where the brokers do not answer.

    Attributes:
        schemas: Where queries have schemas, and the folder of the shard that answered them; None where they have none.
    """

    settings: KafkaSettings
    partition: int
    schemas: tuple[SchemaRegistry, Path] | None = None

    def codec(self) -> Callable[[Plan], Codec]:
        """Return what makes the codec that answers as the daemon did, but for the id of the answers' schema."""
        if self.schemas is None:
            return codec_of
        registry, folder = self.schemas
        return registry.codec(folder, 0)

    def codec_to_json(self) -> Callable[[Plan], Codec]:
        """Return what makes a codec that answers queries with schemas in JSON."""
        if self.schemas is None:
            return codec_of
        registry, folder = self.schemas
        return registry.codec_to_json(folder)

    def _read(self, first: int | Literal["latest"], end: int, *, recalls: bool = True) -> KafkaRange | RegisteredSource:
        source = KafkaRange(self.settings, self.partition, end if first == "latest" else first, end)
        if self.schemas is None:
            return source
        registry, folder = self.schemas
        return registry.source(source, folder, keeps=False, recalls=recalls)

    def source(self, offsets: str | None) -> Source:
        """Return the records of a range "FIRST:LAST", of any log; without LAST up to the last one there is now.

        Raises:
            InputError: It is no range, or not in the topic.
        """
        first, last = asyncio.run(first_and_last(self.settings, self.partition))
        return self._read(*_range(offsets, first, last), recalls=False)

    def whole(self, end: int) -> KafkaRange | RegisteredSource:
        """Return all records from where the model began up to an offset.

        Raises:
            StateError: Nothing says how far was answered.
        """
        found = asyncio.run(committed_offset(self.settings, self.partition))
        begun = None if found is None else found[1].begun
        return self._read(self.settings.first_offset_of(self.partition) if begun is None else begun, end)

    def present(self) -> KafkaRange | RegisteredSource:
        """Return all records that there are now."""
        return self.whole(asyncio.run(first_and_last(self.settings, self.partition))[1])

    def committed(self) -> Committed:
        """Return what was last committed, and up to where.

        Raises:
            StateError: Nothing was.
        """
        found = asyncio.run(committed_offset(self.settings, self.partition))
        if found is None:
            raise StateError(
                f"group {self.settings.group}: it has committed nothing, so nothing says which log was answered"
            )
        return Committed(found[0], found[1].mark)

    @contextmanager
    def answers(self) -> Iterator[Path]:
        """Lend the committed answers as a file of lines (see `line_of`), readable by us only.

        Raises:
            RefusedError: They are on several topics, or among those of other shards.
        """
        if self.settings.reply_topics:
            raise RefusedError(
                "sink.reply_topics: answers that went to several topics cannot be verified together; if no query named "
                "one of them, verify with a configuration that leaves them out"
            )
        with TemporaryDirectory(prefix="perpetua-") as folder:
            path = Path(folder) / "answers.jsonl"
            asyncio.run(self._collect(path))
            yield path

    async def _collect(self, path: Path) -> None:
        topic = self.settings.answers
        partition = await self._answer_partition()
        with path.open("wb") as file:
            async for values in committed_values(self.settings, topic, partition, seconds=_QUIET):
                file.writelines(map(line_of, values))

    async def _answer_partition(self) -> int:
        """Return the partition of the answers' topic that the shard writes to, by the rule of `KafkaSink`."""
        facts = await describe(self.settings)
        queries, answers = facts.get(self.settings.topic), facts.get(self.settings.answers)
        if queries is None or answers is None:
            raise RefusedError(f"topics {self.settings.topic} and {self.settings.answers}: they do not both exist")
        partition = self.partition % answers.partitions
        others = [other for other in range(queries.partitions) if other != self.partition]
        if any(other % answers.partitions == partition for other in others):
            raise RefusedError(
                f"topic {self.settings.answers}: it has {answers.partitions} partitions for the answers of "
                f"{queries.partitions} shards, and those of several shards on one partition cannot be told apart to "
                "verify them"
            )
        return partition

    async def announce(self, event: bytes) -> None:
        """Put a ledger event on the ledger topic, if there is one, and wait until the brokers have it."""
        if self.settings.ledger is not None:
            await send_event(self.settings, self.partition, event)


def open_kafka_log(
    config_file: Path, plan: Plan, partition: int, master_key: bytes | None = None, model: str | None = None
) -> KafkaLog:
    """Read the configuration of a model on Kafka; without the state's key only the group says what was committed.

    Raises:
        InputError: Its source is no Kafka topic, or the partition is below 0.
        RefusedError: It cannot be understood.
    """
    if partition < 0:
        raise InputError("--partition", partition, "must be at least 0")
    hear_client()
    secret = None if master_key is None else mark_key(master_key, plan.digest)
    config = load_config(config_file, model)
    settings = replace(kafka_settings(config, plan.name), secret=secret)
    registry = open_registry(config, plan)
    schemas = None if registry is None else (registry, _folder(config.state.folder, partition))
    return KafkaLog(settings, partition, schemas)


def _folder(state: Path, partition: int) -> Path:
    """Return a shard's folder, which need not be there."""
    folders = shard_folders(state)
    return folders[partition] if partition < len(folders) else state / shard_name(partition)


def _range(offsets: str | None, first: int, last: int) -> tuple[int, int]:
    begin, colon, end = (offsets or ":").partition(":")
    if not colon or not all(part == "" or part.isdecimal() for part in (begin, end)):
        raise InputError("--offsets", offsets, 'must be "FIRST:LAST", LAST excluded; either may be left out')
    found = int(begin) if begin else first, int(end) if end else last
    if not first <= found[0] < found[1] <= last:
        bound = f"must name at least one record, and none outside of {first}:{last}, which the topic has"
        raise InputError("--offsets", offsets, bound)
    return found
