"""The web server beside what `perpetua serve` does."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from typing import Final

from oracle.config.web import WebConfig
from oracle.errors import LogDivergedError
from oracle.telemetry.log import PublicLog
from oracle.telemetry.models import Models

__all__ = ["web_beside"]

_SHOWN_SECONDS: Final = 45.0
"""For how long a diverged log is shown before the process ends: long enough to be scraped."""


@contextlib.asynccontextmanager
async def web_beside(table: WebConfig | None, models: Models, log: PublicLog) -> AsyncIterator[None]:
    """Run the web server that `[web]` asks for beside what is done in the context; without `[web]` there is none.

    Where a log that is not the one that was answered ends the context, the server stays up for 45 seconds, or until a
    signal comes, so that the failure is scraped.

    Raises:
        InputError: On entering: the port is taken, or the token file cannot be used.
    """
    if table is None:
        yield
        return
    from oracle.web.server import serving

    async with serving(table, models, log):
        try:
            yield
        except Exception as exc:
            if not models.are_draining:
                models.ended(exc)
                if isinstance(exc, LogDivergedError):
                    await _a_while()
            raise


async def _a_while() -> None:
    """Wait for the time that a failure is shown, or a signal."""
    loop, signalled = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(signalled.wait(), _SHOWN_SECONDS)
