"""The desk: takes questions in durably, gives each one answer, and keeps the newest answers to be fetched again.

The order in which things happen to a question, and why an end of anything between two of them is harmless:

    1. it is journalled and synced;
    2. its asker is told its id;
    3. it is answered, and the answer is durable in the other journal together with the position behind the question;
    4. the answer is given to whoever fetches it, as often as it is kept.

Before 1 there is no question. Between 1 and 2 its asker does not know whether there is: one that chose the id hands it
in again, and it is known. Between 2 and 4 the journals have it, and a restart goes on.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from connectors.base import JSON
from connectors.desk.records import Answered, Question, digest_of, pack, question_of
from connectors.journal.journal import Journal
from oracle.errors import BusError, RefusedError, StorageError

__all__ = ["Desk", "DeskBusyError", "ReusedIdError"]

_MOST_WAITING: Final = 10_000
"""Questions that are taken in and not answered, from which on none is taken."""

_MOST_TOGETHER: Final = 1024
"""Questions that are journalled by one sync."""

_KEPT_BYTES: Final = 400
"""Of an answer that is kept, beside its body: measured, in memory."""

_READ: Final = 1024

_CLOSED: Final = "the daemon is starting or stopping"


class DeskBusyError(BusError):
    """No question is taken in for now; nothing was journalled."""


class ReusedIdError(RefusedError):
    """There is another question with this id."""


class _Entry:
    """One question: handed in, or answered.

    Attributes:
        body: The reply; None before there is one.
        stored: Done once the question is durable, or never will be.
    """

    __slots__ = ("body", "digest", "news", "stored")

    def __init__(self, digest: bytes) -> None:
        self.digest = digest
        self.body: bytes | None = None
        self.stored: asyncio.Future[None] | None = None
        self.news: asyncio.Event | None = asyncio.Event()

    def answer(self, body: bytes) -> None:
        self.body, self.stored = body, None
        news, self.news = self.news, None
        if news is not None:
            news.set()


class Desk:
    """Questions under way and answers that are kept. Use from one event loop.

    Args:
        questions: Their journal; open while the desk is.
        most_bytes: Of answers that are kept, the newest of all.
    """

    def __init__(self, questions: Journal, most_bytes: int) -> None:
        self.questions = questions
        self._most_bytes = most_bytes
        self._entries: dict[bytes, _Entry] = {}
        self._kept: deque[tuple[int, list[bytes]]] = deque()
        self._kept_bytes = self._waiting = 0
        self._incoming: deque[tuple[Question, _Entry]] = deque()
        self._wakeup = asyncio.Event()
        self._closed = asyncio.Event()
        self._closed.set()
        self._notify: Callable[[], None] = lambda: None
        self._writing: asyncio.Task[None] | None = None
        self._failed: StorageError | None = None

    # For askers

    async def ask(self, identifier: bytes, body: bytes, content_type: str = JSON) -> None:
        """Take a question in: it is durable on return. One that is known already is not taken in again.

        Raises:
            ReusedIdError: Another question is known by this id.
            DeskBusyError: The desk is closed, or too much waits.
            StorageError: It could not be journalled.
        """
        digest = digest_of(body, content_type)
        entry = self._entries.get(identifier)
        if entry is None:
            if self._closed.is_set():
                raise DeskBusyError(_CLOSED)
            if self._waiting >= _MOST_WAITING or self.questions.full:
                raise DeskBusyError("too many questions wait for their answers")
            entry = self._entries[identifier] = _Entry(digest)
            entry.stored = asyncio.get_running_loop().create_future()
            self._waiting += 1
            self._incoming.append((Question(identifier, digest, body, content_type), entry))
            self._wakeup.set()
        elif entry.digest != digest:
            raise ReusedIdError("this key was used for another question")
        if entry.stored is not None:
            await asyncio.shield(entry.stored)

    def knows(self, identifier: bytes) -> bool:
        """Return whether a question of this id is under way, or its answer kept.

        Raises:
            DeskBusyError: The desk is closed: it may know the question when it is open again.
        """
        if identifier in self._entries:
            return True
        if self._closed.is_set():
            raise DeskBusyError(_CLOSED)
        return False

    async def answer(self, identifier: bytes, seconds: float) -> bytes | None:
        """Return the reply to a question, waiting for it; None if there is none in time, or at a stop."""
        entry = self._entries.get(identifier)
        if entry is None:  # it was answered, and so many others after it that it is no longer kept
            return None
        if entry.news is not None and not self._closed.is_set():
            news, closed = (asyncio.create_task(event.wait()) for event in (entry.news, self._closed))
            try:
                await asyncio.wait({news, closed}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
                closed.cancel()
        return entry.body

    # For the source

    async def open(self, position: int, notify: Callable[[], None]) -> None:
        """Take questions in from now on; those behind a position are without an answer. The journal is open.

        Raises:
            StorageError: The journal is damaged.
        """
        reader = self.questions.reader(max(position, self.questions.first))
        while some := await asyncio.to_thread(reader.read, _READ):
            for found in some:
                question = question_of(found)
                if question.id not in self._entries:
                    self._entries[question.id] = _Entry(question.digest)
        self._waiting = sum(entry.body is None for entry in self._entries.values())
        self._notify, self._failed = notify, None
        self._closed.clear()
        self._writing = asyncio.create_task(self._write())

    async def close(self) -> None:
        """Take nothing more in; who waits for an answer is told that there is none yet."""
        self._closed.set()
        self._wakeup.set()
        writing, self._writing = self._writing, None
        if writing is not None:
            await asyncio.wait({writing})

    async def _write(self) -> None:
        """Journal what is handed in, all that waits together, until the desk is closed; then what waits still."""
        while self._incoming or not self._closed.is_set():
            self._wakeup.clear()
            if not self._incoming:
                await self._wakeup.wait()
                continue
            batch = [self._incoming.popleft() for _ in range(min(len(self._incoming), _MOST_TOGETHER))]
            try:
                await asyncio.to_thread(self.questions.append, [pack(question) for question, _ in batch])
            except StorageError as exc:
                for question, entry in batch:
                    del self._entries[question.id]
                    self._waiting -= 1
                    _settle(entry, exc)
                self._look_at_journal()
                continue
            self._notify()
            for _, entry in batch:
                _settle(entry)

    def _look_at_journal(self) -> None:
        """Find out whether the journal takes more after a failure; if only `Journal.open` mends it, `check` says so."""
        try:
            self.questions.append([])
        except StorageError as exc:
            self._failed = exc
            self._notify()

    def check(self) -> None:
        """Raise what has ended the taking in of questions.

        Raises:
            StorageError: Nobody knows what the journal holds before it is opened again.
        """
        if self._failed is not None:
            raise self._failed

    # For the sink

    def begin(self) -> None:
        """Forget which answers are kept: all that are durable are told next."""
        self._entries = {identifier: entry for identifier, entry in self._entries.items() if entry.body is None}
        self._kept.clear()
        self._kept_bytes = 0

    def answered(self, number: int, replies: Iterable[Answered]) -> int:
        """Give out the replies of a commit that is durable; return up to which one none is kept any more."""
        ids = []
        for reply in replies:
            entry = self._entries.setdefault(reply.id, _Entry(reply.digest))
            if entry.body is None:
                self._waiting -= 1
                self._kept_bytes += len(reply.body) + _KEPT_BYTES
                entry.answer(reply.body)
                ids.append(reply.id)
        self._kept.append((number, ids))
        gone = 0
        while self._kept_bytes > self._most_bytes and len(self._kept) > 1:
            gone, ids = self._kept.popleft()
            for identifier in ids:
                body = self._entries.pop(identifier).body or b""
                self._kept_bytes -= len(body) + _KEPT_BYTES
        return gone


def _settle(entry: _Entry, error: StorageError | None = None) -> None:
    stored, entry.stored = entry.stored, None
    if stored is None:
        return
    if error is None:
        stored.set_result(None)
    else:
        stored.set_exception(error)
        stored.exception()  # its asker may be gone
