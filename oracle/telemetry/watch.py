"""Who looks at a process's models all the time it runs, for whoever asks and whoever is told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from oracle.telemetry.log import PublicLog
from oracle.telemetry.models import Models
from oracle.telemetry.observers import Observers

__all__ = ["log_failure", "watching"]


@contextlib.asynccontextmanager
async def watching(models: Models, stall_seconds: float, log: PublicLog) -> AsyncIterator[Observers]:
    """Look at the models' records and folders until the context is left; `Observers` says how."""
    observers = Observers(models, stall_seconds)
    observers.look()
    looking = asyncio.create_task(observers.run())
    looking.add_done_callback(lambda done: log_failure(done, log))
    try:
        yield observers
    finally:
        looking.cancel()
        await asyncio.wait({looking})


def log_failure(task: "asyncio.Task[None]", log: PublicLog) -> None:
    """Log that a task beside the daemon has failed; the daemon goes on without it."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("web.server", kind=type(error).__name__, reason="ended")
