"""The key file: 32 random bytes that decrypt the snapshots of one model, in a private file."""

import re
import secrets
from pathlib import Path

from oracle.errors import KeyFileError
from oracle.state.files import read_private, write_exclusive
from oracle.state.format import MASTER_KEY_BYTES, derive_key

__all__ = ["create_key_file", "journal_key", "mark_key", "parse_key_file", "read_key_file"]

_FIRST_LINE = "perpetua-key 1"
_READ_LIMIT = 4096
_JOURNAL_PURPOSE = b"perpetua/journal/1/key/"
_MARK_PURPOSE = b"perpetua/kafka/1/marks/"


def create_key_file(path: Path) -> bytes:
    """Write a new random key to a new file of mode 0600, durably, and return the key.

    Raises:
        KeyFileError: There is a file already; a key is never overwritten.
        StorageError: It could not be written; nothing is left behind.
    """
    key = secrets.token_bytes(MASTER_KEY_BYTES)
    try:
        write_exclusive(path, f"{_FIRST_LINE}\n{key.hex()}\n".encode())
    except FileExistsError as exc:
        raise KeyFileError(f"key file {path}: already exists, and a key is never overwritten") from exc
    return key


def read_key_file(path: Path) -> bytes:
    """Return the key, 32 bytes.

    Raises:
        KeyFileError: The file is missing, malformed, or readable by others than its owner.
    """
    try:
        text = read_private(path, _READ_LIMIT)
    except OSError as exc:
        raise KeyFileError(f"key file {path}: {exc.strerror}") from exc
    return parse_key_file("key file", path, text, _FIRST_LINE)


def parse_key_file(noun: str, path: Path, text: bytes, first_line: str) -> bytes:
    """Return the 32 bytes that a key file's text holds in hex digits, below its first line.

    Args:
        noun: What an error calls the file.
        path: The file.
        text: What it holds.
        first_line: Of files of its kind.

    Raises:
        KeyFileError: It is of another form.
    """
    match = re.fullmatch(rf"{first_line}\n([0-9a-f]{{{2 * MASTER_KEY_BYTES}}})\n?".encode(), text)
    if match is None:
        raise KeyFileError(f"{noun} {path}: not a key file (a line {first_line!r}, then a line of hex digits)")
    return bytes.fromhex(match[1].decode())


def journal_key(master_key: bytes, plan_digest: bytes) -> bytes:
    """Return the key of a state's journals, 32 bytes (see `derive_key`)."""
    return derive_key(master_key, _JOURNAL_PURPOSE, plan_digest)


def mark_key(master_key: bytes, plan_digest: bytes) -> bytes:
    """Return the key that seals a state's marks on Kafka, 32 bytes (see `derive_key`)."""
    return derive_key(master_key, _MARK_PURPOSE, plan_digest)
