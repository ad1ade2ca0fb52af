"""What looks at a process all the time it runs: its health and its metrics, for whoever asks and whoever is told."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from oracle.telemetry.health import Health
from oracle.telemetry.log import PublicLog
from oracle.telemetry.metrics import Metrics
from oracle.telemetry.registry import Registry

__all__ = ["Watch", "log_failure", "watching"]


@dataclass(frozen=True, slots=True)
class Watch:
    """The health and the metrics of one process."""

    health: Health
    metrics: Metrics


@contextlib.asynccontextmanager
async def watching(
    registry: Registry, folder_of: Callable[[int], Path], stall_seconds: float, log: PublicLog
) -> AsyncIterator[Watch]:
    """Look at the registry's records and folders until the context is left; `Health` says how."""
    health = Health(registry, folder_of, stall_seconds)

    def unready() -> frozenset[int | None]:
        return frozenset(found.shard for found in health.not_ready())

    metrics = Metrics(registry, unready=unready, now=time.time)
    health.look()
    looking = asyncio.create_task(health.run())
    looking.add_done_callback(lambda done: log_failure(done, log))
    try:
        yield Watch(health, metrics)
    finally:
        looking.cancel()
        await asyncio.wait({looking})


def log_failure(task: "asyncio.Task[None]", log: PublicLog) -> None:
    """Log that a task beside the daemon has failed; the daemon goes on without it."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("web.server", kind=type(error).__name__, reason="ended")
