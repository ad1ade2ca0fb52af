"""`perpetua serve` on files, standard streams, MQTT or HTTP: one shard, in this process."""

import contextlib
import os
from collections.abc import Iterator
from functools import partial
from typing import Any

from connectors.base import Sink, Source
from oracle.cli.progress import Progress
from oracle.cli.serve.otlp import export_of
from oracle.cli.serve.process import run_logged
from oracle.cli.serve.web import web_beside
from oracle.cli.version import version
from oracle.config.daemon import Config
from oracle.errors import MisplacedError, StateError
from oracle.hosting.daemons import daemon_settings
from oracle.hosting.files import (
    inspect_sink,
    last_commit,
    open_sink,
    open_source,
    open_store,
    stream_end,
)
from oracle.planning.plan import Plan
from oracle.runtime.daemon import Daemon
from oracle.runtime.pausing import PauseWatch
from oracle.state.paused import is_paused
from oracle.state.store import Store
from oracle.telemetry.ledger_event import shard_event
from oracle.telemetry.log import PublicLog
from oracle.telemetry.models import Models
from oracle.telemetry.registry import Registry
from oracle.telemetry.reporter import Reporter

__all__ = ["serve_single"]

Ends = tuple[Source, Sink, dict[str, Any]]
"""The source, the sink, and what else the daemon is made with; `beside`, if there is such, runs beside it."""


def serve_single(config: Config) -> None:
    """Serve until the source ends or a signal comes.

    Raises:
        PerpetuaError: The state, the source or the sink cannot be used.
    """
    store, plan = open_store(config.state)
    with store:
        run_logged(config, plan.name, partial(_serve, config, store, plan))


async def _serve(config: Config, store: Store, plan: Plan, log: PublicLog) -> int:
    registry = Registry(plan, log, version=version())
    reporter = registry.shard(0)
    ends = {"mqtt": _mqtt_ends, "http": _http_ends}.get(config.source.kind, _file_ends)
    paused = PauseWatch(partial(is_paused, config.state.folder))
    with ends(config, store, plan, log, reporter, paused) as (source, sink, more):
        beside = more.pop("beside", contextlib.nullcontext())
        daemon = Daemon(
            plan=plan,
            store=store,
            source=source,
            sink=sink,
            reporter=reporter,
            settings=daemon_settings(config),
            paused=paused,
            **more,
        )
        daemon.install_signals(os._exit)
        models = Models.only(registry, lambda _shard: config.state.folder, log)
        export = export_of(config, {plan.name: getattr(config.source, "topic", None)})
        async with web_beside(config.web, models, log, export), paused.watching(), beside:
            try:
                return await daemon.run()
            except MisplacedError as exc:
                raise _explained(config, exc) from exc


def _explained(config: Config, error: MisplacedError) -> StateError:
    if config.source.kind == "mqtt":
        from oracle.hosting import mqtt

        return mqtt.misplaced(config, error)
    if config.source.kind == "http":
        from oracle.hosting import http

        return http.misplaced(config, error)
    return error


@contextlib.contextmanager
def _file_ends(
    config: Config, store: Store, plan: Plan, log: PublicLog, _reporter: Reporter, _paused: PauseWatch
) -> Iterator[Ends]:
    """Lend the daemon's parts that are of files; log how much of standard input is taken for answered."""
    header = store.peek()
    if header is not None:
        inspect_sink(config, header)
    committed = last_commit(config) if config.source.kind == "stdin" else None
    if committed is not None and committed.position:  # nobody can tell whether it is the same stream
        log.info("source.passed", count=committed.position)
    with Progress("serving", stream_end(config), "of the source") as progress:
        yield open_source(config, plan), open_sink(config), {"on_progress": progress.at}


@contextlib.contextmanager
def _mqtt_ends(
    config: Config, _store: Store, plan: Plan, log: PublicLog, reporter: Reporter, _paused: PauseWatch
) -> Iterator[Ends]:
    from oracle.hosting.mqtt import open_bus

    source, sink = open_bus(config, plan, log, reporter)
    yield source, sink, {"announce": partial(shard_event, version()), "retention": source}


@contextlib.contextmanager
def _http_ends(
    config: Config, _store: Store, plan: Plan, log: PublicLog, _reporter: Reporter, paused: PauseWatch
) -> Iterator[Ends]:
    from oracle.hosting.http import open_ends
    from oracle.web.asking import asking

    ends = open_ends(config, plan)
    beside = asking(ends.table, ends.desk, ends.secret, plan.limits.body_bytes, log, paused)
    announce = partial(shard_event, version())
    yield ends.source, ends.sink, {"announce": announce, "retention": ends.source, "beside": beside}
