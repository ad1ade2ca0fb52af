"""What `perpetua check` looks at where the source is MQTT: the journal, the outbox and the broker, beside the state."""

import asyncio
import logging
from collections.abc import Iterator

from connectors.journal.source import JournalSource
from connectors.mqtt.messages import delivery
from connectors.mqtt.probe import probe
from oracle.cli.check.findings import Finding, attempt, room_finding
from oracle.cli.check.web import web_findings
from oracle.config.daemon import Config
from oracle.errors import MisplacedError, StateError
from oracle.hosting.mqtt import last_commit, misplaced, mqtt_settings, open_journals
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.planning.planner import verify_plan
from oracle.runtime.recovery import catch_up, check_order
from oracle.runtime.shard import Shard
from oracle.runtime.skip import standing_place
from oracle.state.folder import check_mode, is_held, newest_bytes, read_plan
from oracle.state.format import decode
from oracle.state.keys import read_key_file
from oracle.state.shards import refuse_sharded
from oracle.telemetry.library_logs import hear_client

__all__ = ["mqtt_findings"]


def mqtt_findings(config: Config) -> Iterator[Finding]:
    """Check a state that is served over MQTT; take nobody's session over, change nothing."""
    hear_client(logging.NullHandler())
    finding, _ = attempt("state folder exists and is private", lambda: _check_folder(config))
    yield finding
    if finding.problem:
        return
    yield from web_findings(config.web, held=is_held(config.state.folder))
    yield room_finding([config.state.folder])
    finding, plan = attempt("plan can be read", lambda: _plan(config))
    yield finding
    if plan is None:
        return
    finding, _ = attempt("plan verified by the accountant", lambda: verify_plan(plan))
    yield finding
    finding, shard = attempt("snapshot decrypts with this key and plan", lambda: _shard(config, plan))
    yield finding
    if shard is not None:
        finding, stands = attempt(
            "journal and outbox are intact and match the state", lambda: asyncio.run(_again(config, plan, shard))
        )
        yield finding
        if stands:
            yield Finding(stands, None)
    finding, settings = attempt("settings and secrets", lambda: mqtt_settings(config, plan))
    yield finding
    if settings is not None:
        finding, _ = attempt("broker accepts us and supports what is needed", lambda: asyncio.run(probe(settings)))
        yield finding
    if is_held(config.state.folder):
        yield Finding("a daemon is serving this state now; a second one would be refused", None)


def _check_folder(config: Config) -> None:
    check_mode(config.state.folder)
    refuse_sharded(config.state.folder)


def _plan(config: Config) -> Plan:
    data = read_plan(config.state.folder)
    if data is None:
        raise StateError(f"{config.state.folder}: holds no state; make one with `perpetua init`")
    return decode_plan(data)


def _shard(config: Config, plan: Plan) -> Shard:
    data = newest_bytes(config.state.folder)
    if data is None:
        raise StateError(f"{config.state.folder}: holds no snapshot; make one with `perpetua init`")
    return Shard(plan, decode(data, read_key_file(config.state.key_path), plan.digest))


async def _again(config: Config, plan: Plan, shard: Shard) -> str:
    """Re-execute, in memory, what a restart would; return where the shard stands, if something is behind that."""
    committed = last_commit(config, plan)
    try:
        check_order(shard, committed)
    except MisplacedError as exc:
        raise misplaced(config, exc) from exc
    journal, _ = open_journals(config, plan)
    journal.inspect()
    source = JournalSource(journal, delivery, live=False)
    try:
        _, behind = await catch_up(shard, source, committed)
        behind = behind or await source.fetch(1, 0.0)
        return standing_place(shard.position, behind) if behind else ""
    finally:
        await source.close()
