"""`Together`: what the shards of a process have in flight, and one thread that answers their small batches.

Threads share one interpreter. Fifty that answer at the same time are no faster than one, and between them the event
loop, which takes several steps to commit what was answered, waits at each step for all of them. So one thread answers
what all shards have, one after another, and their answers go into one transaction.

Short of a backlog, the messages that came meanwhile are fetched when that has ended, all of them: whatever was fetched
before would only wait, in smaller batches, each of which costs the brokers and us the same.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar
from weakref import WeakSet

from oracle.errors import ResourceError

__all__ = ["InFlight", "Together"]

_T = TypeVar("_T")

_JOINING: Final = 3
_TAKING: Final = 8
"""Rounds of the event loop in which shards whose messages came together hand them in, and take them up, one by one."""

_LOOK: Final = 0.05
"""Seconds after which those are told whose answers are there, while the thread goes on with others'."""

_LONG: Final = 2
"""Looks for which others wait for a batch that takes long: from then on those behind it have threads of their own."""

_LATE: Final = 0.25
"""Most seconds to wait for batches that are in flight; for the answers of one, and for its commit."""


class InFlight:
    """One batch of a shard, from when it was fetched until its answers are durable.

    Args:
        owner: Whose it is.

    Attributes:
        over: Done when they are, or nobody waits for it any longer.
    """

    def __init__(self, together: "Together", owner: object) -> None:
        self._together = together
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(_LATE, self.leave)
        self.over: asyncio.Future[None] = self._loop.create_future()

    async def run(self, work: Callable[[], _T]) -> _T:
        """Have it answered by `work`, or a part of it, in a thread; raise what that raises.

        Raises:
            ResourceError: No thread can be had.
        """
        try:
            answered: _T = await self._together.run(self, work)
        except BaseException:
            self.leave()
            raise
        return answered

    def answered(self) -> None:
        """All that it waits for is its commit."""
        self._timer.cancel()
        self._timer = self._loop.call_later(_LATE, self._end_late)

    def end(self) -> None:
        """Its answers are durable."""
        self._timer.cancel()
        if not self.over.done():
            self._together.late.discard(self._owner)
        self.leave()

    def leave(self) -> None:
        """Let nobody wait for it any longer."""
        self._together.forget(self)
        if not self.over.done():
            self.over.set_result(None)

    def _end_late(self) -> None:
        self._together.late.add(self._owner)
        self.leave()


class _Handed:
    """A batch's work, and what came of it."""

    def __init__(self, batch: InFlight, work: Callable[[], Any]) -> None:
        self.batch = batch
        self.told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.result: Any = None
        self.error: BaseException | None = None
        self._work = work

    def run(self) -> None:
        """Do it, in a thread, unless nobody waits for it any more."""
        if self.told.done():
            return
        try:
            self.result = self._work()
        except BaseException as exc:  # noqa: BLE001 -- raised where it is waited for
            self.error = exc

    def tell(self, error: BaseException | None = None) -> None:
        """Let go on whoever waits for it."""
        self.error = self.error or error
        if not self.told.done():
            self.told.set_result(None)


async def _alone(handed: _Handed) -> None:
    """Run a work in a thread of its own."""
    timer = asyncio.get_running_loop().call_later(_LONG * _LOOK, handed.batch.leave)
    try:
        await asyncio.to_thread(handed.run)
    except RuntimeError:
        handed.tell(ResourceError("threads: the system gives us no more"))
    finally:
        timer.cancel()
        handed.tell()


