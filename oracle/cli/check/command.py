"""`perpetua check`: find what would stop the daemon before a restart does."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

import msgspec
import typer

from connectors.base import Committed, Delivery, Source
from oracle.cli.check.findings import Finding, attempt, room_finding
from oracle.cli.check.web import web_findings
from oracle.cli.progress import Progress
from oracle.config.daemon import Config, FileSink, StdoutSink, load_config
from oracle.errors import StateError, WrongKeyError
from oracle.hosting.files import inspect_sink, last_commit, open_sink, open_source
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.planning.planner import verify_plan
from oracle.runtime.marks import CommitMark
from oracle.runtime.recovery import catch_up
from oracle.runtime.shard import Shard
from oracle.runtime.skip import standing_place
from oracle.state.folder import check_mode, is_held, newest_bytes, read_plan
from oracle.state.format import decode
from oracle.state.keys import read_key_file
from oracle.state.shards import refuse_sharded

__all__ = ["run"]


def run(
    config_file: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The configuration.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> None:
    """Check a configuration, its state, source and sink; change nothing. Exits 1 if something would stop `serve`."""
    findings = []
    for finding in _findings(config_file):
        findings.append(finding)
        if not as_json:
            verdict = "ok     " if finding.problem is None else "WRONG  "
            typer.echo(verdict + finding.what + (f": {finding.problem}" if finding.problem else ""))
    if as_json:
        typer.echo(msgspec.json.encode([{"what": f.what, "problem": f.problem} for f in findings]))
    if any(finding.problem for finding in findings):
        raise typer.Exit(1)


def _findings(config_file: Path) -> Iterator[Finding]:
    finding, config = attempt("configuration", lambda: load_config(config_file))
    yield finding
    if config is None:
        return
    if config.source.kind in {"kafka", "mqtt"}:
        yield from _on_a_bus(config)
        return
    yield from web_findings(config.web, held=is_held(config.state.folder))
    finding, _ = attempt("state folder exists and is private", lambda: _check_folder(config.state.folder))
    yield finding
    if finding.problem:
        return
    yield room_finding([config.state.folder])
    finding, plan = attempt("plan verified by the accountant", lambda: _plan(config))
    if plan is not None and plan.nominal:
        finding = Finding("plan recomputed: epsilon and delta are nominal, no proof bounds them", None)
    yield finding
    finding, key = attempt("key file", lambda: read_key_file(config.state.key_path))
    yield finding
    writable, _ = attempt("sink's folder is writable", lambda: _writable(config))
    yield writable
    if plan is None or key is None:
        return
    finding, shard = attempt("snapshot decrypts with this key and plan", lambda: _shard(config, plan, key))
    yield finding
    if shard is None:
        return
    sink, _ = attempt("sink matches the state", lambda: inspect_sink(config, shard))
    if not writable.problem:  # else it says the same
        yield sink
    source, _ = attempt("source can be read from the state's position", lambda: _read(config, plan, shard.position))
    yield source
    if not (writable.problem or sink.problem or source.problem) and (committed := last_commit(config)) is not None:
        finding, _ = attempt(
            "log matches the answers since the snapshot", lambda: _again(config, plan, shard, committed)
        )
        yield finding
        yield from () if finding.problem else _standing(config, plan, committed.position)
    if is_held(config.state.folder):
        yield Finding("a daemon is serving this state now; a second one would be refused", None)


def _on_a_bus(config: Config) -> Iterator[Finding]:
    if config.source.kind == "kafka":
        from oracle.cli.check.kafka import kafka_findings

        yield from kafka_findings(config)
    else:
        from oracle.cli.check.mqtt import mqtt_findings

        yield from mqtt_findings(config)


def _check_folder(folder: Path) -> None:
    check_mode(folder)
    refuse_sharded(folder)


def _plan(config: Config) -> Plan:
    data = read_plan(config.state.folder)
    if data is None:
        raise StateError(f"{config.state.folder}: holds no state; make one with `perpetua init`")
    plan = decode_plan(data)
    verify_plan(plan)
    return plan


def _shard(config: Config, plan: Plan, key: bytes) -> Shard:
    data = newest_bytes(config.state.folder)
    if data is None:
        raise StateError(f"{config.state.folder}: holds no snapshot; make one with `perpetua init`")
    try:
        return Shard(plan, decode(data, key, plan.digest))
    except WrongKeyError as exc:
        raise WrongKeyError(f"{exc}, {config.state.key_path}") from exc


def _writable(config: Config) -> None:
    open_sink(config)
    if not isinstance(config.sink, FileSink | StdoutSink):
        return
    answers = config.sink.path if isinstance(config.sink, FileSink) else None
    for path in (answers, config.sink.ledger, config.sink.dead_letter):
        if path is None:
            continue
        try:
            with TemporaryFile(dir=path.parent):  # of no name that somebody could have put a link at
                pass
        except OSError as exc:
            raise StateError(
                f"{path.parent}: cannot be written: {exc.strerror}; make the folder, or let this user write to it"
            ) from exc


def _read(config: Config, plan: Plan, position: int) -> None:
    if config.source.kind != "stdin":
        asyncio.run(_open(open_source(config, plan), position))


def _again(config: Config, plan: Plan, shard: Shard, committed: Committed) -> None:
    """Re-execute, in memory, what a restart would; of standard input nothing can be read."""
    if shard.position == committed.position:
        shard.check(CommitMark.unpack(committed.metadata))
    elif config.source.kind != "stdin":
        _read(config, plan, committed.position)  # a log that ends before is told at once
        asyncio.run(_catch_up(shard, open_source(config, plan), committed))


async def _catch_up(shard: Shard, source: Source, committed: Committed) -> None:
    with Progress("re-executing", committed.position, "of the source") as progress:
        try:
            await catch_up(shard, source, committed, progress.at)
        finally:
            await source.close()


def _standing(config: Config, plan: Plan, position: int) -> Iterator[Finding]:
    """Say what comes next, if anything does: so a message is found at which the daemon ends."""
    if config.source.kind != "stdin" and (behind := asyncio.run(_behind(open_source(config, plan), position))):
        yield Finding(standing_place(position, behind), None)


async def _behind(source: Source, position: int) -> Sequence[Delivery]:
    try:
        await source.open(position or None)
        return await source.fetch(1, 0.0)
    finally:
        await source.close()


async def _open(source: Source, position: int) -> None:
    try:
        await source.open(position or None)
    finally:
        await source.close()
