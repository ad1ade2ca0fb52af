"""Whether a folder can take the next snapshot: tried, and undone."""

import contextlib
import os
from pathlib import Path

from oracle.errors import StorageError

__all__ = ["check_room"]

_PROBE = ".perpetua-check"
_LEAST = 4096


def check_room(folder: Path, size: int) -> None:
    """Make a file of some size in a folder, and take it away again.

    Args:
        folder: The folder.
        size: Bytes that the next file will have.

    Raises:
        StorageError: It cannot be made, or there is no room for it.
    """
    probe = folder / _PROBE
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, max(size, _LEAST))
        finally:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                probe.unlink()
    except OSError as exc:
        msg = f"{folder}: a snapshot could not be written: {exc.strerror}; let this user write to it, and make room"
        raise StorageError(msg) from exc
