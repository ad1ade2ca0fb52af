"""`DurableCommitFile`: the small record that decides what of the files beside it counts."""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from oracle import durable
from oracle.errors import NewerVersionError, StorageError, newer_version

__all__ = ["CommitRecord", "DurableCommitFile", "InDoubtError"]

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
            data = durable.read(self.path)
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
            # 3. The name.  4. fsync the folder: from here on a crash cannot bring the old one back.
            durable.replace(self.path, self._temporary, _encode(record))
        except durable.UnsyncedError as exc:
            raise InDoubtError(f"commit record {self.path}: cannot be synced: {exc.strerror}") from exc
        except OSError as exc:
            raise StorageError(f"commit record {self.path}: cannot be written: {exc.strerror}") from exc


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
        raise NewerVersionError(f"commit record {path}: {newer_version(version, _VERSION)}")
    checksum = fields.pop("checksum")
    if fields["version"] != _VERSION or checksum != hashlib.sha256(_json(fields)).hexdigest():
        raise ValueError(_VERSION)
    return CommitRecord(fields["position"], base64.b64decode(fields["metadata"]), fields["lengths"])


def _json(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
