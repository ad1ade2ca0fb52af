"""`DurableCommitFile`: the small record that decides what of the files beside it counts."""

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from oracle.errors import NewerVersionError, StorageError, beyond_us

__all__ = ["CommitRecord", "DurableCommitFile", "InDoubtError", "sync_folder", "write_all"]

_VERSION = 1


class InDoubtError(StorageError):
    """The record was replaced but not synced: only opening the sink again tells which commit is the last."""


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The state of a sink's files after a commit.

    Attributes:
        position: Position after the last delivery whose reply is in the files; None before the first commit.
        metadata: What the committer gave.
        lengths: For each file by its role, how much of it counts (bytes, or parts).
    """

    position: int | None = None
    metadata: bytes = b""
    lengths: Mapping[str, int] = field(default_factory=dict)


class DurableCommitFile:
    """One `CommitRecord` in a file (JSON, mode 0600), replaced whole or not at all.

    Args:
        path: The file; its folder must exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = path.with_name(path.name + ".tmp")

    def read(self) -> CommitRecord | None:
        """Return the record, or None if there is none.

        Raises:
            NewerVersionError: A newer Perpetua wrote it.
            StorageError: It cannot be read, or is damaged.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise StorageError(f"commit record {self.path}: cannot be read: {exc.strerror}") from exc
        try:
            return _decode(data, self.path)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as exc:
            raise StorageError(f"commit record {self.path}: damaged") from exc

    def write(self, record: CommitRecord) -> None:
        """Replace the record, durably.

        Raises:
            InDoubtError: It was replaced, but a crash may still bring the old one back.
            StorageError: It was not replaced.
        """
        try:
            # 1. The new record, under a name that `read` does not know.  2. fsync it.
            self._write_temporary(_encode(record))
            # 3. The name: from here on it is the new record.
            self._temporary.replace(self.path)
        except OSError as exc:
            with contextlib.suppress(OSError):
                self._temporary.unlink(missing_ok=True)
            raise StorageError(f"commit record {self.path}: cannot be written: {exc.strerror}") from exc
        try:
            # 4. fsync the folder: from here on a crash cannot bring the old one back.
            sync_folder(self.path.parent)
        except OSError as exc:
            raise InDoubtError(f"commit record {self.path}: cannot be synced: {exc.strerror}") from exc

    def _write_temporary(self, data: bytes) -> None:
        descriptor = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`.

    Raises:
        OSError: It could not be written; a part of it may have been.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Make the folder's names durable.

    Raises:
        OSError: The folder could not be synced.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_LAST_VERSION = 9999
"""Anything above is no version, but damage."""


def _encode(record: CommitRecord) -> bytes:
    fields = {
        "version": _VERSION,
        "position": record.position,
        "metadata": base64.b64encode(record.metadata).decode(),
        "lengths": dict(sorted(record.lengths.items())),
    }
    return _json({**fields, "checksum": hashlib.sha256(_json(fields)).hexdigest()})


def _decode(data: bytes, path: Path) -> CommitRecord:
    fields = json.loads(data)
    version = fields["version"]
    if isinstance(version, int) and _VERSION < version <= _LAST_VERSION:
        raise NewerVersionError(f"commit record {path}: {beyond_us(version, _VERSION)}")
    checksum = fields.pop("checksum")
    if fields["version"] != _VERSION or checksum != hashlib.sha256(_json(fields)).hexdigest():
        raise ValueError(_VERSION)
    return CommitRecord(fields["position"], base64.b64decode(fields["metadata"]), fields["lengths"])


def _json(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
