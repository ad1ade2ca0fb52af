"""What every local connector checks: bounds, and who may read answers."""

import os
import stat
from pathlib import Path
from typing import Final

from connectors.base import METADATA_LIMIT
from oracle.errors import InputError

__all__ = ["check_at_least", "check_metadata", "check_private"]

_OTHERS: Final = 0o077


def check_at_least(name: str, value: float, least: float) -> None:
    """Refuse a setting below its bound.

    Raises:
        InputError: It is.
    """
    if not value >= least:
        raise InputError(name, value, f"must be at least {least}")


def check_metadata(metadata: bytes) -> None:
    """Refuse commit metadata that a broker could not keep.

    Raises:
        InputError: It is longer than `METADATA_LIMIT`.
    """
    if len(metadata) > METADATA_LIMIT:
        raise InputError("commit.metadata", len(metadata), f"must have at most {METADATA_LIMIT} bytes")


def check_private(name: str, path: Path, status: os.stat_result) -> None:
    """Refuse a file or folder of answers that others can read, as an answer tells about its query.

    Raises:
        InputError: Others can; the message says how to mend it.
    """
    mode, ours = stat.S_IMODE(status.st_mode), os.geteuid()
    if status.st_uid != ours:
        bound = f"belongs to user {status.st_uid}, who can read answers in it; make it your own: chown {ours} {path}"
        raise InputError(name, str(path), bound)
    if mode & _OTHERS:
        closed = 700 if stat.S_ISDIR(status.st_mode) else 600
        bound = f"mode {mode:04o} exposes answers to others; fix it with: chmod {closed} {path}"
        raise InputError(name, str(path), bound)
