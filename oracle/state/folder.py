"""`FolderStore`: one shard's snapshots and plan in a private folder on disk."""

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from oracle import durable
from oracle.errors import (
    CorruptSnapshotError,
    ForeignPlanError,
    ForeignShardError,
    StateBusyError,
    StateError,
    StorageError,
    TruncatedSnapshotError,
)
from oracle.state.files import replace_durably
from oracle.state.format import PublicHeader, Snapshot, check_shard_id, decode, encode, peek
from oracle.state.header import HEADER_BYTES
from oracle.state.program import hand_over
from oracle.state.retired import refuse_retired
from oracle.state.shard_id import shard_id_of
from oracle.state.store import check_generation, check_plan

_Read = TypeVar("_Read")

__all__ = [
    "FolderStore",
    "check_lock",
    "check_mode",
    "is_held",
    "load_newest",
    "newest_bytes",
    "peek_folder",
    "read_plan",
    "written_at",
]

_SNAPSHOT = re.compile(r"snapshot-(\d{20})\.perp")
_LEFTOVER = re.compile(r"\.(snapshot-\d{20}\.perp|plan\.json)\.tmp")
_PLAN = "plan.json"
_LOCK = "lock"
_TOO_OPEN = 0o077
_ATTEMPTS = 10


class FolderStore:
    """A store in a folder of mode 0700, held by one process at a time.

    The folder holds `snapshot-<generation>.perp` (mode 0600), `plan.json` and `lock`; other files in it are let be.
    Use `FolderStore.open`.
    """

    def __init__(self, folder: Path, master_key: bytes, lock: int) -> None:
        self._folder = folder
        self._master_key = master_key
        self._lock: int | None = lock

    @classmethod
    def open(cls, folder: Path, master_key: bytes) -> Self:
        """Create the folder if it is missing, lock it, and clean up after a crash.

        Args:
            folder: The folder; only its last part is made.
            master_key: The key, 32 bytes.

        Raises:
            StateBusyError: Another store holds it.
            StateError: The folder can be read by others.
            StorageError: The folder or its lock cannot be made.
        """
        try:
            _make_folder(folder)
            lock = _hold(folder)
        except OSError as exc:
            raise StorageError(f"state folder {folder}: {exc.filename or folder}: {exc.strerror}") from exc
        store = cls(folder, master_key, lock)
        try:
            store._settle()
        except BaseException:
            store.close()
            raise
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def load_latest(self, plan_digest: bytes) -> Snapshot | None:
        """See `Store.load_latest`. Older generations left by a crash are erased once the newest has been decoded."""
        snapshot = load_newest(self._folder, self._master_key, plan_digest)
        if snapshot is not None:
            self._erase_older()
        return snapshot

    def save(self, snapshot: Snapshot) -> None:
        """See `Store.save`."""
        self._check_held()
        snapshot = self.bound(snapshot)
        check_generation(snapshot, self.peek())
        data = encode(snapshot, self._master_key)
        name = f"snapshot-{snapshot.generation:020d}.perp"
        # 1.-4. Temporary file, fsync, rename, fsync of the folder: a crash before the end leaves the older snapshot.
        replace_durably(self._folder / name, data)
        # 5. Only now, with the new one durable, the older ones, which hold keys of past rounds.
        self._erase_older()

    def bound(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot bound to the folder's shard, as `save` writes it.

        Raises:
            ForeignShardError: It is another shard's.
        """
        return snapshot.bound(shard_id_of(self._folder))

    def peek(self) -> PublicHeader | None:
        """See `Store.peek`."""
        return peek_folder(self._folder)

    def written(self) -> float | None:
        """See `Store.written`."""
        return written_at(self._folder)

    def write_plan(self, plan: bytes) -> None:
        """Keep the plan's canonical JSON, durably.

        Raises:
            ForeignPlanError: There is another plan already, or a snapshot of another plan.
            StorageError: It could not be written.
        """
        self._check_held()
        present = self.read_plan()
        if present == plan:
            return
        if present is not None:
            raise ForeignPlanError(f"state folder {self._folder}: holds another plan")
        check_plan(plan, self.peek())
        replace_durably(self._folder / _PLAN, plan)

    def read_plan(self) -> bytes | None:
        """See `read_plan`."""
        return read_plan(self._folder)

    def close(self) -> None:
        """Let another process hold the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _check_held(self) -> None:
        if self._lock is None:
            raise StateError(f"state folder {self._folder}: the store is closed")

    def _settle(self) -> None:
        """Sync names that a dead process left unsynced, then erase its temporary files."""
        try:
            durable.sync_folder(self._folder)
        except OSError as exc:
            raise StorageError(f"state folder {self._folder}: cannot be synced: {exc.strerror}") from exc
        self._erase(_matching(self._folder, _LEFTOVER))

    def _erase_older(self) -> None:
        self._erase(_matching(self._folder, _SNAPSHOT)[:-1], linked=True)  # an old key shall have no other name

    def _erase(self, paths: list[Path], *, linked: bool = False) -> None:
        if not paths:
            return
        try:
            for path in paths:
                durable.erase(path, linked=linked)
        except OSError as exc:
            raise StorageError(f"state folder {self._folder}: old files cannot be erased: {exc.strerror}") from exc


def peek_folder(folder: Path) -> PublicHeader | None:
    """Return the public header of a folder's newest snapshot, without its key or its lock; None if there is none.

    Raises:
        StateError: The header is damaged, the file is too short, a newer Perpetua wrote it, or it is another shard's.
        StorageError: The folder cannot be read.
    """
    return _read_newest(folder, _peek_file)


def written_at(folder: Path) -> float | None:
    """Return when a folder's newest snapshot was written (seconds since 1970), None if there is none.

    Raises:
        StorageError: The folder cannot be read.
    """
    return _read_newest(folder, lambda path: path.stat().st_mtime)


def newest_bytes(folder: Path) -> bytes | None:
    """Return a folder's newest snapshot as it stands, encrypted, without holding the folder; None if there is none.

    Raises:
        StateError: Its header is damaged, a newer Perpetua wrote it, or it is another shard's.
        StorageError: It cannot be read.
    """
    return _read_newest(folder, _read_file)


def load_newest(folder: Path, master_key: bytes, plan_digest: bytes) -> Snapshot | None:
    """Return a folder's newest snapshot without holding the folder, bound to its shard; None if there is none.

    Raises:
        StateError: See `decode`; or it is another shard's, or a program's that has answered without saving.
        StorageError: It cannot be read.
    """
    snapshot = _read_newest(folder, lambda path: decode(_read_file(path), master_key, plan_digest))
    if snapshot is None:
        return None
    snapshot = snapshot.bound(shard_id_of(folder))  # before its phase, and so its key, has ended
    hand_over(folder, snapshot.generation)
    return snapshot


def _read_newest(folder: Path, read: Callable[[Path], _Read]) -> _Read | None:
    refuse_retired(folder)
    for _ in range(_ATTEMPTS):
        path = _newest(folder)
        if path is None:
            return None
        try:
            return read(path)
        except (FileNotFoundError, CorruptSnapshotError) as exc:
            # The owner may have saved a newer one and erased this one while we read it; then look again.
            if _newest(folder) == path:
                if isinstance(exc, FileNotFoundError):
                    raise StorageError(f"{path}: cannot be read: {exc.strerror}") from exc
                raise
        except OSError as exc:
            raise StorageError(f"{path}: cannot be read: {exc.strerror}") from exc
    raise StorageError(f"state folder {folder}: snapshots change faster than they can be read")


def _read_file(path: Path) -> bytes:
    data = durable.read(path)
    _check_name(path, peek(data))
    return data


def read_plan(folder: Path) -> bytes | None:
    """Return the plan's canonical JSON as it was written, without holding the folder; None if there is none.

    Raises:
        ForeignPlanError: It is not the plan of the folder's newest snapshot.
        StateError: The newest snapshot's header cannot be read.
        StorageError: The folder cannot be read.
    """
    try:
        plan = durable.read(folder / _PLAN)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StorageError(f"{folder / _PLAN}: cannot be read: {exc.strerror}") from exc
    check_plan(plan, peek_folder(folder))
    return plan


def check_mode(folder: Path) -> None:
    """Refuse a path that is no folder, or a folder that others can open.

    Raises:
        StateError: It is not private, or not a folder.
        StorageError: It cannot be looked at.
    """
    try:
        mode = folder.stat().st_mode
    except FileNotFoundError as exc:
        raise StateError(f"{folder}: holds no state; make one with `perpetua init`") from exc
    except OSError as exc:
        raise StorageError(f"state folder {folder}: {exc.strerror}") from exc
    if not stat.S_ISDIR(mode):
        raise StateError(f"state folder {folder}: is not a folder")
    if mode & _TOO_OPEN:
        raise StateError(f"state folder {folder}: open to others; close it with: chmod 700 {folder}")


def check_lock(folder: Path) -> None:
    """Refuse a folder whose lock file this user cannot open, as one that another user left.

    Raises:
        StorageError: It cannot be opened.
    """
    path = folder / _LOCK
    try:
        os.close(durable.open_regular(path, os.O_RDWR))
    except FileNotFoundError:
        return
    except OSError as exc:
        hint = "; it must belong to the user that serves" if isinstance(exc, PermissionError) else ""
        raise StorageError(f"{path}: {exc.strerror}{hint}") from exc


def is_held(folder: Path) -> bool:
    """Return whether a process holds the folder now; changes nothing."""
    try:
        descriptor = durable.open_regular(folder / _LOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks: `serve` says so
        return False
    finally:
        os.close(descriptor)
    return False


def _make_folder(folder: Path) -> None:
    with contextlib.suppress(FileExistsError):
        durable.make_folder(folder)
    check_mode(folder)


def _hold(folder: Path) -> int:
    try:
        return durable.hold(folder / _LOCK)
    except BlockingIOError as exc:
        raise StateBusyError(f"state folder {folder}: another process holds it") from exc


def _matching(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise StorageError(f"state folder {folder}: {exc.strerror}") from exc


def _newest(folder: Path) -> Path | None:
    paths = _matching(folder, _SNAPSHOT)
    return paths[-1] if paths else None


def _peek_file(path: Path) -> PublicHeader:
    with os.fdopen(durable.open_regular(path), "rb") as file:
        header = peek(file.read(HEADER_BYTES))
        size = os.fstat(file.fileno()).st_size
    if size < header.total_bytes:
        raise TruncatedSnapshotError("snapshot: shorter than its header declares")
    _check_name(path, header)
    return header


def _check_name(path: Path, header: PublicHeader) -> None:
    try:
        check_shard_id(header.origin, shard_id_of(path.parent))
    except ForeignShardError as exc:
        raise ForeignShardError(f"{path}: {exc}") from exc
    if path.name != f"snapshot-{header.generation:020d}.perp":
        raise CorruptSnapshotError(f"{path}: written under another name")
