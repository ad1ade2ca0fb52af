"""`perpetua serve`: the daemon."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from oracle.cli.progress import Progress
from oracle.cli.serve.web import watched
from oracle.cli.version import version
from oracle.config.daemon import Config, load_config
from oracle.errors import PerpetuaError
from oracle.hosting.daemons import make_daemon
from oracle.hosting.files import (
    inspect_sink,
    last_commit,
    open_sink,
    open_source,
    open_store,
    stream_end,
)
from oracle.planning.plan import Plan
from oracle.runtime.memory import settle_memory
from oracle.state.store import Store
from oracle.telemetry.log import PublicLog
from oracle.telemetry.registry import Registry

__all__ = ["run"]


def run(config_file: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The configuration.")]) -> None:
    """Answer queries until the source ends or a signal arrives (a second one exits at once)."""
    config = load_config(config_file)
    if config.source.kind == "kafka":
        from oracle.cli.serve.kafka import serve_kafka

        serve_kafka(config)
        return
    if config.source.kind == "mqtt":
        from oracle.cli.serve.mqtt import serve_mqtt

        serve_mqtt(config)
        return
    store, plan = open_store(config.state)
    log = PublicLog(layout=config.service.log, model=plan.name)
    log.info("daemon.starting", version=version(), kind=config.source.kind)
    settle_memory()
    try:
        with store:
            header = store.peek()
            if header is not None:
                inspect_sink(config, header)
            _say_what_is_passed(config, log)
            rounds = asyncio.run(_serve(config, store, plan, log))
    except PerpetuaError as exc:
        log.error(  # noqa: TRY400 -- a traceback may hold private data
            "daemon.failed", error=str(exc)
        )
        raise
    log.info("daemon.stopped", round=rounds)


def _say_what_is_passed(config: Config, log: PublicLog) -> None:
    """Say how much of standard input is taken for answered: nobody can tell whether it is the same stream."""
    committed = last_commit(config)
    if config.source.kind == "stdin" and committed is not None and committed.position:
        log.info("source.passed", count=committed.position)


async def _serve(config: Config, store: Store, plan: Plan, log: PublicLog) -> int:
    board = Registry(plan, log, version=version())
    with Progress("serving", stream_end(config), "of the source") as progress:
        source, sink = open_source(config, plan), open_sink(config)
        daemon = make_daemon(config, plan, store, source, sink, board.shard(0), on_progress=progress.at)
        daemon.install_signals(os._exit)
        async with watched(config.web, board, lambda _shard: config.state.folder, log):
            return await daemon.run()
