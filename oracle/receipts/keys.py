"""Receipt keys: an Ed25519 key in a private file, and its public part beside it for those who check receipts."""

import contextlib
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from oracle.errors import InputError, KeyFileError, StorageError
from oracle.state.files import read_private, write_exclusive
from oracle.state.keys import parse_key_file

__all__ = ["public_key_path", "read_public_key", "signing_key"]

_SECRET, _PUBLIC = "perpetua-receipt-key 1", "perpetua-receipt-public-key 1"
_LIMIT: Final = 4096


def public_key_path(secret: Path) -> Path:
    """Return where the public part of a receipt key is written."""
    return secret.with_name(secret.name + ".pub")


def signing_key(path: Path) -> Ed25519PrivateKey:
    """Return the receipt key of a file of mode 0600; make it, and its public part beside it, where there is none.

    Raises:
        KeyFileError: The file is malformed, or readable by others than its owner; or the public key file beside it
            is of another key, or none: whoever was given that one would find every receipt forged.
        StorageError: It cannot be written.
    """
    if not path.exists():
        raw = Ed25519PrivateKey.generate().private_bytes_raw()
        with contextlib.suppress(FileExistsError):  # another process was quicker: its key is the one
            write_exclusive(path, f"{_SECRET}\n{raw.hex()}\n".encode())
    try:
        text = read_private(path, _LIMIT)
    except OSError as exc:
        raise KeyFileError(f"receipt key {path}: {exc.strerror}") from exc
    key = Ed25519PrivateKey.from_private_bytes(parse_key_file("receipt key", path, text, _SECRET))
    public, raw = public_key_path(path), key.public_key().public_bytes_raw()
    with contextlib.suppress(FileExistsError):
        if not public.exists():
            write_exclusive(public, f"{_PUBLIC}\n{raw.hex()}\n".encode())
    try:
        fits = read_public_key(public) == raw
    except InputError:
        fits = False
    if not fits:
        raise KeyFileError(f"receipt key {public}: not the public part of {path}; move it away to have it made again")
    return key


def read_public_key(path: Path) -> bytes:
    """Return the 32 bytes of a public key file.

    Raises:
        StorageError: It cannot be read.
        InputError: It is none.
    """
    try:
        return parse_key_file("public key", path, path.read_bytes()[:_LIMIT], _PUBLIC)
    except OSError as exc:
        raise StorageError(f"public key {path}: cannot be read: {exc.strerror}") from exc
    except KeyFileError as exc:
        raise InputError("public key", str(path), "must be the .pub file beside a receipt key") from exc
