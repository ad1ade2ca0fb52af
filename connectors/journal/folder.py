"""A journal's folder: held by one process, closed to others, and what is durable in it."""

import os
import stat
from pathlib import Path
from typing import Final

from oracle import durable
from oracle.errors import StorageError

__all__ = ["check_mode", "hold", "make_durable", "path_of"]

_TOO_OPEN: Final = 0o077


def path_of(folder: Path, base: int) -> Path:
    """Return where the segment behind a position is; sorted, names are in the order of positions."""
    return folder / f"{base:020d}.journal"


def hold(folder: Path) -> int:
    """Keep a second process off the journal until the descriptor is closed; the lock goes with the process.

    Raises:
        StorageError: Another process has it.
        OSError: The lock cannot be made.
    """
    try:
        return durable.hold(folder / "lock")
    except BlockingIOError as exc:
        raise StorageError(f"{folder}: another process writes to this journal") from exc


def check_mode(folder: Path) -> None:
    """Refuse a folder that others can read.

    Raises:
        StorageError: They can.
    """
    if stat.S_IMODE(folder.stat().st_mode) & _TOO_OPEN:
        raise StorageError(f"{folder}: can be read by others; close it with: chmod 700 {folder}")


def make_durable(path: Path, length: int) -> None:
    """End a file at a length, and sync it: a process that was killed may have written what it never synced.

    Raises:
        OSError: It could not be done.
    """
    descriptor = durable.open_regular(path, os.O_WRONLY)
    try:
        if os.fstat(descriptor).st_size > length:
            durable.cut(descriptor, length)
        durable.sync(descriptor)
    finally:
        os.close(descriptor)
