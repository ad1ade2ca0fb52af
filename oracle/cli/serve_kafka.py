"""`perpetua serve` on Kafka: many shards, as the consumer group has it."""

import asyncio
import logging
import os
from typing import Any

from oracle.cli.memory import settle_memory
from oracle.cli.version import version
from oracle.errors import BusError, PerpetuaError
from oracle.service.config import Config
from oracle.service.kafka_fleet import ClientChatter, KafkaModel, check_topics, make_fleet, open_model
from oracle.service.log import PublicLog

__all__ = ["serve_kafka"]

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 15.0


def serve_kafka(config: Config) -> None:
    """Serve the partitions that the group gives us until a signal comes.

    Raises:
        PerpetuaError: The state or the topics cannot be used, or a shard could not go on.
    """
    model = open_model(config)
    log = PublicLog(layout=config.service.log, model=model.plan.name)
    log.info("daemon.starting", version=version(), kind="kafka")
    settle_memory()
    client = logging.getLogger("aiokafka")
    client.propagate = False
    client.addHandler(ClientChatter(log))
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
    fleet, membership = make_fleet(model, log, version())
    fleet.install_signals(os._exit)
    await _wait_for_topics(model, log)
    await fleet.run(membership)


async def _wait_for_topics(model: KafkaModel, log: PublicLog) -> None:
    """Check the topics as soon as the brokers answer: a daemon may be started before they are."""
    pause = _FIRST_PAUSE
    while True:
        try:
            await check_topics(model)
        except BusError as exc:
            log.warning("bus.unavailable", error=str(exc))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            return
