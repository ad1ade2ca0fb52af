"""Receipts of audits: who ran one says so, and which report it led to."""

import hashlib
from pathlib import Path
from typing import Final, Literal

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from oracle.errors import InputError, StorageError
from oracle.receipts.sealed import open_sealed, read_receipt, seal_bytes

__all__ = ["AuditStatement", "differing_files", "is_of_audit", "open_audit", "seal_audit"]

_DOMAIN: Final = b"perpetua/audit/1\0"
_VERSION: Final = 1


class AuditStatement(msgspec.Struct, frozen=True, kw_only=True):
    """What is signed of an audit.

    Attributes:
        kind: Tells it from the statement of a run.
        version: Of this format.
        software: Name, version and digest of what was run.
        issued: When, UTC.
        banner: The verdict, in a sentence.
        attacked: What was attacked, in sentences.
        files: SHA-256 of the report's files, hex digits, by name: they lie beside the receipt.
    """

    kind: Literal["audit"] = "audit"
    version: int = _VERSION
    software: str
    issued: str
    banner: str
    attacked: tuple[str, ...]
    files: dict[str, str]


class _Kind(msgspec.Struct):
    kind: str = "run"


def seal_audit(statement: AuditStatement, key: Ed25519PrivateKey) -> bytes:
    """Sign the statement of an audit and return the receipt's bytes."""
    return seal_bytes(msgspec.json.encode(statement), key, _DOMAIN)


def is_of_audit(path: Path) -> bool:
    """Return whether a receipt says that it is one of an audit, and not of a run; nothing of it is checked."""
    try:
        return msgspec.json.decode(bytes(read_receipt(path).statement), type=_Kind).kind == "audit"
    except msgspec.MsgspecError:
        return False


def open_audit(path: Path, public_key: bytes | None) -> tuple[AuditStatement, str]:
    """Read the receipt of an audit and check its signature, as `open_sealed` does.

    Raises:
        InputError: It is of a newer version, or a text in it could pass for other lines when printed.
    """
    statement, signer = open_sealed(path, public_key, _DOMAIN, AuditStatement, _VERSION)
    texts = (statement.software, statement.issued, statement.banner, *statement.attacked, *statement.files)
    for text in texts:
        if not text.isprintable():
            raise InputError("receipt.statement", text, "must have only printable characters")
    return statement, signer


def differing_files(statement: AuditStatement, folder: Path) -> list[str]:
    """Return in words which of a report's files are not those that were signed.

    Raises:
        StorageError: One cannot be read.
    """
    wrong = []
    for name, digest in statement.files.items():
        try:
            data = (folder / Path(name).name).read_bytes()
        except OSError as exc:
            raise StorageError(f"{folder / name}: {exc.strerror}") from exc
        if hashlib.sha256(data).hexdigest() != digest:
            wrong.append(f"{name} is not the file that was signed")
    return wrong
