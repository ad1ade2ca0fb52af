"""The web server, and what is sent by OTLP, beside what `perpetua serve` does."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from typing import Final

from oracle.cli.serve.otlp import Export
from oracle.config.web import WebConfig
from oracle.errors import LogDivergedError
from oracle.telemetry.log import PublicLog
from oracle.telemetry.models import Models

__all__ = ["web_beside"]

_SHOWN_SECONDS: Final = 45.0
"""For how long a diverged log is shown before the process ends: long enough to be scraped."""


@contextlib.asynccontextmanager
async def web_beside(
    table: WebConfig | None, models: Models, log: PublicLog, export: Export | None = None
) -> AsyncIterator[None]:
    """Run the web server that `[web]` asks for, and what `[otlp]` does, beside what is done in the context.

    Where a log that is not the one that was answered ends the context, a web server stays up for 45 seconds, or until a
    signal comes, so that the failure is scraped; by OTLP it is sent.

    Raises:
        InputError: On entering: the port is taken, or a file cannot be used.
    """
    if table is None and export is None:
        yield
        return
    from oracle.telemetry.watch import watching

    stall_seconds = (table or WebConfig()).ready_lag_seconds
    async with contextlib.AsyncExitStack() as stack:
        observers = await stack.enter_async_context(watching(models, stall_seconds, log))
        if export is not None:
            await stack.enter_async_context(export(observers, log))
        if table is not None:
            from oracle.web.server import serving

            await stack.enter_async_context(serving(table, observers, log))
        try:
            yield
        except Exception as exc:
            if not models.are_draining:
                models.ended(exc)
                if table is not None and isinstance(exc, LogDivergedError):
                    await _a_while()
            raise


async def _a_while() -> None:
    """Wait for the time that a failure is shown, or a signal."""
    loop, signalled = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(signalled.wait(), _SHOWN_SECONDS)
