"""Questions in a followed JSONL file and their answers: the n-th line of one is answered by the n-th of the other."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from connectors.asking import Answered, Failed
from oracle.errors import RefusedError, SourceError

__all__ = ["FileAsker"]

_CHUNK: Final = 1 << 20
_POLL_SECONDS: Final = 0.05


class FileAsker:
    """See `Asker`. Appends lines; others may append too, whole lines at once."""

    def __init__(self, queries: Path, answers: Path) -> None:
        self._queries, self._answers = queries, answers
        self._asked: dict[int, bytes] = {}
        self._news = asyncio.Event()
        self._order = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None

    async def open(self, answered: Answered, failed: Failed) -> None:
        """See `Asker.open`."""
        self._reading = asyncio.create_task(self._read(answered, failed))

    async def send(self, correlation: bytes, body: bytes) -> bool:
        """See `Asker.send`.

        Raises:
            RefusedError: The last line has no newline yet.
            SourceError: The file cannot be used.
        """
        async with self._order:
            try:
                number = await asyncio.to_thread(_append, self._queries, body)
            except OSError as exc:
                raise _unusable(self._queries, exc) from exc
        self._asked[number] = correlation
        self._news.set()
        return True

    async def close(self) -> None:
        """See `Asker.close`."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def _read(self, answered: Answered, failed: Failed) -> None:
        lines = _Lines(self._answers)
        try:
            while True:
                if not self._asked:
                    self._news.clear()
                    await self._news.wait()
                for number, line in await asyncio.to_thread(lines.wanted, frozenset(self._asked)):
                    answered(self._asked.pop(number), line)
                await asyncio.sleep(_POLL_SECONDS)
        except OSError as exc:
            failed(_unusable(self._answers, exc))


def _unusable(path: Path, error: OSError) -> SourceError:
    return SourceError(f"{error.filename or path}: cannot be used: {error.strerror}")


def _append(path: Path, body: bytes) -> int:
    """Append a line, and return how many there are before it."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            raise RefusedError(f"{path}: its last line has no newline; whoever is writing it must end it first")
        written = os.write(descriptor, body + b"\n")
        start = os.lseek(descriptor, 0, os.SEEK_CUR) - written  # somebody else may have appended in between
        return sum(
            os.pread(descriptor, min(_CHUNK, start - place), place).count(b"\n") for place in range(0, start, _CHUNK)
        )
    finally:
        os.close(descriptor)


class _Lines:
    """The lines of a growing file, which a daemon may cut back."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = self._offset = 0

    def wanted(self, numbers: frozenset[int]) -> list[tuple[int, bytes]]:
        """Return those lines of some numbers that are there, without their newlines."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < self._offset or min(numbers) < self._number:
                self._number = self._offset = 0
            file.seek(self._offset)
            return [(number, line) for number, line in self._whole(file) if number in numbers]

    def _whole(self, file: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield self._number, line[:-1]
            self._number, self._offset = self._number + 1, self._offset + len(line)
