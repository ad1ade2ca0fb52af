"""A state of several shards: a folder of complete state folders, and the mark that says that all of them are there.

    plan.json, key             one plan for each shard, one key for all
    shard-0000, shard-0001     a folder as `FolderStore` keeps it, each
    shards.json                how many there are; renamed from unfinished.json once all are written

The state of a model with one shard is that shard's folder itself, without a mark.
"""

import re
from contextlib import suppress
from pathlib import Path

import msgspec

from oracle import durable
from oracle.errors import NewerVersionError, StateError, StorageError, beyond_us
from oracle.state.files import replace_durably
from oracle.state.folder import peek_folder

__all__ = [
    "begin_shards",
    "discard_unfinished",
    "finish_shards",
    "holds_state",
    "refuse_sharded",
    "shard_count",
    "shard_folder",
    "shard_name",
]

_VERSION = 1
_MARK = "shards.json"
_UNFINISHED = "unfinished.json"
_PLAN = "plan.json"
_SHARD = re.compile(r"shard-\d+")


class _Mark(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    shards: int


def shard_name(number: int) -> str:
    """Return the name of a shard's folder."""
    return f"shard-{number:04d}"


def shard_count(folder: Path) -> int:
    """Return how many shards a state has.

    Raises:
        StateError: There is no state, `init` has not finished it, or mark and folders disagree.
        StorageError: The folder cannot be read.
    """
    if (folder / _UNFINISHED).exists():
        raise StateError(f"{folder}: `perpetua init --shards` has not finished this state; run the same command again")
    mark, present = _read_mark(folder), _present(folder)
    if mark is None:
        if present:
            raise StateError(f"{folder}: holds {present[0]}, but {_MARK} is missing; put back what was taken away")
        if peek_folder(folder) is None:
            raise StateError(f"{folder}: holds no state; make one with `perpetua init`")
        return 1
    expected = {shard_name(number) for number in range(mark.shards)}
    missing, extra = sorted(expected.difference(present)), sorted(set(present) - expected)
    if missing:
        raise StateError(f"{folder}: {_MARK} says {mark.shards} shards, and {missing[0]} is missing")
    if extra:
        raise StateError(f"{folder}: {_MARK} says {mark.shards} shards, and there is {extra[0]}")
    if peek_folder(folder) is not None:
        raise StateError(f"{folder}: {_MARK} says {mark.shards} shards, and there is a snapshot beside it")
    return mark.shards


def shard_folder(folder: Path, number: int) -> Path:
    """Return the state folder of one shard; of a state with one shard, the folder itself.

    Args:
        folder: The state.
        number: From 0.

    Raises:
        StateError: There is no such shard, or `shard_count` raises it.
        StorageError: The folder cannot be read.
    """
    count = shard_count(folder)
    if not 0 <= number < count:
        raise StateError(f"{folder}: has {count} shards, numbered from 0, and none is number {number}")
    return folder if count == 1 else folder / shard_name(number)


def holds_state(folder: Path) -> bool:
    """Return whether a state or parts of one are there that nothing may overwrite; what `init` left unfinished may be.

    Raises:
        StorageError: The folder cannot be read.
    """
    if any(folder.glob("snapshot-*.perp")) or (folder / _MARK).exists():
        return True
    return bool(_present(folder)) and not (folder / _UNFINISHED).exists()


def refuse_sharded(folder: Path) -> None:
    """Refuse a folder that is not one shard's: what works on files takes one shard at a time.

    Raises:
        StateError: It holds several shards, or `perpetua init` has not finished it.
    """
    if (folder / _UNFINISHED).exists() or (folder / _MARK).exists():
        count = shard_count(folder)
        raise StateError(
            f"{folder}: is a state of {count} shards, which is served from Kafka; for one shard on files name its "
            f"folder, such as {folder / shard_name(0)}, and the key file (by default {folder / 'key'})"
        )
    if _SHARD.fullmatch(folder.name) and (folder.parent / _UNFINISHED).exists():
        shard_count(folder.parent)


def begin_shards(folder: Path, shards: int) -> None:
    """Say durably that shards are being made here; until `finish_shards` nothing takes the folder for a state.

    Args:
        folder: A folder that the caller holds (`FolderStore.open`), with nothing in it that `holds_state` finds.
        shards: How many, at least 2.

    Raises:
        StorageError: It could not be written, or the plan that an earlier try left not erased.
    """
    mark = msgspec.json.encode(_Mark(version=_VERSION, shards=shards))
    replace_durably(folder / _UNFINISHED, mark)
    try:
        durable.erase(folder / _PLAN)
    except OSError as exc:
        raise StorageError(f"{folder / _PLAN}: cannot be erased: {exc.strerror}") from exc


def finish_shards(folder: Path) -> None:
    """Say durably that all shards are there: the one step that makes the folder a state.

    Raises:
        StorageError: It could not be written.
    """
    try:
        durable.rename(folder / _UNFINISHED, folder / _MARK)
    except OSError as exc:
        raise StorageError(f"{folder / _MARK}: cannot be written: {exc.strerror}") from exc


def discard_unfinished(folder: Path) -> None:
    """Erase the shards, and their plan, that an interrupted `init` left; the key stays. No round was ever served.

    Their rows must not be dealt a second time beside them: a record would then be in two shards.

    Args:
        folder: A folder that the caller holds (`FolderStore.open`).

    Raises:
        StorageError: Something could not be erased.
    """
    try:
        durable.erase(folder / f".{_UNFINISHED}.tmp")
        if not (folder / _UNFINISHED).exists():
            return
        for name in _present(folder):
            for path in (folder / name).iterdir():
                durable.erase(path)
            durable.remove_folder(folder / name)
        durable.erase(folder / _PLAN)
        durable.erase(folder / _UNFINISHED)  # last: all else is gone
    except OSError as exc:
        raise StorageError(f"{folder}: what was left unfinished cannot be erased: {exc.strerror}") from exc


def _read_mark(folder: Path) -> _Mark | None:
    path = folder / _MARK
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise StorageError(f"{path}: cannot be read: {exc.strerror}") from exc
    mark = None
    with suppress(msgspec.MsgspecError):
        mark = msgspec.json.decode(data, type=_Mark)
    if mark is not None and mark.version > _VERSION:
        raise NewerVersionError(f"{path}: {beyond_us(mark.version, _VERSION)}")
    if mark is None or mark.version < 1 or mark.shards < 2:  # noqa: PLR2004 -- one shard has no mark
        raise StateError(f"{path}: its bytes are not the ones that were written")
    return mark


def _present(folder: Path) -> list[str]:
    """Return the names of all folders that are named as shards are, sorted."""
    try:
        return sorted(path.name for path in folder.iterdir() if _SHARD.fullmatch(path.name) and path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as exc:
        raise StorageError(f"state folder {folder}: {exc.strerror}") from exc
