"""A retired state: the mark that ends it for good, and the erasure of its secrets.

    retired.json        the mark, in the state folder; it stays, with plan.json and shards.json

What the file system keeps of overwritten blocks (flash drives, copy on write, snapshots of a volume), and what was
copied elsewhere, is not erased here.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from oracle import durable
from oracle.accounting.ledger import ModelRetired
from oracle.errors import (
    KeyFileError,
    RetiredError,
    StateBusyError,
    StateError,
    StorageError,
)
from oracle.state.files import read_versioned, replace_durably
from oracle.state.shard_id import MARK, SHARD

__all__ = [
    "Retired",
    "erase_secrets",
    "key_digest",
    "lock_all",
    "lock_shared",
    "lock_unserved",
    "read_retired",
    "refuse_retired",
    "write_retired",
]

_NAME: Final = "retired.json"
_VERSION: Final = 1
_PLAN: Final = "plan.json"
_LOCK: Final = "lock"
_JOURNALS: Final = ("queries", "answers")
_DOMAIN: Final = b"perpetua/retired/1\0"


class Retired(msgspec.Struct, frozen=True, kw_only=True):
    """What stays of a state.

    Attributes:
        version: Of this format.
        model: The model's name.
        retired: When, UTC.
        events: The last ledger event of each shard.
        receipts: The signed receipt of each shard, as its file has it.
        key_file: Where the key was; relative to the folder, if in it, and so is `journal`.
        key_digest: Tells the key file from others.
        journal: Where the journals were, of a model on MQTT.
    """

    version: int = _VERSION
    model: str
    retired: str
    events: tuple[ModelRetired, ...]
    receipts: tuple[msgspec.Raw, ...]
    key_file: str
    key_digest: str
    journal: str


def key_digest(master_key: bytes) -> str:
    """Return a key's fingerprint, hex digits; it reveals nothing else of the key."""
    return hashlib.sha256(_DOMAIN + master_key).hexdigest()


def read_retired(folder: Path) -> Retired | None:
    """Return the mark of a retired state, or of the state that a shard belongs to; None if it is not retired.

    Raises:
        StateError: It is damaged, or a newer Perpetua wrote it.
        StorageError: It cannot be read.
    """
    whole = folder.resolve()
    path = (whole.parent if SHARD.fullmatch(whole.name) and (whole.parent / MARK).exists() else whole) / _NAME
    return read_versioned(path, Retired, _VERSION)


def refuse_retired(folder: Path) -> None:
    """Refuse a retired state.

    Raises:
        RetiredError: It was retired.
        StateError: See `read_retired`.
    """
    found = read_retired(folder)
    if found is not None:
        raise RetiredError(
            f"{folder}: model {found.model} was retired ({found.retired}): its keys are erased and it answers no more; "
            "make another model with `perpetua init`, in a folder of its own"
        )


def write_retired(folder: Path, retired: Retired) -> None:
    """Retire a state durably: from now on nothing serves it, whatever is left of it.

    Raises:
        StorageError: It could not be written; the state is not retired.
    """
    replace_durably(folder / _NAME, msgspec.json.encode(retired))


def lock_shared(folder: Path) -> int:
    """Lock a state folder as served, shared with others, until the descriptor is closed.

    Raises:
        BlockingIOError: Somebody is retiring it.
        OSError: There is no state.
    """
    return _locked(folder / _PLAN, fcntl.LOCK_SH)


@contextlib.contextmanager
def lock_unserved(folders: Sequence[Path]) -> Iterator[None]:
    """Lock all folders of a state against whoever would serve it on Kafka; a `FolderStore` can hold them meanwhile.

    Raises:
        StateBusyError: Another process serves it.
        StateError: A folder holds no state.
        StorageError: A lock cannot be opened.
    """
    with contextlib.ExitStack() as stack:
        for folder in folders:
            with _named(folder):
                stack.callback(os.close, _locked(folder / _PLAN, fcntl.LOCK_EX))
        yield


@contextlib.contextmanager
def lock_all(folders: Sequence[Path]) -> Iterator[None]:
    """Lock all folders of a state, so that no other process serves or changes it.

    Raises:
        StateBusyError: Another process does.
        StateError: A folder holds no state.
        StorageError: A lock cannot be opened.
    """
    with contextlib.ExitStack() as stack:
        for folder in folders:
            with _named(folder):
                stack.callback(os.close, _locked(folder / _PLAN, fcntl.LOCK_EX))
                stack.callback(os.close, durable.hold(folder / _LOCK))
        yield


@contextlib.contextmanager
def _named(folder: Path) -> Iterator[None]:
    """Say of which folder a lock cannot be had, and why."""
    try:
        yield
    except BlockingIOError as exc:
        raise StateBusyError(f"state folder {folder}: another process holds it; stop it first") from exc
    except FileNotFoundError as exc:
        raise StateError(f"{folder}: holds no state; make one with `perpetua init`") from exc
    except OSError as exc:
        raise StorageError(f"state folder {folder}: {exc.filename or folder}: {exc.strerror}") from exc


def _locked(path: Path, how: int) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def erase_secrets(folder: Path, shards: Sequence[Path], retired: Retired, key: bytes | None) -> None:
    """Overwrite and delete a retired state's secrets: the key first, then snapshots, then journals.

    Args:
        folder: The state.
        shards: The folders of its shards.
        retired: Names the key file and the journals.
        key: What the key file holds now; None if it is gone, or was half erased.

    Raises:
        KeyFileError: The key file is another state's.
        StorageError: Something could not be erased; the same call goes on.
    """
    path = folder / retired.key_file
    if key is not None and key_digest(key) != retired.key_digest:
        raise KeyFileError(f"key file {path}: now belongs to another state; left untouched")
    snapshots = [one for shard in shards for one in sorted(shard.glob("*snapshot-*.perp*"))]
    journals = [one for kind in _JOURNALS for one in sorted((folder / retired.journal / kind).glob("*"))]
    for one in (path, *snapshots, *journals):
        try:
            durable.erase(one, linked=True)
        except OSError as exc:
            raise StorageError(f"{one}: cannot be erased: {exc.strerror}; run the command again") from exc
