"""`perpetua serve` on Kafka: many shards, as the consumer group has it."""

import asyncio
import os
from typing import Any

from oracle.cli.serve.web import watched
from oracle.cli.version import version
from oracle.config.daemon import Config
from oracle.errors import PerpetuaError
from oracle.hosting.kafka import KafkaModel, make_fleet, open_model
from oracle.runtime.memory import settle_memory
from oracle.state.shards import shard_folder
from oracle.telemetry.library_logs import LibraryLog, hear_client
from oracle.telemetry.log import PublicLog
from oracle.telemetry.registry import Registry

__all__ = ["serve_kafka"]


def serve_kafka(config: Config) -> None:
    """Serve the partitions that the group gives us until a signal comes.

    Raises:
        PerpetuaError: The state or the topics cannot be used, or a shard could not go on.
    """
    model = open_model(config)
    log = PublicLog(layout=config.service.log, model=model.plan.name)
    log.info("daemon.starting", version=version(), kind="kafka")
    settle_memory()
    hear_client(LibraryLog(log))
    try:
        asyncio.run(_serve(model, log))
    except PerpetuaError as exc:
        log.error(  # noqa: TRY400 -- a traceback may hold private data
            "daemon.failed", error=str(exc)
        )
        raise
    log.info("daemon.stopped")


async def _serve(model: KafkaModel, log: PublicLog) -> None:
    def on_loose_end(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The client leaves failed futures behind that nobody asks for; their texts are not ours to print."""
        error = context.get("exception")
        log.warning("bus.client", kind=type(error).__name__ if error else "loop")

    asyncio.get_running_loop().set_exception_handler(on_loose_end)
    board = Registry(model.plan, log, version=version(), shards=model.shards, grouped=True)
    folders = [shard_folder(model.config.state.folder, shard) for shard in range(model.shards)]
    async with watched(model.config.web, board, folders.__getitem__, log):
        fleet, membership = make_fleet(model, board, version())
        fleet.install_signals(os._exit)
        await fleet.run(membership)
