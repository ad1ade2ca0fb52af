"""What `perpetua check` looks at where the source is Kafka: topics, group and records, beside the state."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

from connectors.base import Committed
from connectors.kafka.committed_offset import committed_offset
from connectors.kafka.rights import check_rights
from connectors.kafka.source import KafkaSource
from oracle.cli.check.findings import Finding, attempt, room_finding
from oracle.cli.check.web import web_findings
from oracle.config.daemon import Config
from oracle.errors import MisplacedError, StateError
from oracle.hosting.kafka import KafkaModel, check_topics, misplaced, open_model
from oracle.planning.planner import verify_plan
from oracle.runtime.recovery import catch_up
from oracle.runtime.shard import Shard
from oracle.runtime.skip import standing_place
from oracle.state.folder import check_mode, is_held, newest_bytes
from oracle.state.format import decode
from oracle.state.shards import shard_folder
from oracle.telemetry.library_logs import hear_client

__all__ = ["kafka_findings"]

_WAIT: Final = 1.0
"""Seconds to wait for a message behind the last commit."""


def kafka_findings(config: Config) -> Iterator[Finding]:
    """Check a state that is served from Kafka; fence nobody, change nothing."""
    hear_client(logging.NullHandler())
    finding, _ = attempt("state folder exists and is private", lambda: check_mode(config.state.folder))
    yield finding
    if finding.problem:
        return
    finding, model = attempt("state, key file and settings", lambda: open_model(config))
    yield finding
    if model is None:
        return
    folders = [shard_folder(config.state.folder, shard) for shard in range(model.shards)]
    yield from web_findings(config.web, held=any(map(is_held, folders)))
    yield room_finding(folders)
    finding, _ = attempt("plan verified by the accountant", lambda: verify_plan(model.plan))
    yield finding
    finding, _ = attempt("topics exist and fit the plan", lambda: asyncio.run(check_topics(model)))
    yield finding
    if not finding.unreachable:
        finding, _ = attempt("ACLs allow reading, writing and committing", lambda: asyncio.run(_check_rights(model)))
        yield finding
    for partition in range(model.shards):
        what = f"shard {partition}: snapshot decrypts and matches the group's offset and the topic"
        finding, stands = attempt(what, lambda number=partition: _check_shard(model, number))  # type: ignore[misc]
        yield finding
        if stands:
            yield Finding(f"shard {partition}: {stands}", None)


async def _check_rights(model: KafkaModel) -> None:
    await check_rights(model.settings, model.shards)


def _check_shard(model: KafkaModel, partition: int) -> str:
    folder = shard_folder(model.config.state.folder, partition)
    data = newest_bytes(folder)
    if data is None:
        msg = f"{folder}: holds no snapshot; make one with `perpetua init`"
        raise StateError(msg)
    shard = Shard(model.plan, decode(data, model.master_key, model.plan.digest))
    return asyncio.run(_check_place(model, partition, shard))


async def _check_place(model: KafkaModel, partition: int, shard: Shard) -> str:
    """Return in words where the shard stands, if something is behind its last commit."""
    source = KafkaSource(model.settings, partition)
    found = await committed_offset(model.settings, partition)
    committed = None
    if found is not None:
        committed = Committed(found[0], found[1].mark)
        source.progress.expect(*found)
    try:
        _, behind = await catch_up(shard, source, committed)
        behind = behind or await source.fetch(1, _WAIT)
        return standing_place(shard.position, behind) if behind else ""
    except MisplacedError as exc:
        raise misplaced(model.settings, partition, exc) from exc
    finally:
        await source.close()
