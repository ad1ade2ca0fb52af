"""What every `perpetua serve` does around its daemon, whatever the queries come from."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from oracle.cli.version import version
from oracle.config.daemon import Config
from oracle.errors import PerpetuaError
from oracle.runtime.memory import settle_memory
from oracle.telemetry.client_logs import LibraryLog, hear_client
from oracle.telemetry.log import PublicLog

__all__ = ["run_logged"]


def run_logged(config: Config, model: str, work: Callable[[PublicLog], Coroutine[Any, Any, int | None]]) -> None:
    """Run the daemon, whose rounds `work` returns where it serves one shard; log its beginning, and how it ends.

    Args:
        config: The daemon's, or that of any of its models.
        model: The model's name; "" where there are many.
        work: What is run.

    Raises:
        PerpetuaError: Whatever ends `work`.
    """
    log = PublicLog(layout=config.service.log, model=model)
    log.info("daemon.starting", version=version(), kind=config.source.kind)
    settle_memory()
    hear_client(LibraryLog(log))

    async def guarded() -> int | None:
        asyncio.get_running_loop().set_exception_handler(on_loose_end)
        return await work(log)

    def on_loose_end(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A bus's client leaves failed futures behind that nobody awaits; their texts are not ours to print."""
        error = context.get("exception")
        log.warning("bus.client", kind=type(error).__name__ if error else "loop")

    try:
        rounds = asyncio.run(guarded())
    except PerpetuaError as exc:
        log.error("daemon.failed", error=str(exc))  # noqa: TRY400 -- a traceback may hold private data
        raise
    log.info("daemon.stopped", **({} if rounds is None else {"round": rounds}))
