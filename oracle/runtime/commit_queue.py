"""What has been answered and is not durable yet: the commit under way, and what the next one will take in."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from connectors.base import Commit, Sink
from connectors.columns import joined_replies
from oracle.predictors.base import PublicFacts
from oracle.runtime.shard import Outcome

__all__ = ["CommitQueue", "Done", "joined_commit"]

_MOST_WAITING: Final = 3
"""Batches."""

_MOST_ROUNDS: Final = 1 << 18
"""Of all that wait, where they are more than one batch: their answers take some 50 bytes each."""


@dataclass(frozen=True, slots=True)
class Done:
    """A batch whose answers are durable.

    Attributes:
        outcome: What was committed.
        facts: What is public right behind it.
        seconds: How long its commit took; None for all but the last batch of those that were committed together.
    """

    outcome: Outcome
    facts: PublicFacts
    seconds: float | None = None


class CommitQueue:
    """Commits in order, one at a time, each as soon as the last one is done.

    What is answered while a commit is under way waits, and goes into the next one together, so that a sink whose
    commits take long has fewer of them. At most three batches wait, and fewer where they are large.

    Args:
        sink: Open.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._waiting: deque[Done] = deque()
        self._done: list[Done] = []
        self._last: Outcome | None = None
        self._began = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def outcome(self) -> Outcome | None:
        """What was given last and has not been told to be durable yet; None if there is nothing."""
        return self._last

    async def add(self, outcome: Outcome, facts: PublicFacts) -> Sequence[Done]:
        """Have it committed behind all before it, without waiting for that; return what has become durable meanwhile.

        Raises:
            PerpetuaError: See `Sink.commit`; nothing given since has been committed.
        """
        while self._task is not None and not self._fits(outcome):
            self._began.clear()
            began = asyncio.ensure_future(self._began.wait())
            try:
                await asyncio.wait({self._task, began}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                began.cancel()
            self._look()
        self._look()
        self._waiting.append(Done(outcome, facts))
        self._last = outcome
        if self._task is None:
            self._task = asyncio.create_task(self._commit())
        done, self._done = self._done, []
        return done

    async def finish(self) -> Sequence[Done]:
        """Wait until all is durable, and return what was not told before.

        Raises:
            PerpetuaError: See `Sink.commit`; nothing given since has been committed.
        """
        if self._task is not None:
            await asyncio.wait({self._task})
        self._look()
        done, self._done = self._done, []
        self._last = None
        return done

    async def ends_before(self, other: "asyncio.Task[object]") -> bool:
        """Wait until all is durable or another task has ended; return whether the other has not."""
        if self._task is None:
            return False
        await asyncio.wait({self._task, other}, return_when=asyncio.FIRST_COMPLETED)
        return not other.done()

    async def close(self) -> None:
        """Let the commit under way end, or cancel it if we are being cancelled; its outcome is told to nobody."""
        self._waiting.clear()
        task, self._task = self._task, None
        if task is None:
            return
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task

    def _fits(self, outcome: Outcome) -> bool:
        """Return whether one more batch may wait."""
        rounds = outcome.rounds + sum(one.outcome.rounds for one in self._waiting)
        return not self._waiting or (len(self._waiting) < _MOST_WAITING and rounds <= _MOST_ROUNDS)

    def _look(self) -> None:
        """Forget a task that has ended; raise what it ended with."""
        if self._task is not None and self._task.done():
            task, self._task = self._task, None
            task.result()

    async def _commit(self) -> None:
        while self._waiting:
            together = list(self._waiting)
            self._waiting.clear()
            self._began.set()
            started = time.perf_counter()
            await self._sink.commit(joined_commit([one.outcome.commit for one in together]))
            together[-1] = replace(together[-1], seconds=time.perf_counter() - started)
            self._done += together


def joined_commit(commits: Sequence[Commit]) -> Commit:
    """Return what makes all of some commits durable together; at least one."""
    if len(commits) == 1:
        return commits[0]
    last = commits[-1]
    replies = joined_replies([commit.replies for commit in commits])
    ledger = list(chain.from_iterable(commit.ledger for commit in commits))
    return Commit(replies, ledger, last.position, last.metadata)
