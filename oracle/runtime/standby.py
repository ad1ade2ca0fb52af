"""Shards that other processes serve, kept where these have committed: taking one over waits for no restore.

Nothing is answered and nothing written. What a shard was brought to by re-execution is what its owner had, or the tags
tell; then it is dropped, and taking over begins with the snapshot, as without it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Final

from connectors.base import Committed, Source
from oracle.codec.guarded import Codec
from oracle.codec.kinds import codec_of
from oracle.errors import BusError
from oracle.planning.plan import Plan
from oracle.runtime.recovery import catch_up
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot

__all__ = ["Follower", "Standby"]

_LOOK_SECONDS: Final = 2.0
_REST_SECONDS: Final = 60.0
"""How long a shard is let be that could not be followed."""

_TAKE_SECONDS: Final = 1.0
"""Most time to wait for a shard that is just being brought forward; after that its snapshot is as quick."""

Place = tuple[Committed, Source]
"""What was last committed, and a source, not yet open, that goes up to there."""


class Follower:
    """Brings one shard to where its owner has committed, again and again.

    Args:
        load: Returns the newest snapshot, None if there is none.
        find: Returns the last commit and a source; None where nothing was committed.
        number: The shard's number, for errors.
        codec: Makes its codec.

    Attributes:
        shard: Where it was brought to; None before, and after anything went wrong with it.
    """

    def __init__(
        self,
        plan: Plan,
        load: Callable[[], Snapshot | None],
        find: Callable[[], Awaitable[Place | None]],
        number: int = 0,
        codec: Callable[[Plan], Codec] = codec_of,
    ) -> None:
        self._plan = plan
        self._load = load
        self._find = find
        self._number = number
        self._codec = codec
        self.shard: Shard | None = None

    async def follow(self) -> None:
        """Go as far as its owner has committed.

        Raises:
            PerpetuaError: See `catch_up`; nothing is kept of a shard that was half brought forward.
        """
        place = await self._find()
        if place is None:
            return
        committed, source = place
        shard, self.shard = self.shard, None  # whatever ends this leaves none that is half brought forward
        shard = shard or await asyncio.to_thread(self._first)
        if shard is None:
            return
        if shard.position != committed.position:
            try:
                await catch_up(shard, source, committed)
            finally:
                await source.close()
        self.shard = shard

    def _first(self) -> Shard | None:
        snapshot = self._load()
        return None if snapshot is None else Shard(self._plan, snapshot, codec=self._codec, number=self._number)


class Standby:
    """Follows the shards that others serve, one at a time.

    Args:
        make: Makes what follows a shard.
        others: Returns the numbers of the shards that others serve now.
        told: Called with the number of a shard that was brought to its commits for the first time.
    """

    def __init__(
        self,
        make: Callable[[int], Follower],
        others: Callable[[], Collection[int]],
        told: Callable[[int], None] = lambda _number: None,
    ) -> None:
        self._make = make
        self._others = others
        self._told = told
        self._followers: dict[int, Follower] = {}
        self._rests: dict[int, float] = {}
        self._running: tuple[int, asyncio.Task[None]] | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow until the context is left."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
            self._followers.clear()

    async def take(self, number: int) -> Shard | None:
        """Return a shard that is ours from now on, where its owner had committed lately; None to begin as always."""
        follower, running = self._followers.pop(number, None), self._running
        if follower is None:
            return None
        if running is not None and running[0] == number:
            await asyncio.wait({running[1]}, timeout=_TAKE_SECONDS)
            if not running[1].done():
                running[1].cancel()
                return None
        return follower.shard

    async def _run(self) -> None:
        while True:
            others = frozenset(self._others())
            for number in self._followers.keys() - others:
                del self._followers[number]
            for number in sorted(others):
                await self._follow(number)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _follow(self, number: int) -> None:
        clock = asyncio.get_running_loop().time
        if number not in self._others() or clock() < self._rests.get(number, 0.0):
            return  # it was given to us meanwhile, or is let be
        follower = self._followers.setdefault(number, self._make(number))
        before, task = follower.shard, asyncio.create_task(follower.follow())
        self._running = number, task
        try:
            await asyncio.wait({task})
        finally:
            self._running = None
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, BusError):
            self._followers.pop(number, None)  # it begins anew with the newest snapshot
            self._rests[number] = clock() + _REST_SECONDS
        elif before is None and follower.shard is not None:
            self._told(number)
