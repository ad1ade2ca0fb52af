"""From a configuration to what counts true labels: the model's plan and key, and the two logs of each shard."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from connectors.base import LogReader
from oracle.codec.json.truths import TruthCodec
from oracle.codec.registered.answered import AnsweredReader
from oracle.codec.rejections import Rejection
from oracle.config.daemon import (
    Config,
    FileSinkConfig,
    FileSourceConfig,
    KafkaSinkConfig,
    KafkaSourceConfig,
    TruthConfig,
)
from oracle.errors import InputError, RefusedError
from oracle.mechanisms.truth import NoisyPeriod
from oracle.planning.kinds import decode_plan
from oracle.planning.model import Truth
from oracle.planning.plan import Plan, truth_of
from oracle.runtime.truths.join import Join
from oracle.runtime.truths.tally import Tally
from oracle.state.folder import read_plan
from oracle.state.keys import read_key_file
from oracle.state.shards import shard_count, shard_folder
from oracle.state.truths import TruthFile, truth_secret
from oracle.telemetry.log import PublicLog
from oracle.telemetry.truths import TruthTelemetry

__all__ = ["TruthModel", "count_truths", "open_truths"]

_LOGGED: Final = 100
"""Messages that a shard logs for each reason why they are no true labels; of more only the number is told."""


@dataclass(frozen=True, slots=True)
class TruthModel:
    """What counting a model's true labels needs, read and checked.

    Attributes:
        table: `[truth]`.
        truth: What the plan declares.
        master_key: Seals the state, and gives the noise's key.
        follow: Whether more may come behind the logs' ends.
    """

    config: Config
    table: TruthConfig
    plan: Plan
    truth: Truth
    shards: int
    master_key: bytes
    follow: bool

    @property
    def name(self) -> str:
        """What the model is called: in `[[models]]`, or else as its plan."""
        return self.config.entry or self.plan.name


def open_truths(config: Config) -> TruthModel:
    """Read the state's plan and key.

    Raises:
        InputError: The configuration has no `[truth]`, or the plan has no `truth`.
        StateError: The state folder cannot be used.
    """
    if config.truth is None:
        raise InputError("truth", None, "must be set: the table [truth], with its folder")
    shards = shard_count(config.state.folder)
    plan = decode_plan(read_plan(shard_folder(config.state.folder, 0)) or b"")
    truth = truth_of(plan)
    if truth is None:
        bound = (
            "must be in the model file that the state was made of, with its epsilon: this plan pays for no true label"
        )
        raise InputError("model.truth", None, bound)
    if isinstance(config.source, KafkaSourceConfig) and config.source.format != "json":
        from oracle.hosting.registered import refuse_missing  # noqa: PLC0415 -- each bus when it is wanted

        refuse_missing(config.source.format)
    key = read_key_file(config.state.key_path)
    follow = not isinstance(config.source, FileSourceConfig) or config.source.follow
    return TruthModel(config, config.truth, plan, truth, shards, key, follow)


async def count_truths(model: TruthModel, folder: Path, telemetry: TruthTelemetry, log: PublicLog) -> None:
    """Count the true labels of all shards, until the logs end, or for ever where they are followed.

    Raises:
        ExceptionGroup: A log cannot be read, or a state not be read or written: of the `PerpetuaError`s of shards.
    """
    logs_of = await _on_kafka(model) if isinstance(model.config.sink, KafkaSinkConfig) else _on_files(model)
    telemetry.ready |= dict.fromkeys(range(model.shards), False)
    async with asyncio.TaskGroup() as group:
        for shard in range(model.shards):
            own = log.of(shard) if model.shards > 1 else log
            file = TruthFile(folder, model.master_key, model.plan.digest, shard)
            group.create_task(_count(model, file, logs_of(shard), _Teller(telemetry, own, shard)))


async def _count(model: TruthModel, file: TruthFile, logs: tuple[LogReader, LogReader], teller: "_Teller") -> None:
    """Count one shard's."""
    tally = Tally(model.truth, truth_secret(model.master_key, model.plan.digest, teller.shard))
    found, positions = file.load(), (0, 0)
    if found is not None:
        tally.restore(found[0])
        positions = found[1]
    async with AsyncExitStack() as stack:
        for reader, position in zip(logs, positions, strict=True):
            stack.push_async_callback(reader.close)
            await reader.open(position)
        teller.telemetry.ready[teller.shard] = True
        join = Join(
            _codec(model),
            tally,
            _Store(file),
            logs=logs,
            positions=positions,
            released=teller.released,
            rejected=teller.rejected,
        )
        await join.run(follow=model.follow)


