"""`Journal`: an append-only log in a private folder, of numbered records that are durable when `append` returns."""

import contextlib
import itertools
import os
import stat
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final

from connectors.journal.sealing import HEADER_BYTES, SegmentCipher, SegmentHeader
from connectors.journal.segment import Found, Segment, SegmentWriter, find_end, path_of, read_header, read_records
from connectors.local.checks import check_at_least
from oracle import durable
from oracle.errors import StorageError

__all__ = ["Journal", "JournalReader"]

_SEGMENTS: Final = 256
"""So many make up the limit: the newest one, which stays, is to hold little that no restart needs."""

_SMALLEST_SEGMENT: Final = 1 << 16
_LARGEST_SEGMENT: Final = 64 << 20
_READ_BYTES: Final = 8 << 20
"""Bytes of bodies after which a reader stops for once: it is all held in memory, and answered together."""

_TOO_OPEN: Final = 0o077


class Journal:
    """Records 1, 2, ... in segment files.

    Formal guarantees:
        * What `append` returned for is there, in its order, after any crash; what it did not return for is there
          whole or not at all.
        * A torn end is cut, and nothing else ever is: damage to what was durable is a `StorageError`.
        * No record can be read, changed or moved without the key.

    Not for two processes at once: `open` holds the folder. One thread may append while another reads.

    Args:
        folder: A folder of its own; it, and the one that it is in, is made with mode 0700 if it is missing.
        key: 32 bytes.
        purpose: Binds the records to what the journal is for.
        limit: Size (bytes) from which on it is `full`. It is for the caller to append no more then.

    Raises:
        InputError: The limit is below 1 MiB.
    """

    def __init__(self, folder: Path, key: bytes, purpose: str, *, limit: int) -> None:
        check_at_least("journal.limit", limit, 1 << 20)
        self.folder = folder
        self._key = key
        self._purpose = purpose
        self.limit = limit
        self.segment_bytes = min(max(limit // _SEGMENTS, _SMALLEST_SEGMENT), _LARGEST_SEGMENT)
        self._lock: int | None = None
        self._segments: tuple[Segment, ...] = ()  # those with records; replaced at once, for readers in other threads
        self._writer: SegmentWriter | None = None
        self._broken = False
        self._mutex = threading.RLock()  # a cancelled append goes on in its thread

    @property
    def first(self) -> int:
        """Position before the oldest record that is kept."""
        segments = self._segments
        return segments[0].header.base if segments else 0

    @property
    def end(self) -> int:
        """Position of the newest record; 0 if there has never been one."""
        segments = self._segments
        return segments[-1].end if segments else 0

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(segment.length for segment in self._segments)

    @property
    def full(self) -> bool:
        """True once there are as many bytes as the limit allows."""
        return self.size >= self.limit

    def open(self) -> None:
        """Hold the folder, check it, and cut off what a crash has torn.

        Raises:
            WrongKeyError: It was written under another key.
            StorageError: It is damaged, held by another process, readable by others, or cannot be opened.
        """
        with self._mutex:
            self.close()
            try:
                for folder in (self.folder.parent, self.folder):
                    durable.make_folder(folder)
                self._lock = durable.hold(self.folder / "lock")
                self._segments = self._found(cut=True)
            except BlockingIOError as exc:
                raise StorageError(f"{self.folder}: another process is using this journal") from exc
            except OSError as exc:
                self.close()
                where = exc.filename or self.folder
                raise StorageError(f"{where}: the journal cannot be opened: {exc.strerror}") from exc
            except BaseException:
                self.close()
                raise

    def inspect(self) -> None:
        """Do the checks of `open`, raise what it would and find what is there, but hold, cut and make nothing."""
        try:
            self._segments = self._found(cut=False) if self.folder.is_dir() else ()
        except OSError as exc:
            where = exc.filename or self.folder
            raise StorageError(f"{where}: the journal cannot be read: {exc.strerror}") from exc

    def append(self, bodies: Sequence[bytes]) -> int:
        """Write records, fsync them together, and return the position of the last one.

        Raises:
            StorageError: They could not be written: none of them is there; or, and the message says so, `open` must be
                called first.
        """
        with self._mutex:
            if self._lock is None or self._broken:
                raise StorageError(f"{self.folder}: the journal must be opened (again) before it can be written to")
            if not bodies:
                return self.end
            try:
                if self._writer is None or self._writer.extent.length >= self.segment_bytes:
                    self._begin_segment()
                self._extend(bodies)
            except OSError as exc:
                self._cut_back()
                raise StorageError(f"{self.folder}: the journal cannot be written: {exc.strerror}") from exc
            return self.end

    def forget(self, position: int) -> None:
        """Drop whole segments that hold no record behind `position`; the newest one with records stays in any case.

        Raises:
            StorageError: One could not be dropped.
        """
        with self._mutex:
            if self._lock is None:
                return
            gone = [segment for segment in self._segments[:-1] if segment.end <= position]
            self._segments = self._segments[len(gone) :]  # first: what is unlinked is not read any more
            try:
                for segment in gone:
                    durable.remove(segment.path)
            except OSError as exc:
                raise StorageError(f"{self.folder}: old segments cannot be deleted: {exc.strerror}") from exc

    def droppable(self, position: int) -> bool:
        """Return whether `forget` would drop anything once another record is there, which may begin a new segment."""
        segments = self._segments
        ended = segments if segments and segments[-1].length >= self.segment_bytes else segments[:-1]
        return bool(ended) and ended[0].end <= position

    def reader(self, position: int) -> "JournalReader":
        """Return what reads on behind a position.

        Raises:
            StorageError: The records behind it were dropped, or have never been there.
        """
        if not self.first <= position <= self.end:
            raise StorageError(
                f"{self.folder}: position = {position}: the journal holds {self.first} to {self.end} only"
            )
        return JournalReader(self, position)

    def close(self) -> None:
        """Let go of the folder."""
        with self._mutex:
            self._broken = False
            self._close_writer()
            self._segments = ()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def segment_behind(self, position: int) -> Segment | None:
        """Return the segment that the record behind `position` is in; None if there is none yet."""
        return next((segment for segment in self._segments if segment.header.base <= position < segment.end), None)

    def cipher_of(self, segment: Segment) -> SegmentCipher:
        """Return what decrypts a segment.

        Raises:
            WrongKeyError: Another key does.
        """
        cipher = SegmentCipher(self._key, self._purpose, segment.header.salt)
        cipher.check(segment.header, str(segment.path))
        return cipher

    def _begin_segment(self) -> None:
        """Begin to write to a new segment: at first, after a failure, and when the last one is large enough.

        So no process goes on writing where another one, or a failed write, has been: no nonce is used twice.
        """
        self._close_writer()
        before = self._segments[-1].length if self._segments else 0
        durable.remove(path_of(self.folder, self.end))  # one without a record, which a failure left
        self._writer = SegmentWriter(self.folder, self._key, self._purpose, self.end, before)

    def _extend(self, bodies: Sequence[bytes]) -> None:
        if self._writer is not None:
            closed = self._segments if self._writer.extent.empty else self._segments[:-1]
            self._segments = (*closed, self._writer.append(list(bodies)))

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _cut_back(self) -> None:
        """Take away what a failed append has left; where that fails too, only `open` can tell what is there."""
        if self._writer is None:
            return
        try:
            self._writer.cut_back()
        except OSError:
            self._broken = True
            return
        self._close_writer()

    def _found(self, *, cut: bool) -> tuple[Segment, ...]:
        """Return the segments that are there, the last one up to where it is whole."""
        if stat.S_IMODE(self.folder.stat().st_mode) & _TOO_OPEN:
            raise StorageError(f"{self.folder}: other users can read it; run: chmod 700 {self.folder}")
        paths = sorted(self.folder.glob("*.journal"))
        headed = [(path, header) for path in paths if (header := self._header(path, last=path == paths[-1]))]
        if cut and len(headed) < len(paths):
            durable.remove(paths[-1])
        closed = [
            Segment(path, header, after.before, after.base) for (path, header), (_, after) in itertools.pairwise(headed)
        ]
        for segment in closed:
            self.cipher_of(segment)
            if segment.path.stat().st_size != segment.length:
                raise StorageError(f"{segment.path}: is not as long as the next segment says; restore it")
        last = self._last(*headed[-1], cut=cut) if headed else None
        return (*closed, last) if last else tuple(closed)

    def _header(self, path: Path, *, last: bool) -> SegmentHeader | None:
        """Read a segment's header; None if it is the last one, and a crash came before it was durable."""
        header = read_header(path)
        if header is None and not last:
            raise StorageError(f"{path}: its header is damaged")
        if header is not None and path != path_of(self.folder, header.base):
            raise StorageError(f"{path}: does not match its name; remove the copy, or restore its name")
        return header

    def _last(self, path: Path, header: SegmentHeader, *, cut: bool) -> Segment | None:
        """Return the last segment up to where it is whole; None if it holds no record."""
        segment = find_end(path, header, self.cipher_of(Segment(path, header, 0, 0)))
        if cut and segment.empty:
            durable.remove(path)
        elif cut:
            _make_durable(path, segment.length)
        return None if segment.empty else segment


def _make_durable(path: Path, length: int) -> None:
    """End a file at a length, and sync it: a process that was killed may have written what it never synced."""
    descriptor = durable.open_regular(path, os.O_WRONLY)
    try:
        if os.fstat(descriptor).st_size > length:
            durable.cut(descriptor, length)
        durable.sync(descriptor)
    finally:
        os.close(descriptor)


class JournalReader:
    """Reads on in a journal, record by record, as far as it is durable.

    Args:
        journal: Open, or inspected.
    """

    def __init__(self, journal: Journal, position: int) -> None:
        self._journal = journal
        self.position = position
        self._segment: Path | None = None
        self._offset = 0
        self._cipher: SegmentCipher | None = None

    def read(self, limit: int) -> list[Found]:
        """Return up to `limit` records behind the last one read: fewer where they are large, at least one if there is.

        Raises:
            StorageError: The journal is damaged, or these records were dropped.
        """
        found: list[Found] = []
        size = 0
        while len(found) < limit and size < _READ_BYTES:
            segment = self._journal.segment_behind(self.position)
            if segment is None:
                if self.position < self._journal.first:
                    raise StorageError(f"{self._journal.folder}: position = {self.position}: no longer kept")
                break
            with contextlib.closing(self._records(segment)) as records:
                for record in itertools.islice(records, limit - len(found)):
                    found.append(record)
                    self._segment, self._offset, self.position = segment.path, record.after, record.position
                    size += len(record.body)
                    if size >= _READ_BYTES:
                        break
        return found

    def _records(self, segment: Segment) -> Generator[Found]:
        """Yield a segment's records behind the last one read."""
        if segment.path == self._segment and self._cipher is not None:
            yield from read_records(segment, self._cipher, self._offset, self.position)
            return
        self._cipher = self._journal.cipher_of(segment)
        wanted = self.position
        for record in read_records(segment, self._cipher, HEADER_BYTES, segment.header.base):
            if record.position > wanted:
                yield record
