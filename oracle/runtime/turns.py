"""`Turns`: the shards of a process answer few messages one after another."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

__all__ = ["Turns"]

_LONGEST: Final = 0.1


class Turns:
    """Who answers next, in the order in which they ask; nobody waits longer than 0.1 s for one who takes long.

    Threads share one interpreter. Fifty that answer at the same time are no faster than one, and between them the event
    loop, which takes several steps to commit what was answered, waits at each step for all of them.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def next(self) -> AsyncIterator[None]:
        """Wait for one's turn, which lasts until the context is left."""
        ours = True
        try:
            async with asyncio.timeout(_LONGEST):
                await self._lock.acquire()
        except TimeoutError:
            ours = False
        try:
            yield
        finally:
            if ours:
                self._lock.release()
