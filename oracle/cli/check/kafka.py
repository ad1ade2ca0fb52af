"""What `perpetua check` looks at where the source is Kafka: topics, group and records, beside the state."""

import asyncio
from functools import partial
from typing import Final

from connectors.kafka.rights import check_rights
from connectors.kafka.topics import count_partitions
from oracle.cli.check.findings import Findings, place_of
from oracle.cli.kafka import last_commit
from oracle.cli.states import newest_snapshot
from oracle.config.daemon import Config
from oracle.errors import MisplacedError, PerpetuaError
from oracle.hosting.kafka import KafkaModel, check_topics, misplaced, open_model, topic_notes
from oracle.hosting.registered import SchemaRegistry
from oracle.runtime.shard import Shard
from oracle.state.folder import check_mode, is_held
from oracle.state.format import Snapshot
from oracle.state.shards import shard_folder
from oracle.telemetry.client_logs import hear_client

__all__ = ["check_kafka"]

_WAIT: Final = 1.0
"""Seconds to wait for a message behind the last commit."""


def check_kafka(config: Config, findings: Findings) -> None:
    """Check a state that is served from Kafka; fence nobody, change nothing."""
    hear_client()
    if not findings.holds("state folder exists and is private", lambda: check_mode(config.state.folder)):
        return
    model = findings.get("state, key file and settings", lambda: open_model(config))
    if model is None:
        return
    folders = [shard_folder(config.state.folder, shard) for shard in range(model.shards)]
    findings.web(config.web, held=any(map(is_held, folders)))
    findings.otlp(config)
    findings.space(folders)
    findings.plan(lambda: model.plan)
    for note in findings.get("topics exist and fit the plan", lambda: asyncio.run(_look_at_topics(model))) or ():
        findings.note(note)
    if not any(finding.unreachable for finding in findings):
        findings.holds(
            "ACLs allow reading, writing and committing",
            lambda: asyncio.run(check_rights(model.settings, model.shards)),
        )
    if model.schemas is not None:
        findings.holds("registry has the schema of answers, or takes it", partial(_check_registry, model.schemas))
    served = _served(model)
    if served < model.shards:
        findings.note(f"{model.shards - served} of {model.shards} shards wait for a partition of the query topic")
    for partition in range(served):
        what = f"shard {partition}: snapshot decrypts and matches the group's offset and the topic"
        place = findings.get(what, partial(_check_shard, model, partition))
        if place:
            findings.note(f"shard {partition}: {place}")


def _check_registry(schemas: SchemaRegistry) -> None:
    asyncio.run(schemas.check())


def _served(model: KafkaModel) -> int:
    """Return how many shards have a partition; all, where nobody can tell: that is noted already."""
    try:
        return min(asyncio.run(count_partitions(model.settings)) or model.shards, model.shards)
    except PerpetuaError:
        return model.shards


async def _look_at_topics(model: KafkaModel) -> list[str]:
    await check_topics(model)
    return await topic_notes(model)


def _check_shard(model: KafkaModel, partition: int) -> str:
    config = model.config.state
    snapshot, _ = newest_snapshot(shard_folder(config.folder, partition), config.key_path, model.plan)
    return asyncio.run(_check_position(model, partition, snapshot))


async def _check_position(model: KafkaModel, partition: int, snapshot: Snapshot) -> str:
    """Return in words where the shard stands, if something is behind its last commit."""
    committed, make_source = await last_commit(model.settings, partition)
    source = model.source(make_source(), partition, keeps=False)
    try:
        return await place_of(Shard(model.plan, snapshot, codec=model.codec(partition)), source, committed, _WAIT)
    except MisplacedError as exc:
        raise misplaced(model.settings, partition, exc) from exc
