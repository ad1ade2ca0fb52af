"""JSONL files: one message a line."""

import asyncio
import os
import stat
from collections.abc import Sequence
from itertools import compress
from pathlib import Path

from connectors.base import JSON, Commit, Deliveries, Lag, Replies
from connectors.local.checks import check_at_least
from connectors.local.filegroup import FileGroup
from connectors.local.filesink import FileSink
from connectors.local.lines import LineBuffer
from oracle.errors import InputError, SourceError

__all__ = ["BODY_LIMIT", "JsonlSink", "JsonlSource", "join_lines", "rejected_lines", "reply_lines"]

BODY_LIMIT = 1 << 20
"""Default of `body_limit`: longest line that is handed over whole."""

_CHUNK = 1 << 20
_POLL_SECONDS = 0.05
_NO_LINE_ENDS = (
    "no line ends there, so this is not the log that was answered (if its last line had no newline when it was "
    "answered, anything appended must begin with that newline)"
)


class JsonlSource:
    """Reads a file of lines. Positions are byte offsets.

    An empty line is a delivery with an empty body, `null` is a tombstone, and the last line counts at the end of the
    file even without a newline: its position is the one it has once it gets its newline. Delivery guarantee:
    replayable as long as nobody changes what the file holds; lines may be added, and where the last one has no newline
    they begin with it.

    Args:
        follow: Keep waiting for more lines at the end, like `tail -f`; then only lines with a newline count.
        body_limit: Longest line that is handed over whole (bytes); of a longer one, `body_limit` + 1 bytes are.

    Raises:
        InputError: `body_limit` is below 1.
    """

    def __init__(self, path: Path | str, *, follow: bool = False, body_limit: int = BODY_LIMIT) -> None:
        check_at_least("body_limit", body_limit, 1)
        self._path = Path(path)
        self._follow = follow
        self._body_limit = body_limit
        self._descriptor: int | None = None
        self._lines = LineBuffer(body_limit, 0, in_bytes=True)
        self._offset = 0
        self._owes_newline = False
        self._ended = False
        self._reading: asyncio.Task[bytes] | None = None

    @property
    def exhausted(self) -> bool:
        """See `Source`."""
        return self._ended and not self._lines

    async def open(self, position: int | None) -> None:
        """See `Source`."""
        await self.close()
        self._descriptor, start, self._owes_newline = await asyncio.to_thread(self._open_at, position or 0)
        self._lines = LineBuffer(self._body_limit, start, in_bytes=True)
        self._offset = start - 1 if self._owes_newline else start
        self._ended = False

    async def fetch(self, limit: int, wait: float) -> Deliveries:
        """See `Source`."""
        deadline = asyncio.get_running_loop().time() + wait
        while not self._lines and not self._ended:
            if await self._read():
                continue
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            await asyncio.sleep(min(left, _POLL_SECONDS))
        return self._lines.take(limit)

    def lag(self) -> Lag | None:
        """None: nobody counts the lines of a file before they are read."""
        return None

    async def close(self) -> None:
        """See `Source`."""
        descriptor, self._descriptor = self._descriptor, None
        reading, self._reading = self._reading, None
        if reading is not None:  # a cancelled fetch left it; the descriptor must outlive it
            await asyncio.wait({reading})
        if descriptor is not None:
            os.close(descriptor)

    async def _read(self) -> bool:
        """Read the next chunk; return whether that brought the source on. Cancelling it loses nothing."""
        if self._descriptor is None:
            raise SourceError(f"{self._path}: fetch before open")
        if self._reading is None:
            self._reading = asyncio.ensure_future(asyncio.to_thread(self._read_chunk, self._descriptor, self._offset))
        await asyncio.wait({self._reading})
        reading, self._reading = self._reading, None
        data = reading.result()
        if self._owes_newline and data and not data.startswith(b"\n"):
            raise SourceError(f"{self._path}: position = {self._offset + 1}: {_NO_LINE_ENDS}")
        self._offset += len(data)
        self._lines.feed(data[1:] if self._owes_newline else data)
        self._owes_newline = self._owes_newline and not data
        if len(data) < _CHUNK and not self._follow:
            self._lines.finish()
            self._ended = True
        return bool(data) or self._ended

    def _read_chunk(self, descriptor: int, offset: int) -> bytes:
        try:
            data = os.pread(descriptor, _CHUNK, offset)
            if not data and os.fstat(descriptor).st_size < offset:
                raise SourceError(f"{self._path}: the file was truncated while it was read")
        except OSError as exc:
            raise SourceError(f"{self._path}: cannot be read: {exc.strerror}") from exc
        return data

    def _open_at(self, position: int) -> tuple[int, int, bool]:
        """Return the descriptor, where the next line begins, and whether the newline before that is yet to come."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as exc:
            raise SourceError(f"{self._path}: cannot be opened: {exc.strerror}") from exc
        try:
            return descriptor, *self._next_line(descriptor, position)
        except BaseException:
            os.close(descriptor)
            raise

    def _next_line(self, descriptor: int, position: int) -> tuple[int, bool]:
        status = os.fstat(descriptor)
        size = status.st_size
        where = f"{self._path}: position = {position}: "
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(f"{self._path}: not a regular file, so it cannot be read again")
        if position < 0:
            raise SourceError(f"{where}must be at least 0")
        if position == 0 or (position <= size and os.pread(descriptor, 1, position - 1) == b"\n"):
            return position, False
        if position == size + 1 and size and os.pread(descriptor, 1, size - 1) != b"\n":
            return position, True
        if position > size:
            raise SourceError(f"{where}the file is shorter ({size} bytes) than what was answered; not the same log")
        raise SourceError(where + _NO_LINE_ENDS)


class JsonlSink(FileSink):
    """Appends replies to a file, one a line. Delivery guarantee: exactly once, by the commit record beside it.

    Readers may see lines of a commit that is under way; after a crash `open` cuts them off, and the oracle writes
    the same bytes again.

    Args:
        path: Where all replies go, those to rejected deliveries too. The commit record is `<path>.commit`.
        ledger_path: Where ledger events go, one a line; without it they are dropped.
        dead_letter_path: Where replies to rejected deliveries go as well.

    Raises:
        InputError: Two paths are the same.
    """

    def __init__(
        self,
        path: Path | str,
        ledger_path: Path | str | None = None,
        dead_letter_path: Path | str | None = None,
    ) -> None:
        path = Path(path)
        paths = {"output": path, "ledger": ledger_path, "dead_letter": dead_letter_path}
        super().__init__(FileGroup(path.with_name(path.name + ".commit"), paths))

    async def commit(self, commit: Commit) -> None:
        """See `Sink`. After a cancelled call, `open` tells whether it committed.

        Raises:
            InputError: The metadata is too long, or a reply or event is not one line of JSON.
        """
        data = {
            "output": reply_lines(commit.replies),
            "ledger": join_lines("ledger event", commit.ledger),
            "dead_letter": rejected_lines(commit.replies),
        }
        await self._files.run(lambda: self._files.commit(data, commit.position, commit.metadata))


def reply_lines(replies: Replies) -> bytes:
    """Return the replies' bodies as lines.

    Raises:
        InputError: A reply is not JSON, or not one line.
    """
    for content_type in set(replies.content_types) - {JSON}:
        raise InputError("reply.content_type", content_type, f"a file of lines accepts only {JSON}")
    return join_lines("reply", replies.bodies)


def rejected_lines(replies: Replies) -> bytes:
    """Return the bodies of those replies that reject a delivery as lines.

    Raises:
        InputError: One of them is not one line.
    """
    return join_lines("reply", list(compress(replies.bodies, replies.rejected)))


def join_lines(name: str, bodies: Sequence[bytes]) -> bytes:
    r"""Return the bodies as lines.

    Example:
        >>> join_lines("reply", [b"1", b"2"])
        b'1\n2\n'

    Raises:
        InputError: One of them has a line break in it.
    """
    lines = b"\n".join([*bodies, b""])
    if lines.count(b"\n") != len(bodies):
        raise InputError(f"{name}.body", "(not shown)", "must not contain a line break")
    return lines