def _codec(model: TruthModel) -> TruthCodec:
    source = model.config.source
    if not isinstance(source, KafkaSourceConfig) or source.format == "json":
        return TruthCodec(model.plan)
    from oracle.hosting.kafka_settings import CONTENT_TYPES  # noqa: PLC0415 -- each bus when it is wanted

    return TruthCodec(model.plan, AnsweredReader(model.plan, CONTENT_TYPES[source.format]).read)


@dataclass(frozen=True, slots=True)
class _Store:
    """See `TruthStore`."""

    file: TruthFile

    def save(self, tally: Tally, positions: tuple[int, int]) -> None:
        self.file.save(tally.arrays(), positions)


@dataclass(frozen=True, slots=True)
class _Teller:
    """Tells what is public of one shard."""

    telemetry: TruthTelemetry
    log: PublicLog
    shard: int

    def released(self, period: NoisyPeriod) -> None:
        """Tell of a period's noisy counts."""
        self.telemetry.released[self.shard] = period
        error = period.error(self.telemetry.epsilon)
        share = {} if error is None else {"error": f"{error[0]:.6f}", "half_width": f"{error[1]:.6f}"}
        self.log.info("truth.released", period=period.period, right=period.right, wrong=period.wrong, **share)

    def rejected(self, rejection: Rejection, position: int) -> None:
        """Tell of a message that is no true label: that is public, and nothing of it but its fault is told."""
        key, told = (self.shard, rejection.reason), self.telemetry.rejected
        told[key] = told.get(key, 0) + 1
        if told[key] <= _LOGGED:
            fault = f"{rejection.field}: must be {rejection.bound}"
            self.log.warning("truth.rejected", position=position, kind=rejection.reason.value, reason=fault)


def _on_files(model: TruthModel) -> Callable[[int], tuple[LogReader, LogReader]]:
    from connectors.local.reader import LineReader  # noqa: PLC0415 -- each bus when it is wanted

    sink, limits = model.config.sink, model.plan.limits
    if not isinstance(sink, FileSinkConfig) or model.table.path is None or model.shards > 1:
        raise RefusedError("truth: a state of several shards is served on Kafka, and its true labels are there too")
    answers, truths = (
        LineReader(path, follow=model.follow, body_limit=limits.body_bytes) for path in (sink.path, model.table.path)
    )
    return lambda _shard: (answers, truths)


async def _on_kafka(model: TruthModel) -> Callable[[int], tuple[LogReader, LogReader]]:
    from connectors.kafka.reader import PartitionReader  # noqa: PLC0415 -- each bus when it is wanted
    from connectors.kafka.topics import describe  # noqa: PLC0415
    from oracle.hosting.kafka_settings import kafka_settings  # noqa: PLC0415

    settings, topic = kafka_settings(model.config, model.plan.name), model.table.topic or ""
    facts = await describe(replace(settings, topic=topic, marks=None))
    for name in (topic, settings.answers):
        count = facts[name].partitions if name in facts else 0
        if count != model.shards:
            raise RefusedError(f"topic {name}: has {count} partitions, must have {model.shards}: one for each shard")
    return lambda shard: (
        PartitionReader(settings, settings.answers, shard),
        PartitionReader(settings, topic, shard),
    )
