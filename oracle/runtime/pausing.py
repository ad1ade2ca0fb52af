"""Looks now and then whether a process is to pause; whoever answers asks here, and waits for no disk."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

__all__ = ["PauseWatch"]

_LOOK_SECONDS: Final = 0.5


class PauseWatch:
    """Whether a process is to pause, as of the last look.

    Args:
        look: Says it; called in a thread, as it may hang. Where it fails, what was last known holds.
    """

    def __init__(self, look: Callable[[], bool]) -> None:
        self._look = look
        self._paused = False

    def __call__(self) -> bool:
        """Return whether it is to pause."""
        return self._paused

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Look until the context is left; on entering it is known already."""
        await self._look_once()
        watch = asyncio.create_task(self._run())
        try:
            yield
        finally:
            watch.cancel()
            await asyncio.wait({watch})

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self._look_once()

    async def _look_once(self) -> None:
        with contextlib.suppress(OSError):
            self._paused = await asyncio.to_thread(self._look)
