"""Where the answers to questions that were handed in become durable, as a `Sink`."""

import asyncio
import threading
from pathlib import Path

import msgspec

from connectors.base import Commit, Committed, Sink
from connectors.desk.desk import Desk
from connectors.desk.records import Answered, Answers, pack
from connectors.journal.journal import Journal
from connectors.local.appendfile import AppendFile
from connectors.local.checks import check_metadata
from oracle.errors import StorageError

__all__ = ["DeskSink"]

_decoder = msgspec.msgpack.Decoder(Answers)
_READ = 64


class DeskSink(Sink):
    """Commits to a journal, from which the desk gives out answers. Delivery guarantee: exactly once, as long as kept.

    One commit is one record, so it is there whole or not at all. Its ledger events are written to a file behind that;
    the record says where they belong, and `open` writes them again if a crash came in between.

    Args:
        journal: Of answers, not yet open.
        desk: Gives them out; None to give none.
        ledger: The file of public ledger events; None to drop them.
    """

    def __init__(self, journal: Journal, desk: Desk | None, ledger: Path | None = None) -> None:
        self._journal, self._desk = journal, desk
        self._ledger = None if ledger is None else AppendFile(ledger)
        self._ready = False
        self._mutex = threading.RLock()  # a cancelled commit goes on in its thread
        self.position = 0

    def inspect(self) -> Committed | None:
        """Do the checks of `open` and return what it would, but hold and cut nothing.

        Raises:
            StateError: The journal belongs to another state.
            StorageError: It is damaged, or cannot be read.
        """
        self._journal.inspect()
        last = self._last()
        return None if last is None else Committed(last.position, last.metadata)

    async def open(self) -> Committed | None:
        """See `Sink.open`, and `Journal.open` for its errors."""
        last = await asyncio.to_thread(self._open)
        if self._desk is not None:
            self._desk.begin()
            reader = self._journal.reader(self._journal.first)
            while some := await asyncio.to_thread(reader.read, _READ):
                for found in some:
                    self._desk.answered(found.position, _decoder.decode(found.body).replies)
        return None if last is None else Committed(last.position, last.metadata)

    async def commit(self, commit: Commit) -> None:
        """See `Sink.commit`."""
        check_metadata(commit.metadata)
        replies = []
        for reply in commit.replies.rows():
            (_, identifier), (_, digest), *_ = reply.headers
            replies.append(Answered(identifier, digest, reply.body))
        try:
            number = await asyncio.to_thread(self._append, commit, replies)
        except asyncio.CancelledError:
            with self._mutex:  # waits for the thread
                self._ready = False
            raise
        self.position = commit.position
        if self._desk is not None:
            gone = self._desk.answered(number, replies)
            if gone:
                await asyncio.to_thread(self._journal.forget, gone)

    async def close(self) -> None:
        """See `Sink.close`."""
        await asyncio.to_thread(self._close)

    def _open(self) -> Answers | None:
        with self._mutex:
            self._ready = False
            self._journal.open()
            last = self._last()
            self.position = 0 if last is None else last.position
            if self._ledger is not None:
                self._mend(self._ledger, last)
            self._ready = True
            return last

    def _append(self, commit: Commit, replies: list[Answered]) -> int:
        with self._mutex:
            if not self._ready:
                raise StorageError(f"{self._journal.folder}: the sink must be opened (again) before it can commit")
            ledger = self._ledger
            events = [] if ledger is None else [event + b"\n" for event in commit.ledger]
            length = 0 if ledger is None else ledger.length
            record = Answers(commit.position, commit.metadata, replies, events, length)
            number = self._journal.append([pack(record)])
            if ledger is not None and events:
                self._ready = False  # until they are written: only `open` can mend a part
                self._write(ledger, events)
                self._ready = True
            return number

    def _mend(self, ledger: AppendFile, last: Answers | None) -> None:
        """Leave in the ledger's file what was committed, and no more; what was there before the first commit stays."""
        try:
            size = ledger.open()
            if last is not None and size < last.length:
                raise StorageError(f"{ledger.path}: is shorter than what was committed; restore it")
            ledger.cut(size if last is None else last.length)
        except OSError as exc:
            raise _unusable(ledger, exc) from exc
        self._write(ledger, [] if last is None else last.ledger)

    def _write(self, ledger: AppendFile, events: list[bytes]) -> None:
        data = b"".join(events)
        try:
            ledger.append(data)
            ledger.sync()
        except OSError as exc:
            raise _unusable(ledger, exc) from exc
        ledger.length += len(data)

    def _last(self) -> Answers | None:
        newest = self._journal.reader(max(self._journal.end - 1, 0)).read(1)
        return _decoder.decode(newest[0].body) if newest else None

    def _close(self) -> None:
        with self._mutex:
            self._ready = False
            self._journal.close()
            if self._ledger is not None:
                self._ledger.close()


def _unusable(ledger: AppendFile, error: OSError) -> StorageError:
    return StorageError(f"sink.ledger {ledger.path}: cannot be written: {error.strerror}")
