"""Tests whether a folder can take a file, such as the next snapshot, without leaving anything there."""

import errno
import os
from pathlib import Path
from typing import Final

from oracle import durable
from oracle.errors import StorageError

__all__ = ["check_space", "folder_problem"]

_BLOCK: Final = bytes(4096)
_NO_NAMELESS: Final = frozenset({errno.EISDIR, errno.EOPNOTSUPP})
"""Errors of file systems and kernels without unnamed files."""


def check_space(folder: Path, size: int) -> None:
    """Refuse a folder that cannot take a snapshot.

    Args:
        folder: The folder.
        size: Bytes of the snapshot.

    Raises:
        StorageError: No file can be made there, or there is no room for it.
    """
    problem = folder_problem(folder, size)
    if problem is not None:
        raise StorageError(f"{folder}: {problem}; let this user write to it, and make room for a snapshot")


def folder_problem(folder: Path, size: int = 0) -> str | None:
    """Return why a folder cannot take a file, or None if it can.

    Args:
        folder: The folder.
        size: Bytes to keep room for; a block is written whatever it is.
    """
    try:
        descriptor = _open_nameless(folder)
        try:
            os.write(descriptor, _BLOCK)
            if size > len(_BLOCK):
                os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)
    except OSError as exc:
        return f"cannot be written: {exc.strerror}"
    return None


def _open_nameless(folder: Path) -> int:
    """Open a file that disappears when it is closed, even if the process dies.

    Raises:
        OSError: It cannot be made.
    """
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600)
    except OSError as exc:
        if exc.errno not in _NO_NAMELESS:
            raise
    path = folder / ".perpetua-trial"
    descriptor = durable.open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW)
    try:
        path.unlink(missing_ok=True)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
