"""`perpetua serve` on files, standard streams or MQTT: one shard, in this process."""

import contextlib
import os
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from oracle.accounting.ledger import LedgerEvent
from oracle.cli.progress import Progress
from oracle.cli.serve.process import run_logged
from oracle.cli.serve.web import web_beside
from oracle.cli.version import version
from oracle.config.daemon import Config
from oracle.errors import MisplacedError, StateError
from oracle.hosting.files import (
    daemon_settings,
    inspect_sink,
    last_commit,
    new_engine,
    open_sink,
    open_source,
    open_store,
    stream_end,
)
from oracle.planning.plan import Plan
from oracle.runtime.daemon import Daemon
from oracle.state.store import Store
from oracle.telemetry.ledger_event import standing
from oracle.telemetry.log import PublicLog
from oracle.telemetry.records import ShardTelemetry
from oracle.telemetry.registry import Registry
from oracle.telemetry.reporter import Reporter

__all__ = ["serve_single"]


def serve_single(config: Config) -> None:
    """Serve until the source ends or a signal comes.

    Raises:
        PerpetuaError: The state, the source or the sink cannot be used.
    """
    store, plan = open_store(config.state)
    with store:
        run_logged(config, plan, partial(_serve, config, store, plan))


async def _serve(config: Config, store: Store, plan: Plan, log: PublicLog) -> int:
    registry = Registry(plan, log, version=version())
    reporter = registry.shard(0)
    ends = _mqtt_ends if config.source.kind == "mqtt" else _file_ends
    with contextlib.closing(new_engine(config, log)) as engine, ends(config, store, plan, log, reporter) as parts:
        daemon = Daemon(
            plan=plan,
            store=store,
            watch=reporter,
            settings=daemon_settings(config),
            clock=time.monotonic,
            restore=engine.restore,
            **parts,
        )
        daemon.install_signals(os._exit)
        async with web_beside(config.web, registry, lambda _shard: config.state.folder, log):
            try:
                return await daemon.run()
            except MisplacedError as exc:
                raise _explained(config, exc) from exc


def _explained(config: Config, error: MisplacedError) -> StateError:
    """Return what is said where a snapshot is ahead of what was committed."""
    if config.source.kind != "mqtt":
        return error
    from oracle.hosting.mqtt import misplaced

    return misplaced(config, error)


@contextlib.contextmanager
def _file_ends(
    config: Config, store: Store, plan: Plan, log: PublicLog, _reporter: Reporter
) -> Iterator[dict[str, Any]]:
    """Lend the daemon's parts that are of files; log how much of standard input is taken for answered."""
    header = store.peek()
    if header is not None:
        inspect_sink(config, header)
    committed = last_commit(config) if config.source.kind == "stdin" else None
    if committed is not None and committed.position:  # nobody can tell whether it is the same stream
        log.info("source.passed", count=committed.position)
    with Progress("serving", stream_end(config), "of the source") as progress:
        yield {"source": open_source(config, plan), "sink": open_sink(config), "on_progress": progress.at}


@contextlib.contextmanager
def _mqtt_ends(
    config: Config, _store: Store, plan: Plan, log: PublicLog, reporter: Reporter
) -> Iterator[dict[str, Any]]:
    """Lend the daemon's parts that are of MQTT."""
    from oracle.hosting.mqtt import open_bus

    def announce(record: ShardTelemetry, *, started: bool) -> LedgerEvent:
        return standing(version(), record, started=started)

    bus = open_bus(config, plan, log, reporter)
    yield {"source": bus.source, "sink": bus.sink, "announce": announce, "retention": bus.source}
