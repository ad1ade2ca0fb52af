"""A state of several shards: a folder of complete state folders, and the mark that all of them are there."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from oracle import durable
from oracle.errors import ForeignShardError, StateError, StorageError
from oracle.state.files import replace_durably
from oracle.state.folder import newest_bytes, peek_folder
from oracle.state.format import decode, peek, phase_key
from oracle.state.retired import read_retired, refuse_retired
from oracle.state.shard_id import MARK, SHARD, UNFINISHED, Mark, read_mark, shard_id_of, shard_name

__all__ = [
    "begin_shards",
    "discard_unfinished",
    "finish_shards",
    "holds_state",
    "refuse_copies",
    "refuse_sharded",
    "shard_count",
    "shard_folder",
    "shard_folders",
    "shard_name",
]

_PLAN = "plan.json"


def shard_count(folder: Path) -> int:
    """Return how many shards a state has.

    Raises:
        StateError: There is no state, `init` has not finished it, mark and folders disagree, or a shard is not where it
            belongs, or a copy of another.
        StorageError: The folder cannot be read.
    """
    count = _count(folder)
    if count > 1:
        _refuse_equal_origins(folder)
    return count


def shard_folders(folder: Path) -> list[Path]:
    """Return the folders of a state's shards, retired or not.

    Raises:
        StateError: The mark is damaged.
        StorageError: It cannot be read.
    """
    mark = read_mark(folder / MARK)
    return [folder] if mark is None else [folder / shard_name(number) for number in range(mark.shards)]


def _count(folder: Path) -> int:
    refuse_retired(folder)
    if (folder / UNFINISHED).exists():
        raise StateError(f"{folder}: `perpetua init --shards` has not finished this state; run the same command again")
    mark, present = read_mark(folder / MARK), _present(folder)
    if mark is None:
        if present:
            raise StateError(f"{folder}: holds {present[0]}, but {MARK} is missing; put back what was taken away")
        if peek_folder(folder) is None:
            raise StateError(f"{folder}: holds no state; make one with `perpetua init`")
        return 1
    expected = {shard_name(number) for number in range(mark.shards)}
    missing, extra = sorted(expected.difference(present)), sorted(set(present) - expected)
    if missing:
        raise StateError(f"{folder}: {MARK} says {mark.shards} shards, and {missing[0]} is missing")
    if extra:
        raise StateError(f"{folder}: {MARK} says {mark.shards} shards, and there is {extra[0]}")
    if peek_folder(folder) is not None:
        raise StateError(f"{folder}: {MARK} says {mark.shards} shards, and there is a snapshot beside it")
    return mark.shards


def shard_folder(folder: Path, number: int) -> Path:
    """Return the state folder of one shard; of a state with one shard, the folder itself.

    Args:
        folder: The state.
        number: From 0.

    Raises:
        StateError: There is no such shard or state, `init` has not finished it, or mark and folders disagree.
        StorageError: The folder cannot be read.
    """
    count = _count(folder)
    if not 0 <= number < count:
        raise StateError(f"{folder}: has {count} shards, numbered from 0: there is no number {number}")
    return folder if count == 1 else folder / shard_name(number)


def holds_state(folder: Path) -> bool:
    """Return whether a folder has a state, or parts of one, that must not be overwritten; unfinished ones may be.

    Raises:
        StorageError: The folder cannot be read.
    """
    if any(folder.glob("snapshot-*.perp")) or (folder / MARK).exists() or read_retired(folder) is not None:
        return True
    return bool(_present(folder)) and not (folder / UNFINISHED).exists()


def refuse_sharded(folder: Path) -> None:
    """Refuse a folder that is not one shard's: serving from files takes one shard at a time.

    Raises:
        StateError: It holds several shards, or `perpetua init` has not finished it, or it is a shard that is not where
            it belongs, or a copy of another.
    """
    refuse_retired(folder)
    if (folder / UNFINISHED).exists() or (folder / MARK).exists():
        count = shard_count(folder)
        raise StateError(
            f"{folder}: has {count} shards and is served from Kafka; to serve one shard from files, name its "
            f"folder, such as {folder / shard_name(0)}, and the key file (by default {folder / 'key'})"
        )
    if SHARD.fullmatch(folder.name) and (folder.parent / UNFINISHED).exists():
        shard_count(folder.parent)
    if shard_id_of(folder).shards > 1:
        _refuse_equal_origins(folder.resolve().parent)


def refuse_copies(folder: Path, master_key: bytes) -> None:
    """Refuse a state in which one shard is a copy of another: both would draw the same noise.

    `shard_count` and `refuse_sharded` see that without the key, but not of snapshots that an earlier Perpetua wrote,
    which say nothing of their shard; those are opened here, and their keys brought forward to one phase.

    Args:
        folder: The state, or the folder of one shard of it.
        master_key: Opens the snapshots.

    Raises:
        ForeignShardError: Two shards have the same key.
        StateError: A snapshot cannot be opened.
        StorageError: It cannot be read.
    """
    whole = folder.resolve().parent if shard_id_of(folder).shards > 1 else folder
    headers = [peek_folder(whole / name) for name in _present(whole)]
    if all(header is None or header.origin is not None for header in headers):
        return
    found = {name: newest_bytes(whole / name) for name in _present(whole)}
    # All are opened first: until then a header's phase is anybody's word, and as many steps of work.
    shards = {name: decode(data, master_key, peek(data).plan_digest) for name, data in found.items() if data}
    last = max(snapshot.phase for snapshot in shards.values())
    keys = []
    for name, snapshot in shards.items():
        key = phase_key(snapshot.arrays)
        for _ in range(snapshot.phase, last):
            key = key.ratchet()
        keys.append((name, key.secret))
    _refuse_equal(whole, keys)


def begin_shards(folder: Path, shards: int) -> None:
    """Mark durably that shards are being made here; until `finish_shards` the folder is no state.

    Args:
        folder: A folder that the caller holds (`FolderStore.open`), with nothing in it that `holds_state` finds.
        shards: How many, at least 2.

    Raises:
        StorageError: It could not be written, or the plan that an earlier try left not erased.
    """
    mark = msgspec.json.encode(Mark(shards=shards))
    replace_durably(folder / UNFINISHED, mark)
    try:
        durable.erase(folder / _PLAN)
    except OSError as exc:
        raise StorageError(f"{folder / _PLAN}: cannot be erased: {exc.strerror}") from exc


def finish_shards(folder: Path) -> None:
    """Mark durably that all shards are there: the one step that makes the folder a state.

    Raises:
        ForeignShardError: Two shards have the same key: what drew them is broken.
        StorageError: It could not be written.
    """
    _refuse_equal_origins(folder)
    try:
        durable.rename(folder / UNFINISHED, folder / MARK)
    except OSError as exc:
        raise StorageError(f"{folder / MARK}: cannot be written: {exc.strerror}") from exc


def discard_unfinished(folder: Path) -> None:
    """Erase the shards and plan that an interrupted `init` left; the key stays. No round was ever served.

    Their rows must not be assigned a second time beside them: a record would then be in two shards.

    Args:
        folder: A folder that the caller holds (`FolderStore.open`).

    Raises:
        StorageError: Something could not be erased.
    """
    try:
        durable.erase(folder / f".{UNFINISHED}.tmp")
        if not (folder / UNFINISHED).exists():
            return
        for name in _present(folder):
            for path in (folder / name).iterdir():
                durable.erase(path)
            durable.remove_folder(folder / name)
        durable.erase(folder / _PLAN)
        durable.erase(folder / UNFINISHED)  # last: all else is gone
    except OSError as exc:
        raise StorageError(f"{folder}: unfinished parts cannot be erased: {exc.strerror}") from exc


def _refuse_equal_origins(folder: Path) -> None:
    headers = ((name, peek_folder(folder / name)) for name in _present(folder))
    _refuse_equal(
        folder, ((name, header.origin.genesis) for name, header in headers if header is not None and header.origin)
    )


def _refuse_equal(folder: Path, keyed: Iterable[tuple[str, bytes]]) -> None:
    seen: dict[bytes, str] = {}
    for name, key in keyed:
        if key in seen:
            raise ForeignShardError(
                f"{folder}: {name} is a copy of {seen[key]}: both would draw the same noise, for different queries; "
                "put each shard's own snapshot back"
            )
        seen[key] = name


def _present(folder: Path) -> list[str]:
    """Return the names of all shard folders, sorted."""
    try:
        return sorted(path.name for path in folder.iterdir() if SHARD.fullmatch(path.name) and path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as exc:
        raise StorageError(f"state folder {folder}: {exc.strerror}") from exc
