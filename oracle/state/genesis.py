"""The genesis file: the first snapshot, its plan and its key, for an owner who wants to verify old rounds.

Whoever holds it can recompute every noise draw since the beginning, so it belongs offline.
"""

import hashlib
import struct
from pathlib import Path
from typing import NamedTuple

from oracle.errors import (
    CorruptSnapshotError,
    ForeignPlanError,
    KeyFileError,
    NewerVersionError,
    StorageError,
    newer_version,
)
from oracle.state.files import read_private, write_exclusive
from oracle.state.format import MASTER_KEY_BYTES, peek

__all__ = ["Genesis", "read_genesis", "write_genesis"]

_MAGIC = b"PERPGENE"
_VERSION = 1
_HEADER = struct.Struct(f"<8sH{MASTER_KEY_BYTES}sQQ")
_CHECKSUM_BYTES = 32


class Genesis(NamedTuple):
    """What a genesis file holds.

    Attributes:
        master_key: The key, 32 bytes.
        snapshot: The first snapshot, encoded.
        plan: The plan's canonical JSON.
    """

    master_key: bytes
    snapshot: bytes
    plan: bytes


def write_genesis(path: Path, genesis: Genesis) -> None:
    """Write a new genesis file of mode 0600, durably.

    Raises:
        ForeignPlanError: The plan is not the snapshot's.
        KeyFileError: The key does not have 32 bytes.
        StorageError: There is a file already (it is never overwritten), or it could not be written.
    """
    if len(genesis.master_key) != MASTER_KEY_BYTES:
        raise KeyFileError(f"key: must have {MASTER_KEY_BYTES} bytes")
    _check_plan(genesis)
    header = _HEADER.pack(_MAGIC, _VERSION, genesis.master_key, len(genesis.snapshot), len(genesis.plan))
    body = header + genesis.snapshot + genesis.plan
    try:
        write_exclusive(path, body + hashlib.sha256(body).digest())
    except FileExistsError as exc:
        raise StorageError(f"genesis file {path}: already exists and is never overwritten") from exc


def read_genesis(path: Path) -> Genesis:
    """Read a genesis file back.

    Raises:
        KeyFileError: It is missing, or readable by others than its owner.
        NewerVersionError: A newer Perpetua wrote it.
        CorruptSnapshotError: Its bytes are not the ones that were written.
        ForeignPlanError: Its plan is not its snapshot's.
    """
    try:
        data = read_private(path)
    except OSError as exc:
        raise KeyFileError(f"genesis file {path}: {exc.strerror}") from exc
    body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != checksum or len(body) < _HEADER.size:
        raise CorruptSnapshotError(f"genesis file {path}: the file is damaged")
    _magic, version, master_key, snapshot_bytes, plan_bytes = _HEADER.unpack_from(body)
    if version > _VERSION:
        raise NewerVersionError(f"genesis file {path}: {newer_version(version, _VERSION)}")
    if len(body) != _HEADER.size + snapshot_bytes + plan_bytes:
        raise CorruptSnapshotError(f"genesis file {path}: the file is damaged")
    plan_start = _HEADER.size + snapshot_bytes
    genesis = Genesis(master_key, body[_HEADER.size : plan_start], body[plan_start:])
    _check_plan(genesis)
    return genesis


def _check_plan(genesis: Genesis) -> None:
    if peek(genesis.snapshot).plan_digest != hashlib.sha256(genesis.plan).digest():
        raise ForeignPlanError("genesis: the plan is not the snapshot's")
