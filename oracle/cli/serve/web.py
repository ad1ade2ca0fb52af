"""The web server beside what `perpetua serve` does."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from oracle.config.web import WebTable
from oracle.errors import LogDivergedError
from oracle.telemetry.log import PublicLog
from oracle.telemetry.registry import Registry

__all__ = ["watched"]

_SHOWN_SECONDS: Final = 45.0
"""For how long a diverged log is shown before the process ends: long enough to be scraped."""


@contextlib.asynccontextmanager
async def watched(
    table: WebTable | None, board: Registry, folder_of: Callable[[int], Path], log: PublicLog
) -> AsyncIterator[None]:
    """Return the context in which the board can be looked at, as `[web]` says; without `[web]`, by nobody.

    If a log that is not the one that was answered ends what is done within it, that can be looked at for a while more,
    until a signal comes at the latest.

    Raises:
        InputError: On entering: the port is taken, or the token file cannot be used.
    """
    if table is None:
        yield
        return
    from oracle.web.server import serving

    async with serving(table, board, folder_of, log):
        try:
            yield
        except Exception as exc:
            if not board.is_draining:
                board.failed(exc)
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
