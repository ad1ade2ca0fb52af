"""One transactional producer for many partitions: all that waits while a transaction is under way is the next one.

Where commits follow one another quickly, the next transaction is begun when one has ended: two of the coordinators'
four requests, and the time until they take the first, which is when they have ended the last transaction, are over
when there is something to commit.

A transaction waits for all partitions that the one before it named, as the brokers must have ended that one, and for
those that it was expected to write to. So what others have written to may keep it from going on: a partition of
theirs that has no leader now.
"""

import asyncio
import contextlib
import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from aiokafka import AIOKafkaClient, AIOKafkaProducer, TopicPartition

from connectors.kafka.client import close_quietly, make_writer, start
from connectors.kafka.errors import translated
from connectors.kafka.internals import EarlyTransactions
from connectors.kafka.lease import Lease
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.transactions import NOT_YET, Part, lacking, transact, unless_lacking
from oracle.errors import BusError, FencedError, PerpetuaError

__all__ = ["Entry", "JointProducer", "SpoiltError"]

_NAME_BYTES: Final = 16
_MOST_BYTES: Final = 32 << 20
"""Most bytes of one transaction, if it is not one part's: brokers take requests of 100 MiB at most."""

_GOOD_SECONDS: Final = 1.0
"""For so long topics are believed to be there still."""

_CLOSE_SECONDS: Final = 5.0

_ROUNDS: Final = 3
"""Of the event loop, behind a commit: whoever waited for it hands over what was answered meanwhile.

Without them the next transaction is that of the others only, and everybody has a part in every second one.
"""

_QUICK_SECONDS: Final = 0.1
"""Between the ends of two transactions: the next is begun early."""

_UNUSED_SECONDS: Final = 0.5
_UNUSED_SHARE: Final = 0.1
"""For so long one stays open for which nothing comes; at most, and of `transaction_seconds`, as brokers keep it."""


class SpoiltError(Exception):
    """A joint transaction failed, through whomever, or this partition can have no part in any.

    Attributes:
        error: What went wrong.
        failed: Those of the partition's topics whose records did not get there, and why.
        guilty: Whether they are to blame, as far as is known, and others are not.
    """

    def __init__(self, error: PerpetuaError, failed: dict[str, str], *, guilty: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.failed = failed
        self.guilty = guilty


class Entry:
    """What waits to be committed.

    Args:
        lease: It is committed only if the lease is its partition's newest by then.
        make: Makes the part when its turn has come.
        seconds: Most time for the transaction.
        release: Whether it is the lease's last.
    """

    def __init__(self, lease: Lease, make: Callable[[], Part], seconds: float, *, release: bool = False) -> None:
        self.lease = lease
        self.make = make
        self.seconds = seconds
        self.release = release
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended.add_done_callback(_look_at)

    def end(self, error: Exception | None = None) -> None:
        """Say what became of it, to whoever waits still."""
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)


def _look_at(ended: "asyncio.Future[None]") -> None:
    if not ended.cancelled():
        ended.exception()


_Taken = Sequence[tuple[Entry, Part]]
"""What one transaction is made of."""


