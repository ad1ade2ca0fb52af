"""Files with secrets for a broker, passwords and private keys: those that others can read are refused."""

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from oracle.errors import InputError, StorageError

__all__ = ["fault_of", "open_secret", "read_again", "read_secret"]

_OTHERS: Final = 0o077
_OTHERS_OF_ROOT: Final = 0o037
"""Root's files may be readable by a group: so Kubernetes, systemd and ssl-cert hand a secret to one service."""


def open_secret(field: str, path: Path) -> BinaryIO:
    """Open a file of secrets.

    It must be ours, and nobody else's to read; or root's, and then a group may read it, but not everybody. Links are
    followed, as mounted secrets are links.

    Raises:
        InputError: Others can read it; the message says how to mend it.
        OSError: It cannot be opened.
    """
    file = path.open("rb")
    status = os.fstat(file.fileno())
    fault = fault_of(status.st_uid, stat.S_IMODE(status.st_mode), os.geteuid())
    if fault is not None:
        file.close()
        raise InputError(field, str(path), f"{fault} {path}")
    return file


def read_secret(field: str, path: Path) -> str:
    """Return what stands in a file of secrets, without the newline at its end.

    Raises:
        StorageError: It cannot be read.
        InputError: It is not UTF-8, or others can read it.
    """
    try:
        with open_secret(field, path) as file:
            return file.read().decode().rstrip("\r\n")
    except OSError as exc:
        raise StorageError(f"{field} = '{path}': cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise InputError(field, str(path), "must be UTF-8") from exc


def read_again(path: Path | None) -> Path | None:
    """Return a file that can be read more than once, and so may be exchanged; None for a pipe, or no file."""
    return path if path is not None and path.is_file() else None


def fault_of(owner: int, mode: int, reader: int) -> str | None:
    """Return why a reader should not take a secret from a file of this owner and mode, up to the file's name."""
    if reader not in {0, owner} and owner != 0:
        return f"belongs to user {owner}, who can read it; make it your own: chown {reader}"
    from_root = owner == 0 != reader
    if mode & (_OTHERS_OF_ROOT if from_root else _OTHERS):
        return f"mode {mode:04o} opens it to others; close it with: chmod {640 if from_root else 600}"
    return None
