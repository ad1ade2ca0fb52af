"""`perpetua serve` on MQTT: one shard, journalled on this machine."""

import asyncio
import os
import time
from typing import Any

from oracle.accounting.ledger import LedgerEvent
from oracle.cli.memory import settle_memory
from oracle.cli.version import version
from oracle.errors import PerpetuaError
from oracle.planning.plan import Plan
from oracle.predictors.base import PublicFacts
from oracle.service.assembly import open_store
from oracle.service.chatter import ClientChatter, hear_client
from oracle.service.config import Config
from oracle.service.daemon import Daemon, DaemonSettings
from oracle.service.log import PublicLog
from oracle.service.mqtt import open_bus
from oracle.service.standing import standing
from oracle.state.store import Store

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
    hear_client(ClientChatter(log))
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

    def announce(facts: PublicFacts, *, started: bool) -> LedgerEvent:
        return standing(plan, version(), facts, started=started)

    asyncio.get_running_loop().set_exception_handler(on_loose_end)
    bus = open_bus(config, plan, log)
    daemon = Daemon(
        plan=plan,
        store=store,
        source=bus.source,
        sink=bus.sink,
        log=log,
        settings=DaemonSettings(
            batch_rows=config.service.batch_rows,
            snapshot_rounds=config.state.snapshot_rounds,
            snapshot_seconds=config.state.snapshot_seconds,
            drain_seconds=config.service.drain_seconds,
        ),
        clock=time.monotonic,
        announce=announce,
        retention=bus.source,
    )
    daemon.install_signals(os._exit)
    return await daemon.run()
