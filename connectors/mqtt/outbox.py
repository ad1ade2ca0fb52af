"""The outbox: commits that are durable before anything of them is published, and what is left to publish.

One commit is one record of a journal, so it is there whole or not at all. A record says too up to which earlier commit
everything had been accepted by the broker when it was written; after a crash what came later is published again, the
very same bytes: the newest commits under load, and nothing once there was a moment's quiet. A commit of which a part is
out comes again whole; the largest are the first ones after an absence, a batch each.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from connectors.base import Committed
from connectors.journal.journal import Journal
from connectors.mqtt.messages import Outgoing
from oracle.errors import StorageError

__all__ = ["Outbox", "Publication"]


_MOST_QUEUED: Final = 64 << 20
"""Bytes of unpublished messages, in memory, from which on no commit is taken, however much the journal may hold."""


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """One commit.

    Attributes:
        done: Commit up to which all had been published.
    """

    position: int
    metadata: bytes
    done: int
    messages: list[Outgoing]


class Publication(NamedTuple):
    """One message that is to be published.

    Attributes:
        commit: The number of its commit.
        position: The commit's, of the source.
    """

    commit: int
    message: Outgoing
    position: int = 0


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Record)


class Outbox:
    """Commits on disk, and the queue of their messages in memory.

    Args:
        journal: A journal of its own, not yet open.

    Attributes:
        queue: What is to be sent, in order.
        last: The last commit that is known to be durable.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.queue: deque[Publication] = deque()
        self._left: dict[int, int] = {}
        self._queued_bytes = 0
        self._done = self._saved = self._newest = 0  # commits up to which all is accepted; is known to be; and the last
        self.last: Committed | None = None
        self._ready = False
        self._order = asyncio.Lock()
        self._mutex = threading.RLock()  # a cancelled commit goes on in its thread
        self._news = asyncio.Event()

    @property
    def settled(self) -> bool:
        """True once the broker has accepted all there is."""
        return not self._left

    @property
    def progress_unsaved(self) -> bool:
        """True while the broker has accepted all there is, and a restart would not know."""
        return self.settled and self._done > self._saved

    def open(self) -> Committed | None:
        """Open the journal, queue what is left to publish, and return the last commit.

        Raises:
            StorageError: It is damaged, held by another process, or cannot be opened.
            WrongKeyError: It belongs to another state.
        """
        with self._mutex:
            self._ready = False
            self.journal.open()
            found = self._load()
            self._ready = True
            return found

    def inspect(self) -> Committed | None:
        """Do the checks of `open` and return what it would, but hold and cut nothing.

        Raises:
            StateError: It belongs to another state.
            StorageError: It is damaged, or cannot be read.
        """
        self.journal.inspect()
        return self._load()

    async def commit(
        self, messages: Sequence[Outgoing], committed: Committed, check: Callable[[], None] = lambda: None
    ) -> None:
        """Make a commit durable and queue its messages; wait first while too much is unpublished.

        `check` raises what ends publishing for good, at first and after each `wake`.

        Raises:
            StorageError: It could not be written; or, and the message says so, the sink must be opened first.
        """
        check()
        self._check_ready()
        while (self.journal.full or self._queued_bytes > _MOST_QUEUED) and not self.settled:
            await self.wait()
            check()
        async with self._order:
            await self._append(messages, committed)

    async def save_progress(self) -> None:
        """Make durable what the broker has accepted, if that has changed, so that little is published twice.

        Raises:
            StorageError: It could not be written.
        """
        async with self._order:
            if self.progress_unsaved and self.last is not None and self._ready:
                await self._append([], self.last)

    async def add(self, messages: Sequence[Outgoing]) -> None:
        """Make messages durable and queue them, at the position of the last commit.

        Raises:
            StorageError: It could not be written.
        """
        async with self._order:
            if self.last is not None:
                await self._append(messages, self.last)

    async def _append(self, messages: Sequence[Outgoing], committed: Committed) -> None:
        done = self._done
        self.journal.forget(done)
        record = _Record(committed.position, committed.metadata, done, list(messages))

        def write() -> int:
            with self._mutex:
                self._check_ready()
                return self.journal.append([_encoder.encode(record)])

        try:
            number = await asyncio.to_thread(write)
        except asyncio.CancelledError:
            with self._mutex:  # waits for the thread
                self._ready = False
            raise
        self._saved, self.last, self._newest = done, committed, number
        if messages:
            self._enqueue(number, messages, committed.position)
        elif not self._left:
            self._done = self._saved = number
        self.wake()

    def published(self, publication: Publication) -> None:
        """The broker has accepted a message, or it was given up."""
        self._queued_bytes -= publication.message.size
        self._left[publication.commit] -= 1
        if not self._left[publication.commit]:
            del self._left[publication.commit]
            self._advance()
        self._news.set()

    def requeue(self, publications: Sequence[Publication]) -> None:
        """Queue again, before all others, what was sent and may not have arrived."""
        self.queue.extendleft(reversed(publications))

    async def wait(self) -> None:
        """Wait until there is something new: to publish, or published."""
        self._news.clear()
        await self._news.wait()

    def wake(self) -> None:
        """End a `wait`."""
        self._news.set()

    def close(self) -> None:
        """Let go of the journal."""
        with self._mutex:
            self._ready = False
            self.journal.close()

    def _check_ready(self) -> None:
        """Refuse to commit before `open`, or after a failure whose outcome only `open` can tell."""
        if not self._ready:
            raise StorageError(f"{self.journal.folder}: the sink must be opened (again) before it can commit")

    def _enqueue(self, number: int, messages: Sequence[Outgoing], position: int) -> None:
        self._left[number] = len(messages)
        self._queued_bytes += sum(message.size for message in messages)
        self.queue.extend(Publication(number, message, position) for message in messages)

    def _advance(self) -> None:
        self._done = min(self._left) - 1 if self._left else self._newest

    def _load(self) -> Committed | None:
        self.queue.clear()
        self._left.clear()
        self._queued_bytes = self._done = self._saved = 0
        self._newest, self.last = self.journal.end, None
        newest = self.journal.reader(max(self._newest - 1, 0)).read(1)
        if not newest:
            return None
        last = _decoder.decode(newest[0].body)
        reader = self.journal.reader(max(last.done, self.journal.first))
        while some := reader.read(64):
            for found in some:
                record = _decoder.decode(found.body)
                if record.messages:
                    messages = [replace(one, user=one.user.copy()) for one in record.messages]  # the rest may go
                    self._enqueue(found.position, messages, record.position)
        self._saved = last.done
        self._advance()
        self.last = Committed(last.position, last.metadata)
        return self.last
