"""`AppendFile`: a file that grows, and can be cut back to a length that is known to be good."""

import errno
import os
import stat
from pathlib import Path

from oracle import durable

__all__ = ["AppendFile"]


class AppendFile:
    """An output file, mode 0600, of which the first `length` bytes count."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.length = 0
        self._descriptor: int | None = None

    def open(self) -> int:
        """Open the file, make it if missing, and return its size.

        Raises:
            OSError: It cannot be opened.
        """
        self.close()
        self._descriptor = durable.open_lasting(self.path)
        return os.fstat(self._descriptor).st_size

    def size(self) -> int:
        """Return the size of the file, 0 if it is missing, without opening or making it.

        Raises:
            OSError: `open` would fail, as far as can be told.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return 0
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(self.path))
        if not os.access(self.path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))
        return status.st_size

    def status(self) -> os.stat_result | None:
        """Return whose the file is and who may read it: of the one that is open, if it is; None if it is missing.

        Raises:
            OSError: It cannot be looked at.
        """
        try:
            return self.path.stat() if self._descriptor is None else os.fstat(self._descriptor)
        except FileNotFoundError:
            return None

    def cut(self, length: int) -> None:
        """Cut the file to `length` bytes, and go on from there.

        Raises:
            OSError: It cannot be cut.
        """
        descriptor = self._opened()
        durable.cut(descriptor, length)
        os.lseek(descriptor, length, os.SEEK_SET)
        self.length = length

    def append(self, data: bytes) -> None:
        """Write behind the last byte written, without syncing; `length` stays.

        Raises:
            OSError: It cannot be written; a part of it may have been.
        """
        durable.write_all(self._opened(), data)

    def sync(self) -> None:
        """Make what was appended durable.

        Raises:
            OSError: It cannot be synced.
        """
        durable.sync(self._opened())

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _opened(self) -> int:
        if self._descriptor is None:
            raise ValueError(f"{self.path}: the file is not open")
        return self._descriptor
