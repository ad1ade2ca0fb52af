"""One query in a followed JSONL file, and its answer: the n-th line of the one is answered by the n-th of the other."""

import asyncio
import os
from pathlib import Path
from typing import Final

from oracle.errors import RefusedError, SourceError

__all__ = ["ask"]

_CHUNK: Final = 1 << 20
_POLL_SECONDS: Final = 0.05


async def ask(queries: Path, answers: Path, body: bytes) -> bytes:
    """Append one query, without its newline, and return the line that answers it; it waits without an end.

    Others may append too, whole lines at once.

    Raises:
        RefusedError: The last line has no newline yet.
        SourceError: A file cannot be used.
    """
    try:
        waiting = _Line(answers, await asyncio.to_thread(_append, queries, body))
        while True:
            found = await asyncio.to_thread(waiting.look)
            if found is not None:
                return found
            await asyncio.sleep(_POLL_SECONDS)
    except OSError as exc:
        raise SourceError(f"{exc.filename or queries}: cannot be used: {exc.strerror}") from exc


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


class _Line:
    """A line that will stand behind so many others in a growing file, which a daemon may cut back once."""

    def __init__(self, path: Path, number: int) -> None:
        self._path, self._number = path, number
        self._left, self._offset = number, 0

    def look(self) -> bytes | None:
        """Return the line without its newline, or None while it is not there."""
        if not self._path.exists():
            return None
        with self._path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < self._offset:
                self._left, self._offset = self._number, 0
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                if self._left == 0:
                    return line[:-1]
                self._left, self._offset = self._left - 1, self._offset + len(line)
        return None
