"""Looks now and then whether a process is to pause; whoever answers asks here, and waits for no disk."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

__all__ = ["PauseWatch"]

_LOOK_SECONDS: Final = 0.5


class PauseWatch:
    """Whether a process is to pause, as of the last look.

    Args:
        look: Says it; called in a thread of its own, as it may hang: it takes none of those that answer. Where it
            fails, what was last known holds.
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
        thread = ThreadPoolExecutor(1, "pause")
        try:
            await self._look_once(thread)
            watch = asyncio.create_task(self._run(thread))
            try:
                yield
            finally:
                watch.cancel()
                await asyncio.wait({watch})
        finally:
            thread.shutdown(wait=False)

    async def _run(self, thread: ThreadPoolExecutor) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self._look_once(thread)

    async def _look_once(self, thread: ThreadPoolExecutor) -> None:
        with contextlib.suppress(OSError):
            self._paused = await asyncio.get_running_loop().run_in_executor(thread, self._look)