class _Worker:
    """What one thread is at; the thread sets it, but `last`.

    Attributes:
        ended: Done when it has ended.
        now: What it runs.
        ran: What was run, and not told yet.
        last: Whether it begins with nothing else.
    """

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.now: _Handed | None = None
        self.ran: deque[_Handed] = deque()
        self.last = False
        self._is_taken = threading.Lock()

    def take(self) -> bool:
        """Return whether nobody was before us: a pool that has refused a thread may have begun all the same."""
        return self._is_taken.acquire(blocking=False)

    def work(self, waiting: deque[_Handed]) -> None:
        """Run all that waits; in a thread."""
        if not self.take():
            return
        try:
            while waiting and not self.last:
                with contextlib.suppress(IndexError):  # another thread has it
                    self.now = handed = waiting.popleft()
                    handed.run()
                    self.ran.append(handed)
        finally:
            self.ended.get_loop().call_soon_threadsafe(self._end)

    def _end(self) -> None:
        """Tell all whose works were run, before whoever leads hears that there are no more."""
        self.tell()
        self.ended.set_result(None)

    def tell(self) -> None:
        """Tell all whose works were run."""
        while self.ran:
            self.ran.popleft().tell()


class Together:
    """The shards of one process; to be used in its event loop.

    Formal guarantees:
        * Works begin in the order in which they were handed in, one at a time, but beside those that take long.
        * Behind works that take longer than 0.1 s each, whatever their number, the others wait for 0.15 s, as long as
          the process's pool has threads. Those that are shorter add up.

    Attributes:
        late: Owners whose last batch, once answered, took long to be durable: nobody waits for theirs until one is
            quick again.
    """

    def __init__(self) -> None:
        self.late: WeakSet[object] = WeakSet()
        self._waiting: deque[_Handed] = deque()
        self._in_flight: set[InFlight] = set()
        self._leads: set[asyncio.Task[None]] = set()
        self._is_led = False

    def begin(self, owner: object) -> InFlight:
        """Return a batch that is in flight from now on; once its answers are durable, it must be ended."""
        batch = InFlight(self, owner)
        if owner not in self.late:
            self._in_flight.add(batch)
        return batch

    def forget(self, batch: InFlight) -> None:
        """Wait for a batch no longer."""
        self._in_flight.discard(batch)

    async def quiet(self) -> None:
        """Wait until what is in flight is durable; 0.25 s at most."""
        for _ in range(_TAKING):
            await asyncio.sleep(0)
        if self._in_flight:
            await asyncio.wait({batch.over for batch in self._in_flight}, timeout=_LATE)

    async def run(self, batch: InFlight, work: Callable[[], _T]) -> _T:
        """See `InFlight.run`."""
        handed = _Handed(batch, work)
        self._waiting.append(handed)
        self._lead_on()
        await handed.told
        if handed.error is not None:
            raise handed.error
        result: _T = handed.result
        return result

    def _lead_on(self) -> None:
        """See that there is somebody for those who wait."""
        if self._waiting and not self._is_led:
            self._is_led = True
            self._keep(self._lead())

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._leads.add(task)
        task.add_done_callback(self._leads.discard)

    async def _lead(self) -> None:
        """Have a thread run all that waits, and tell those who do."""
        for _ in range(_JOINING):
            await asyncio.sleep(0)
        worker = _Worker()
        try:
            asyncio.get_running_loop().run_in_executor(None, worker.work, self._waiting)
        except RuntimeError:
            if worker.take():
                self._spread()
                return
        try:
            await self._look_at(worker)
        except asyncio.CancelledError:
            self._waiting.clear()  # the event loop ends, and with it all who wait
            raise
        finally:
            worker.tell()
            if worker.now is not None:
                worker.now.tell()  # also where noting that it was run has failed
            if not worker.last:
                self._is_led = False
                self._lead_on()

    async def _look_at(self, worker: _Worker) -> None:
        """Look now and then until it has ended: let nobody wait longer than that for what is done, or takes long."""
        before, looks = None, 0
        while not (await asyncio.wait({worker.ended}, timeout=_LOOK))[0]:
            worker.tell()
            looks = looks + 1 if worker.now is before else 0
            before = worker.now
            if looks >= _LONG and before is not None:
                before.batch.leave()
                if not worker.last:
                    worker.last = True
                    self._spread()

    def _spread(self) -> None:
        """Give each who waits a thread, and let another lead those who come."""
        with contextlib.suppress(IndexError):  # the thread may take one meanwhile
            while True:
                self._keep(_alone(self._waiting.popleft()))
        self._is_led = False
