"""Standard input and output: one message a line, for pipes."""

import asyncio
import os
import select
import sys
from pathlib import Path
from typing import BinaryIO

from connectors.base import Commit, Committed, Deliveries, Lag
from connectors.local.checks import check_at_least, check_metadata
from connectors.local.commitfile import CommitRecord, DurableCommitFile
from connectors.local.filegroup import FileGroup
from connectors.local.filesink import FileSink
from connectors.local.jsonl import BODY_LIMIT, join_lines, rejected_lines, reply_lines
from connectors.local.lines import LineBuffer
from oracle.errors import SourceError, StorageError

__all__ = ["StdinSource", "StdoutSink"]

_CHUNK = 1 << 20
_SLICE_SECONDS = 0.2  # how long a thread may sit in `select`, and so how long a stop can take


class StdinSource:
    """Reads lines from a stream. Positions are numbers of lines.

    `open(p)` reads past the first `p` lines, so give a restarted oracle *the same stream from its beginning*. It is
    replayable exactly if you do; a stream that ends before `p` lines is a `SourceError`, other lines are found out by
    the shard's tag. Lines are handed over as `connectors.local.jsonl.JsonlSource` does.

    Args:
        stream: The stream, by default standard input. It is read below its buffer, and not closed.
        body_limit: Longest line that is handed over whole (bytes); of a longer one, `body_limit` + 1 bytes are.

    Raises:
        InputError: `body_limit` is below 1.
        SourceError: The process was started without one.
    """

    def __init__(self, stream: BinaryIO | None = None, *, body_limit: int = BODY_LIMIT) -> None:
        check_at_least("body_limit", body_limit, 1)
        if stream is None and sys.stdin is None:
            raise SourceError("standard input: is closed")
        self._descriptor = (stream or sys.stdin.buffer).fileno()
        self._lines = LineBuffer(body_limit, 0, in_bytes=False)
        self._opened = False
        self._ended = False
        self._reading: asyncio.Task[bytes | None] | None = None

    @property
    def exhausted(self) -> bool:
        """See `Source`."""
        return self._ended and not self._lines

    async def open(self, position: int | None) -> None:
        """See `Source`. It waits until the lines to be read past are there.

        Raises:
            SourceError: It was opened before (a stream does not go back), or ends before `position` lines.
        """
        if self._opened:
            raise SourceError("standard input: cannot be opened twice, as it cannot be rewound")
        self._opened = True
        wanted = left = position or 0
        if left < 0:
            raise SourceError(f"standard input: position = {position}: must be at least 0")
        while left:
            skipped = await self.fetch(left, _SLICE_SECONDS)
            left -= len(skipped)
            if left and self.exhausted:
                raise SourceError(
                    f"standard input: position = {wanted}: ends after {wanted - left} lines, but {wanted} were "
                    "answered before; give the same stream from its beginning, and append new lines"
                )

    async def fetch(self, limit: int, wait: float) -> Deliveries:
        """See `Source`."""
        if not self._opened:
            raise SourceError("standard input: fetch before open")
        deadline = asyncio.get_running_loop().time() + wait
        while not self._lines and not self._ended:
            left = deadline - asyncio.get_running_loop().time()
            if not await self._read(max(left, 0)) and left <= 0:
                break
        return self._lines.take(limit)

    def lag(self) -> Lag | None:
        """None: what waits in a pipe cannot be counted."""
        return None

    async def close(self) -> None:
        """See `Source`. The stream stays open."""
        if self._reading is not None:
            await asyncio.wait({self._reading})

    async def _read(self, wait: float) -> bool:
        """Read what is there; return whether that brought the source on.

        What a cancelled or impatient call leaves reading, the next one finds.
        """
        if self._reading is None:
            self._reading = asyncio.ensure_future(asyncio.to_thread(self._read_chunk, min(wait, _SLICE_SECONDS)))
        await asyncio.wait({self._reading})
        reading, self._reading = self._reading, None
        data = reading.result()
        if data is None:
            return False
        self._lines.feed(data)
        if not data:
            self._lines.finish()
            self._ended = True
        return True

    def _read_chunk(self, wait: float) -> bytes | None:
        try:
            ready, _, _ = select.select([self._descriptor], [], [], wait)
            return os.read(self._descriptor, _CHUNK) if ready else None
        except OSError as exc:
            raise SourceError(f"standard input: cannot be read: {exc.strerror}") from exc


class StdoutSink(FileSink):
    """Writes replies to a stream, one a line. Delivery guarantee: at least once, and repeats are byte-identical.

    A commit makes its intent durable, writes the lines, flushes them, and makes its record durable. After a crash in
    between, `in_doubt` tells what may have left: it must be given again, from the same stream, before anything else.
    Ledger and dead letters go to files, which are cut to the record as `JsonlSink`'s are (exactly once).

    Args:
        commit_path: The commit record, say in the state folder.
        stream: The stream, by default standard output. It is not closed.
        ledger_path: Where ledger events go, one a line; without it they are dropped.
        dead_letter_path: Where replies to rejected deliveries go as well.

    Raises:
        InputError: Two paths are the same.
        StorageError: The process was started without one.
    """

    def __init__(
        self,
        commit_path: Path | str,
        *,
        stream: BinaryIO | None = None,
        ledger_path: Path | str | None = None,
        dead_letter_path: Path | str | None = None,
    ) -> None:
        if stream is None and sys.stdout is None:
            raise StorageError("standard output: is closed")
        self._stream = stream or sys.stdout.buffer
        commit_path = Path(commit_path)
        super().__init__(FileGroup(commit_path, {"ledger": ledger_path, "dead_letter": dead_letter_path}))
        self._intent = DurableCommitFile(commit_path.with_name(commit_path.name + ".intent"))
        self._in_doubt: Committed | None = None

    @property
    def in_doubt(self) -> Committed | None:
        """See `Sink`."""
        return self._in_doubt

    def inspect(self) -> Committed | None:
        """See `FileSink`."""
        self._intent.read()
        return super().inspect()

    def _open(self) -> Committed | None:
        committed, intent = super()._open(), self._intent.read()
        self._in_doubt = None
        if intent is not None and intent.position is not None:
            known = -1 if committed is None else committed.position
            if intent.position > known:
                self._in_doubt = Committed(intent.position, intent.metadata)
        return committed

    async def commit(self, commit: Commit) -> None:
        """See `Sink`; after a failure the lines may have been written.

        Raises:
            InputError: The metadata is too long, or a reply or event is not one line of JSON.
            StorageError: The stream was closed by its reader, or the record could not be written.
        """
        check_metadata(commit.metadata)
        output = reply_lines(commit.replies)
        data = {
            "ledger": join_lines("ledger event", commit.ledger),
            "dead_letter": rejected_lines(commit.replies),
        }

        def write() -> None:
            self._files.check_ready()
            # 1. What is about to leave.  2. The lines, out of our hands.  3. The files and the record.
            self._intent.write(CommitRecord(commit.position, commit.metadata))
            self._write(output)
            self._files.commit(data, commit.position, commit.metadata)

        await self._files.run(write)

    def _write(self, output: bytes) -> None:
        try:
            self._stream.write(output)
            self._stream.flush()
        except OSError as exc:
            raise StorageError(f"standard output: cannot be written: {exc.strerror}") from exc
