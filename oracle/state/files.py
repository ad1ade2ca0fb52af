"""Private files: created with mode 0600, written atomically, and not read if others can read them."""

import contextlib
import os
import stat
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from oracle import durable
from oracle.errors import NewerVersionError, StateError, StorageError, newer_version

__all__ = ["finish_exclusive", "read_private", "read_versioned", "replace_durably", "write_exclusive"]


class _Versioned(Protocol):
    @property
    def version(self) -> int: ...


VersionedT = TypeVar("VersionedT", bound=_Versioned)


_TOO_OPEN = 0o077


def write_exclusive(path: Path, data: bytes) -> None:
    """See `durable.write_exclusive`.

    Raises:
        FileExistsError: There is such a file already; it is untouched.
        StorageError: It could not be written.
    """
    try:
        durable.write_exclusive(path, data)
    except FileExistsError:
        raise
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written: {exc.strerror}") from exc


def replace_durably(path: Path, data: bytes) -> None:
    """Put `data` at `path` through `.NAME.tmp`, so that a crash leaves the old file or the new one.

    Raises:
        StorageError: It could not be written, or not synced; a file that was there before is, or the new one.
    """
    existed = path.exists()
    try:
        durable.replace(path, path.with_name(f".{path.name}.tmp"), data)
    except OSError as exc:
        if isinstance(exc, durable.UnsyncedError) and not existed:
            with contextlib.suppress(OSError):
                durable.erase(path)
        raise StorageError(f"{path}: cannot be written: {exc.strerror}") from exc


def finish_exclusive(path: Path) -> None:
    """Unlink the temporary name that a crash within `write_exclusive` may have left.

    Raises:
        StorageError: It could not be unlinked.
    """
    try:
        durable.remove(path.with_name(f".{path.name}.tmp"))
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written: {exc.strerror}") from exc


def read_private(path: Path, limit: int | None = None) -> bytes:
    """Read a regular file that only its owner can read, up to `limit` bytes.

    Raises:
        PermissionError: It is readable by others; the message says how to mend it.
        OSError: It cannot be read.
    """
    descriptor = durable.open_regular(path)
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if mode & _TOO_OPEN:
            how = f"(mode {stat.S_IMODE(mode):04o}); close it with: chmod 600 {path}"
            raise PermissionError(0, f"readable by others {how}")
        return file.read() if limit is None else file.read(limit)


def read_versioned(path: Path, kind: type[VersionedT], highest: int) -> VersionedT | None:
    """Read a struct from a JSON file; None if there is no file.

    Args:
        path: The file.
        kind: The struct's type.
        highest: The highest version that is read.

    Raises:
        NewerVersionError: A newer Perpetua wrote it.
        StateError: It is damaged.
        StorageError: It cannot be read.
    """
    try:
        found = msgspec.json.decode(durable.read(path), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise StorageError(f"{path}: cannot be read: {exc.strerror}") from exc
    except msgspec.MsgspecError as exc:
        raise StateError(f"{path}: the file is damaged") from exc
    if found.version > highest:
        raise NewerVersionError(f"{path}: {newer_version(found.version, highest)}")
    return found
