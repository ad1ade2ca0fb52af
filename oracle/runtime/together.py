"""`Together`: small batches of all shards of a process are answered together, and no others are fetched meanwhile.

Threads share one interpreter. Fifty that answer at the same time are no faster than one, and between them the event
loop, which takes several steps to commit what was answered, waits at each step for all of them. So one thread answers
what all shards have, one after another. Their answers go into one transaction, and the messages that came meanwhile are
fetched together when it has ended: whatever was fetched before would only wait, and go into two.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

__all__ = ["SmallBatch", "Together"]

_T = TypeVar("_T")

_JOINING: Final = 3
"""Rounds of the event loop until a thread begins: shards whose messages came together hand them in one by one."""

_LONG: Final = 0.1
"""Seconds after which others go on without a batch that is being answered still; they wait twice as long at most."""

_COMMITTED: Final = 0.25
"""Seconds after which the others go on without a batch that was answered, and whose commit takes longer."""


class SmallBatch:
    """One batch: of some shard, from when it can be answered until its answers are durable."""

    def __init__(self, together: "Together") -> None:
        self._together = together
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, work: Callable[[], _T]) -> _T:
        """Have it answered by `work`, in a thread; raise what that raises. To be called once."""
        try:
            answered: _T = await self._together.run(self, work)
        except BaseException:
            self.end()
            raise
        self._timer = asyncio.get_running_loop().call_later(_COMMITTED, self.end)
        return answered

    def end(self) -> None:
        """Its answers are durable, or nobody waits for that any longer."""
        if self._timer is not None:
            self._timer.cancel()
        self._together.ended(self)


class _Handed:
    """A batch's work, and what came of it."""

    def __init__(self, batch: SmallBatch, work: Callable[[], Any]) -> None:
        self.batch = batch
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.result: Any = None
        self.error: BaseException | None = None
        self._work = work

    def run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as exc:  # noqa: BLE001 -- raised where it is waited for
            self.error = exc

    def tell(self, error: BaseException | None = None) -> None:
        self.error = self.error or error
        if not self.done.done():
            self.done.set_result(None)


class _Worker:
    """What one thread is at.

    Attributes:
        now: What it runs.
        last: Whether it begins with nothing else.
    """

    def __init__(self) -> None:
        self.now: _Handed | None = None
        self.last = False


class Together:
    """The shards of one process; used by its event loop only.

    Formal guarantees:
        * Works run in the order in which they were handed in, one at a time, but beside those that take long.
        * Nobody waits longer than 0.2 s for one that takes long, nor longer than 0.25 s for a commit.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Handed] = deque()
        self._run: deque[_Handed] = deque()
        self._leads: set[asyncio.Task[None]] = set()
        self._is_led = False
        self._under_way: set[SmallBatch] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()

    def begin(self) -> SmallBatch:
        """Return a batch that is under way from now on; it must be run, or ended."""
        batch = SmallBatch(self)
        self._under_way.add(batch)
        self._quiet.clear()
        return batch

    def ended(self, batch: SmallBatch) -> None:
        """Note that a batch is no longer under way."""
        self._under_way.discard(batch)
        if not self._under_way:
            self._quiet.set()

    async def quiet(self) -> None:
        """Wait until no batch is under way, but those that take long."""
        await self._quiet.wait()

    async def run(self, batch: SmallBatch, work: Callable[[], _T]) -> _T:
        """See `SmallBatch.run`."""
        handed = _Handed(batch, work)
        self._waiting.append(handed)
        self._lead_on()
        await handed.done
        if handed.error is not None:
            raise handed.error
        result: _T = handed.result
        return result

    def _lead_on(self) -> None:
        """See that there is somebody for those who wait."""
        if self._waiting and not self._is_led:
            self._is_led = True
            lead = asyncio.create_task(self._lead())
            self._leads.add(lead)
            lead.add_done_callback(self._leads.discard)

    async def _lead(self) -> None:
        """Have a thread run all that waits, and tell those who do."""
        worker, before = _Worker(), None
        try:
            for _ in range(_JOINING):
                await asyncio.sleep(0)
            thread = asyncio.get_running_loop().run_in_executor(None, self._work, worker)
            while not (await asyncio.wait({thread}, timeout=_LONG))[0]:
                if worker.now is not None and worker.now is before and not worker.last:
                    worker.last = True
                    before.batch.end()
                    self._tell_all()
                    self._is_led = False
                    self._lead_on()
                before = worker.now
        except Exception as exc:  # noqa: BLE001 -- no thread can be had
            while self._waiting:
                self._waiting.popleft().tell(exc)
        self._tell_all()
        if not worker.last:
            self._is_led = False
            self._lead_on()

    def _work(self, worker: _Worker) -> None:
        """Run all that waits, in a thread."""
        while self._waiting and not worker.last:
            try:
                worker.now = handed = self._waiting.popleft()
            except IndexError:  # another thread has it
                return
            if not handed.done.cancelled():
                handed.run()
                self._run.append(handed)

    def _tell_all(self) -> None:
        while self._run:
            self._run.popleft().tell()
