"""The word that a model is to pause: `paused.json` in its state folder, for all its processes, restarts too."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from oracle import durable
from oracle.errors import StorageError
from oracle.state.files import read_versioned, replace_durably

__all__ = ["Paused", "is_paused", "read_paused", "write_paused", "write_resumed"]

_NAME: Final = "paused.json"
_VERSION: Final = 1


class Paused(msgspec.Struct, frozen=True, kw_only=True):
    """What the file holds.

    Attributes:
        version: Of this format.
        since: When it was asked for, UTC.
    """

    version: int = _VERSION
    since: str


def read_paused(folder: Path) -> Paused | None:
    """Return since when a state is paused; None if it is not.

    Raises:
        StateError: The file is damaged, or a newer Perpetua wrote it.
        StorageError: It cannot be read.
    """
    return read_versioned(folder / _NAME, Paused, _VERSION)


def is_paused(folder: Path) -> bool:
    """Return whether a state is paused, whatever the file holds.

    Raises:
        OSError: The folder cannot be looked at.
    """
    try:
        (folder / _NAME).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def write_paused(folder: Path) -> bool:
    """Pause a state durably; return False if it was already.

    Raises:
        StateError: See `read_paused`.
        StorageError: It could not be written.
    """
    if read_paused(folder) is not None:
        return False
    paused = Paused(since=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    replace_durably(folder / _NAME, msgspec.json.encode(paused))
    return True


def write_resumed(folder: Path) -> bool:
    """End a pause durably; return False if there was none.

    Raises:
        StorageError: The file could not be removed.
    """
    try:
        there = is_paused(folder)
        durable.remove(folder / _NAME)
    except OSError as exc:
        raise StorageError(f"{folder / _NAME}: cannot be removed: {exc.strerror}") from exc
    return there
