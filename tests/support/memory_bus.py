"""A source and a sink in memory, over a log that outlives them: what tests use instead of mocks.

A crash is: drop the source and the sink, make new ones over the same `MemoryLog`.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from connectors.base import JSON, Commit, Committed, Deliveries, Delivery, Lag, Reply
from connectors.local.checks import check_metadata
from oracle.errors import InputError, SourceError, StorageError


class CrashError(Exception):
    """A crash that a test asked for; no `PerpetuaError`, so nothing handles it."""


class Abort:
    """An item of a log that crashes the first source to reach it, once for all runs.

    Example:
        >>> log = MemoryLog([Delivery(1, b"q0"), Abort(), Delivery(2, b"q1")])
    """

    def __init__(self) -> None:
        self.triggered = False


class Failure(Enum):
    """How a commit of a `MemorySink` fails."""

    REFUSED = "StorageError, nothing was kept"
    CRASH_BEFORE = "CrashError, nothing was kept"
    CRASH_AFTER = "CrashError, all was kept"


class MemoryLog:
    """What survives a crash: the input and the commits.

    Not for use from several threads.

    Args:
        items: The input, positions strictly increasing, with `Abort` where a run shall crash.
        live: True if more may be appended, so that a source at the end waits instead of being exhausted.

    Raises:
        InputError: The positions do not increase.
    """

    def __init__(self, items: Iterable[Delivery | Abort] = (), *, live: bool = False) -> None:
        self.items: list[Delivery | Abort] = []
        self.commits: list[Commit] = []
        self.live = live
        self._waiting: set[asyncio.Event] = set()
        for item in items:
            self._add(item)

    @classmethod
    def of(cls, bodies: Iterable[bytes | None], *, live: bool = False) -> "MemoryLog":
        """Return a log of JSON bodies (None: a tombstone) at positions 1, 2, ..."""
        log = cls(live=live)
        for body in bodies:
            log.append(body)
        return log

    def append(
        self, body: bytes | None, content_type: str = JSON, headers: tuple[tuple[str, bytes], ...] = ()
    ) -> Delivery:
        """Append one message behind the last one, wake whoever waits for it, and return it."""
        delivery = Delivery(self.end + 1, body, content_type, headers)
        self._add(delivery)
        return delivery

    def finish(self) -> None:
        """Declare that no more will come."""
        self.live = False
        self._wake()

    @property
    def end(self) -> int:
        """Position after the last delivery, 0 if there is none."""
        return next((item.position for item in reversed(self.items) if isinstance(item, Delivery)), 0)

    @property
    def committed(self) -> Committed | None:
        """The last commit's position and metadata."""
        return Committed(self.commits[-1].position, self.commits[-1].metadata) if self.commits else None

    @property
    def replies(self) -> list[Reply]:
        """All committed replies in order."""
        return [reply for commit in self.commits for reply in commit.replies.rows()]

    @property
    def ledger(self) -> list[bytes]:
        """All committed ledger events in order."""
        return [event for commit in self.commits for event in commit.ledger]

    @property
    def dead_letters(self) -> list[Reply]:
        """All committed replies to rejected deliveries in order."""
        return [reply for reply in self.replies if reply.rejected]

    def _add(self, item: Delivery | Abort) -> None:
        if isinstance(item, Delivery) and item.position <= self.end:
            raise InputError("delivery.position", item.position, f"must be above {self.end}")
        self.items.append(item)
        self._wake()

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()


class MemorySource:
    """Reads a `MemoryLog`, or deliveries, from any position of it.

    Args:
        log: The log, or deliveries to make one of.
        age: How old the oldest delivery without an answer is (seconds); None if nobody knows.
    """

    def __init__(self, log: MemoryLog | Sequence[Delivery | Abort], age: float | None = None) -> None:
        self.log = log if isinstance(log, MemoryLog) else MemoryLog(log)
        self._age = age
        self._next: int | None = None

    @property
    def exhausted(self) -> bool:
        """See `Source`."""
        return not self.log.live and self._next is not None and self._next == len(self.log.items)

    async def open(self, position: int | None) -> None:
        """See `Source`; `position` must be 0 or some delivery's."""
        if not position:
            self._next = 0
            return
        places = {item.position: index for index, item in enumerate(self.log.items) if isinstance(item, Delivery)}
        if position not in places:
            raise SourceError(f"memory source: position = {position}: no delivery ends there")
        self._next = places[position] + 1

    async def fetch(self, limit: int, wait: float) -> Deliveries:
        """See `Source`.

        Raises:
            CrashError: The next item is an `Abort` that has not crashed any run yet.
            SourceError: The source is not open.
        """
        if self._next is None:
            raise SourceError("memory source: fetch before open")
        event = asyncio.Event()
        self.log._waiting.add(event)  # the log and its source are one thing in two objects
        try:
            async with asyncio.timeout(wait):
                while self._at_end() and self.log.live:
                    event.clear()
                    await event.wait()
        except TimeoutError:
            return Deliveries()
        finally:
            self.log._waiting.discard(event)  # as above
        return self._take(limit)

    def lag(self) -> Lag | None:
        """See `Source`."""
        if self._next is None:
            return None
        answered = self.log.committed.position if self.log.committed else 0
        left = sum(isinstance(item, Delivery) and item.position > answered for item in self.log.items)
        return Lag(left, self._age if left else 0.0)

    async def close(self) -> None:
        """See `Source`."""
        self._next = None

    def _at_end(self) -> bool:
        return self._next == len(self.log.items)

    def _take(self, limit: int) -> Deliveries:
        taken: list[Delivery] = []
        while self._next is not None and self._next < len(self.log.items) and len(taken) < limit:
            item = self.log.items[self._next]
            if isinstance(item, Abort):
                if not item.triggered:
                    if taken:
                        break
                    item.triggered = True
                    raise CrashError("the log holds an Abort here")
            else:
                taken.append(item)
            self._next += 1
        return Deliveries.of(taken)


class MemorySink:
    """Keeps commits in a `MemoryLog`. Delivery guarantee: exactly once.

    Args:
        log: Where the commits go.
        failures: Which commit calls of this sink fail (the first is 0), and how.
    """

    def __init__(self, log: MemoryLog, failures: Mapping[int, Failure] | None = None) -> None:
        self.log = log
        self._failures = dict(failures or {})
        self._calls = 0
        self._opened = False

    @property
    def in_doubt(self) -> Committed | None:
        """None: what is not durable is cut off."""
        return None

    async def open(self) -> Committed | None:
        """See `Sink`."""
        self._opened = True
        return self.log.committed

    async def commit(self, commit: Commit) -> None:
        """See `Sink`.

        Raises:
            InputError: The metadata is too long.
            StorageError: The sink is not open, or the test asked for it.
            CrashError: The test asked for it.
        """
        if not self._opened:
            raise StorageError("memory sink: commit before open")
        check_metadata(commit.metadata)
        failure = self._failures.get(self._calls)
        self._calls += 1
        if failure is Failure.REFUSED:
            raise StorageError("memory sink: the test asked for this failure")
        if failure is Failure.CRASH_BEFORE:
            raise CrashError("the test asked for a crash before this commit")
        self.log.commits.append(commit._replace(ledger=tuple(commit.ledger)))
        if failure is Failure.CRASH_AFTER:
            raise CrashError("the test asked for a crash after this commit")

    async def close(self) -> None:
        """See `Sink`."""
        self._opened = False
