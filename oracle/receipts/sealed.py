"""Signed statements: an envelope with an Ed25519 signature, and what opens it. What is stated is told by a domain."""

from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from oracle.errors import InputError, PerpetuaError, StorageError

__all__ = ["ForgedReceiptError", "Receipt", "open_sealed", "read_receipt", "seal_bytes"]


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """A statement with its Ed25519 signature.

    Attributes:
        statement: The signed bytes: JSON.
        public_key: 32 bytes, hex digits.
        signature: 64 bytes, hex digits.
    """

    statement: msgspec.Raw
    public_key: str
    signature: str


class _Versioned(Protocol):
    @property
    def version(self) -> int:
        """Of the statement's format."""


_StatementT = TypeVar("_StatementT", bound=_Versioned)


class ForgedReceiptError(PerpetuaError):
    """The signature is invalid, or by another key than required: a check that failed."""


def seal_bytes(raw: bytes, key: Ed25519PrivateKey, domain: bytes) -> bytes:
    """Sign a statement's JSON and return the receipt's bytes; the domain keeps statements of other kinds apart."""
    receipt = Receipt(
        statement=msgspec.Raw(raw),
        public_key=key.public_key().public_bytes_raw().hex(),
        signature=key.sign(domain + raw).hex(),
    )
    return msgspec.json.encode(receipt) + b"\n"


def read_receipt(path: Path) -> Receipt:
    """Read a receipt; nothing of it is checked.

    Raises:
        StorageError: The file cannot be read.
        InputError: It is no receipt.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Receipt)
    except OSError as exc:
        raise StorageError(f"{path}: {exc.strerror}") from exc
    except msgspec.MsgspecError as exc:
        raise InputError("receipt", str(path), "must be a Perpetua receipt") from exc


def open_sealed(
    path: Path, public_key: bytes | None, domain: bytes, kind: type[_StatementT], newest: int
) -> tuple[_StatementT, str]:
    """Read a receipt, check its signature, and return what it states and the key it is signed with, hex digits.

    Args:
        path: The file.
        public_key: The key that it has to be signed with; None takes the one it names.
        domain: Of the kind of statement.
        kind: What is stated.
        newest: Version of it that is known.

    Raises:
        StorageError: The file cannot be read.
        InputError: It is no receipt of this kind, or of a newer version.
        ForgedReceiptError: It is signed with another key, or the signature does not belong to the statement.
    """
    receipt = read_receipt(path)
    raw = bytes(receipt.statement)
    try:
        signer, signature = bytes.fromhex(receipt.public_key), bytes.fromhex(receipt.signature)
        key = Ed25519PublicKey.from_public_bytes(signer)
    except ValueError as exc:
        raise InputError("receipt", str(path), "must be a Perpetua receipt") from exc
    if public_key is not None and signer != public_key:
        raise ForgedReceiptError(f"signed by key {signer.hex()}, not by the key you gave, {public_key.hex()}")
    try:
        key.verify(signature, domain + raw)
    except InvalidSignature as exc:
        raise ForgedReceiptError("the signature does not match the statement: it was changed") from exc
    try:
        statement = msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError as exc:
        raise InputError("receipt.statement", str(path), "must be a statement that this Perpetua knows") from exc
    if statement.version > newest:
        raise InputError("receipt.version", statement.version, f"must be at most {newest}")
    return statement, signer.hex()
