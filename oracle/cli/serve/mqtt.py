"""`perpetua serve` on MQTT: one shard, journalled on this machine."""

import asyncio
import os
from typing import Any

from oracle.accounting.ledger import LedgerEvent
from oracle.cli.serve.web import watched
from oracle.cli.version import version
from oracle.config.daemon import Config
from oracle.errors import MisplacedError, PerpetuaError
from oracle.hosting.daemons import make_daemon
from oracle.hosting.files import open_store
from oracle.hosting.mqtt import misplaced, open_bus
from oracle.planning.plan import Plan
from oracle.runtime.memory import settle_memory
from oracle.state.store import Store
from oracle.telemetry.ledger_event import standing
from oracle.telemetry.library_logs import LibraryLog, hear_client
from oracle.telemetry.log import PublicLog
from oracle.telemetry.records import ShardTelemetry
from oracle.telemetry.registry import Registry

__all__ = ["serve_mqtt"]


def serve_mqtt(config: Config) -> None:
    """Serve until a signal comes.

    Raises:
        PerpetuaError: The state, the journal or the broker cannot be used.
    """
    store, plan = open_store(config.state)
    log = PublicLog(layout=config.service.log, model=plan.name)
    log.info("daemon.starting", version=version(), kind="mqtt")
    settle_memory()
    hear_client(LibraryLog(log))
    try:
        with store:
            rounds = asyncio.run(_serve(config, store, plan, log))
    except PerpetuaError as exc:
        log.error(  # noqa: TRY400 -- a traceback may hold private data
            "daemon.failed", error=str(exc)
        )
        raise
    log.info("daemon.stopped", round=rounds)


async def _serve(config: Config, store: Store, plan: Plan, log: PublicLog) -> int:
    def on_loose_end(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The client may leave failed futures behind that nobody asks for; their texts are not ours to print."""
        error = context.get("exception")
        log.warning("bus.client", kind=type(error).__name__ if error else "loop")

    def announce(record: ShardTelemetry, *, started: bool) -> LedgerEvent:
        return standing(version(), record, started=started)

    asyncio.get_running_loop().set_exception_handler(on_loose_end)
    board = Registry(plan, log, version=version())
    watch = board.shard(0)
    bus = open_bus(config, plan, log, watch)
    daemon = make_daemon(config, plan, store, bus.source, bus.sink, watch, announce=announce, retention=bus.source)
    daemon.install_signals(os._exit)
    async with watched(config.web, board, lambda _shard: config.state.folder, log):
        try:
            return await daemon.run()
        except MisplacedError as exc:
            raise misplaced(config, exc) from exc
