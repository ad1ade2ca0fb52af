"""The commit under way, and what comes behind it, while the next batch is being answered."""

import asyncio
import contextlib
from dataclasses import dataclass

from connectors.base import Sink
from oracle.predictors.base import PublicFacts
from oracle.service.shard import Outcome

__all__ = ["Committing", "Done"]


@dataclass(frozen=True, slots=True)
class Done:
    """A batch whose answers are durable.

    Attributes:
        outcome: What was committed.
        facts: What is public right behind it.
    """

    outcome: Outcome
    facts: PublicFacts


class Committing:
    """At most one commit under way. Commits are made in order: the next one begins when the last one is done.

    Answering the next batch meanwhile does the bookkeeping of the one being committed too, which no commit depends on.

    Args:
        sink: Open.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._under_way: tuple[asyncio.Task[None], Done] | None = None

    @property
    def outcome(self) -> Outcome | None:
        """What is being committed; None if nothing is."""
        return self._under_way[1].outcome if self._under_way else None

    def begin(self, outcome: Outcome, facts: PublicFacts) -> None:
        """Begin to commit; the commit before must be done.

        Raises:
            RuntimeError: It is not.
        """
        if self._under_way is not None:
            msg = "a commit is under way"
            raise RuntimeError(msg)
        self._under_way = asyncio.create_task(self._sink.commit(outcome.commit)), Done(outcome, facts)

    async def finish(self) -> Done | None:
        """Wait for the commit under way and return what it made durable; None if there was none.

        Raises:
            PerpetuaError: See `Sink.commit`.
        """
        if self._under_way is None:
            return None
        task, done = self._under_way
        await task
        self._under_way = None
        return done

    async def ends_before(self, other: "asyncio.Task[object]") -> bool:
        """Wait until the commit under way or another task has ended; return whether the other has not."""
        if self._under_way is not None:
            await asyncio.wait({self._under_way[0], other}, return_when=asyncio.FIRST_COMPLETED)
            return not other.done()
        return False

    async def close(self) -> None:
        """Let the commit under way end, or cancel it if we are being cancelled; its outcome is told to nobody."""
        if self._under_way is None:
            return
        (task, _), self._under_way = self._under_way, None
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