class JointProducer:
    """Commits entries in the order that they come in, until one transaction fails.

    Attributes:
        name: What others fence it by.
    """

    def __init__(
        self, settings: KafkaSettings, name: str, producer: AIOKafkaProducer, is_current: Callable[[Lease], bool]
    ) -> None:
        self.name = name
        self._settings = settings
        self._producer = producer
        self._is_current = is_current
        self._early = EarlyTransactions(producer)
        self._expected: frozenset[TopicPartition] = frozenset()
        self._named: frozenset[str] = frozenset()
        self._committed = -math.inf
        self._waiting: deque[Entry] = deque()
        self._under_way: list[Entry] = []
        self._error: PerpetuaError | None = None
        self._looked = -_GOOD_SECONDS
        self._wake = asyncio.Event()
        self._rest: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run())

    @classmethod
    async def started(cls, settings: KafkaSettings, is_current: Callable[[Lease], bool]) -> "JointProducer":
        """Return one with a name that nobody has had.

        Raises:
            RefusedError: The brokers do not let us.
            BusError: The brokers do not answer.
        """
        name, where = secrets.token_hex(_NAME_BYTES), f"group {settings.group}"
        producer = make_writer(settings, name)
        try:
            with translated(where):
                async with asyncio.timeout(settings.transaction_seconds + settings.request_seconds):
                    await start(producer, settings, where)
        except BaseException:
            await close_quietly(producer)
            raise
        return cls(settings, name, producer, is_current)

    @property
    def alive(self) -> bool:
        """Whether it commits still."""
        return self._error is None

    @property
    def closed(self) -> bool:
        """Whether there is nothing left of it to close."""
        return self._task.done()

    @property
    def client(self) -> AIOKafkaClient:
        """What asks the brokers."""
        return self._producer.client

    def add(self, entry: Entry) -> None:
        """Have an entry committed with the next transaction."""
        if self._error is not None:
            entry.end(SpoiltError(self._error, {}, guilty=False))
            return
        self._waiting.append(entry)
        self._wake.set()

    async def done(self, entry: Entry) -> None:
        """Commit an entry; cancelled, it may be committed all the same.

        Raises:
            FencedError: Its lease is not the newest.
            SpoiltError: See there.
        """
        self.add(entry)
        await entry.ended

    async def without(self, query: TopicPartition) -> None:
        """Wait until nothing of a partition is under way."""
        while any(entry.lease.query == query for entry in self._under_way):
            await asyncio.wait({self._rest})

    async def close(self) -> None:
        """Commit what waits, for a short time, and end."""
        waiting = [entry.ended for entry in (*self._under_way, *self._waiting)]
        if waiting:
            await asyncio.wait(waiting, timeout=_CLOSE_SECONDS)
        was_alive = self.alive
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if was_alive:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._end_unused()
        await close_quietly(self._producer)

    async def _run(self) -> None:
        try:
            while self.alive:
                await self._woken()
                while taken := self._next():
                    await self._commit(taken)
                    for _ in range(_ROUNDS):
                        await asyncio.sleep(0)
                self._begin_early()
        finally:
            self._error = self._error or self._closed()
            self._tell(self._waiting)
            self._waiting.clear()
        await close_quietly(self._producer)

    def _begin_early(self) -> None:
        """Begin the next transaction, if it is to be expected soon."""
        expected, self._expected = self._expected, frozenset()
        if self.alive and expected and not self._early.is_open:
            self._early.begin(expected, self._settings.group)

    async def _woken(self) -> None:
        """Wait for entries; a transaction that was begun for them, and is not needed, is ended."""
        if self._early.is_open:
            unused = min(_UNUSED_SECONDS, _UNUSED_SHARE * self._settings.transaction_seconds)
            try:
                async with asyncio.timeout(self._early.begun + unused - time.monotonic()):
                    await self._wake.wait()
            except TimeoutError:
                await self._end_unused()
        if self.alive:
            await self._wake.wait()
        self._wake.clear()

    async def _end_unused(self) -> None:
        """End the transaction that nothing has come for; where that fails, nothing more is committed."""
        if not self._early.is_open:
            return
        try:
            with translated(self._where):
                async with asyncio.timeout(self._settings.transaction_seconds):
                    awaited, client = self._early.awaited, self._producer.client
                    await unless_lacking(self._early.end(), client, awaited, self._named)
        except Exception as exc:  # noqa: BLE001 -- whoever has something to commit is told
            self._error = self._failure(exc)

    def _failure(self, exc: Exception) -> PerpetuaError:
        return exc if isinstance(exc, PerpetuaError) else BusError(f"{self._where}: the Kafka client failed")

    def _closed(self) -> BusError:
        return BusError(f"{self._where}: closed")

    def _tell(self, entries: Iterable[Entry]) -> None:
        """Tell those who wait still that it is over."""
        for entry in entries:
            entry.end(SpoiltError(self._error or self._closed(), {}, guilty=False))

    def _next(self) -> _Taken:
        """Take what the next transaction is made of; nothing once one has failed."""
        taken: list[tuple[Entry, Part]] = []
        size = 0
        while self._waiting and self._error is None:
            entry = self._waiting[0]
            if self._is_void(entry):
                entry.end(FencedError(f"topic {entry.lease.query.topic}: opened anew meanwhile"))
            else:
                part = entry.make()
                size += part.size
                if taken and size > _MOST_BYTES:
                    break
                taken.append((entry, part))
            self._waiting.popleft()
        return taken

    async def _without_lost(self, taken: _Taken, topics: frozenset[str]) -> _Taken:
        """Send those away whose topics are lost, by a look now and then: a transaction with them might never end."""
        if time.monotonic() - self._looked < _GOOD_SECONDS:
            return taken
        lost = await lacking(self._producer.client, topics, topics)
        self._looked = time.monotonic()
        for entry, part in taken:
            for topic in lost.keys() & set(part.own):
                entry.end(SpoiltError(BusError(lost[topic]), {}, guilty=True))
        return [(entry, part) for entry, part in taken if lost.keys().isdisjoint(part.own)]

    def _is_void(self, entry: Entry) -> bool:
        over = entry.lease.ending and not entry.release
        return over or entry.ended.cancelled() or not self._is_current(entry.lease)

    async def _commit(self, taken: _Taken) -> None:
        """Commit some entries; where that fails, it is the last that is tried."""
        self._under_way = [entry for entry, _ in taken]
        self._rest = asyncio.get_running_loop().create_future()
        failed: dict[str, str] = {}
        topics = frozenset().union(*(part.own for _, part in taken))
        try:
            taken = await self._without_lost(taken, topics)
            self._expected = frozenset()
            if taken:
                await self._transact(taken, failed)
                self._expect_more(taken)
        except Exception as exc:  # noqa: BLE001 -- whatever it is, whoever waits is told
            self._error = self._failure(exc)
            fenced = isinstance(exc, FencedError)
            lost = {} if fenced else await lacking(self._producer.client, topics, topics)
            self._blame(self._error, taken, {} if fenced else failed, frozenset(lost))
        else:
            for entry, part in taken:
                entry.lease.last = part.claim
                entry.end()
        finally:
            self._tell(self._under_way)
            self._under_way = []
            self._rest.set_result(None)

    def _expect_more(self, taken: _Taken) -> None:
        """Note what the next transaction probably writes to, where it is to be begun early."""
        now = time.monotonic()
        last, self._committed = self._committed, now
        lasts = now - last < _QUICK_SECONDS and not any(entry.release for entry, _ in taken)
        self._expected = frozenset().union(*(part.places for _, part in taken)) if lasts else frozenset()

    async def _transact(self, taken: _Taken, failed: dict[str, str]) -> None:
        parts = [part for _, part in taken]
        own = frozenset().union(*(part.own for part in parts))
        named = own.union(*(part.topics for part in parts))
        seconds = min(entry.seconds for entry, _ in taken)
        if self._early.is_open:
            age = time.monotonic() - self._early.begun
            seconds, named = min(seconds, self._settings.transaction_seconds - age), named | self._early.named
        work = transact(self._producer, self._settings.group, parts, failed, seconds=seconds, where=self._where)
        led = (self._named - own) | (own if len(parts) > 1 else frozenset())
        await unless_lacking(work, self._producer.client, own | self._early.awaited, led)
        self._named = named

    @staticmethod
    def _blame(error: PerpetuaError, taken: _Taken, failed: dict[str, str], lost: frozenset[str]) -> None:
        """Tell all that it failed, and who is to blame.

        Guilty is who needs a lost topic; else who writes to one that rejects records; else who writes to one whose
        records did not get there, if all records of others did.
        """
        rejecting = {topic for topic, why in failed.items() if why != NOT_YET}
        bad = lost or rejecting or failed.keys()
        guilty = [not bad.isdisjoint(part.own if lost else part.topics) for _, part in taken]
        known = bool(lost or rejecting) or not all(guilty)
        for (entry, part), one in zip(taken, guilty, strict=True):
            of_it = {topic: why for topic, why in failed.items() if topic in part.topics}
            entry.end(SpoiltError(error, of_it, guilty=one and known))

    @property
    def _where(self) -> str:
        return f"group {self._settings.group}: commits of this process"
