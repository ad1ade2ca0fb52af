"""Private files: made with mode 0600, written whole or not at all, erased before they are unlinked."""

import contextlib
import errno
import os
import stat
from pathlib import Path

from oracle.errors import StorageError

__all__ = ["erase", "finish_exclusive", "read_private", "replace_durably", "sync_folder", "write_exclusive"]

_ZEROS = bytes(1 << 20)
_TOO_OPEN = 0o077
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS})


def sync_folder(folder: Path) -> None:
    """Make the folder's names durable.

    Raises:
        OSError: The folder could not be synced.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_exclusive(path: Path, data: bytes) -> None:
    """Write a new file of mode 0600, whole or not at all, and sync it and its folder; leave nothing behind on failure.

    A crash may leave a temporary file beside it, which the next try erases.

    Raises:
        FileExistsError: There is such a file already; it is untouched.
        StorageError: It could not be written.
    """
    try:
        _link_new(path, data)
        try:
            sync_folder(path.parent)
        except OSError:
            _discard(path)
            raise
    except FileExistsError:
        raise
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written: {exc.strerror}") from exc


def replace_durably(temporary: Path, path: Path, data: bytes) -> None:
    """Put `data` at `path` through `temporary` (same folder), so that a crash leaves the old file or the new one.

    Raises:
        StorageError: It could not be written; the file that was there stands, `temporary` is gone.
    """
    existed = path.exists()
    try:
        # 1. The bytes, in a file that no reader takes for the real one.  2. fsync it.
        erase(temporary)
        _write_new(temporary, data)
        try:
            # 3. The name: from here on readers find the new file.
            temporary.replace(path)
        except OSError:
            _discard(temporary)
            raise
        try:
            # 4. fsync the folder: from here on a crash cannot bring the old file back.
            sync_folder(path.parent)
        except OSError:
            if not existed:
                _discard(path)
            raise
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written: {exc.strerror}") from exc


def erase(path: Path) -> None:
    """Overwrite a file with zeros as well as the file system lets us, and unlink it.

    A file system that copies on write, or a flash drive, may keep the old bytes; encryption covers for that.

    Raises:
        OSError: It could not be unlinked.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY)
        try:
            left = os.fstat(descriptor).st_size
            while left > 0:
                left -= os.write(descriptor, _ZEROS[:left])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    path.unlink(missing_ok=True)


def finish_exclusive(path: Path) -> None:
    """Unlink the second name that a crash within `write_exclusive` may have left of a file that is there.

    Raises:
        StorageError: It could not be unlinked.
    """
    try:
        path.with_name(f".{path.name}.tmp").unlink(missing_ok=True)
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written: {exc.strerror}") from exc


def read_private(path: Path, limit: int | None = None) -> bytes:
    """Read a regular file that only its owner can read, up to `limit` bytes.

    Raises:
        PermissionError: It is readable by others; the message says how to mend it.
        OSError: It cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise PermissionError(0, f"not a regular file: {path}")
        if mode & _TOO_OPEN:
            how = f"(mode {stat.S_IMODE(mode):04o}); close it with: chmod 600 {path}"
            raise PermissionError(0, f"readable by others {how}")
        return file.read() if limit is None else file.read(limit)


def _write_new(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        _discard(path)
        raise


def _link_new(path: Path, data: bytes) -> None:
    """Give a whole and synced temporary file its name, unless there is such a file already."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)  # not erased: after a crash it may be the file itself, under its second name
    _write_new(temporary, data)
    try:
        os.link(temporary, path)
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        _write_new(path, data)
    finally:
        _discard_name(temporary)


def _discard_name(path: Path) -> None:
    """Unlink without overwriting: the bytes may have another name."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _discard(path: Path) -> None:
    with contextlib.suppress(OSError):
        erase(path)
