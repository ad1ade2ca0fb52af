"""`DeferredStore`: a shard's folder on a bus that itself sees to it that one process at a time answers."""

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Final

from oracle.errors import CorruptSnapshotError, StateBusyError, StorageError
from oracle.state.folder import FolderStore, check_mode, newest_bytes, peek_folder, read_plan, written_at
from oracle.state.format import PublicHeader, Snapshot, decode
from oracle.state.place import place_of
from oracle.state.program import hand_over
from oracle.state.retired import share

__all__ = ["DeferredStore"]

_ATTEMPTS: Final = 10


class DeferredStore:
    """Reads the newest snapshot without holding the folder, and holds it from the first `save` that can.

    On Kafka it is the bus that lets one process answer. The process before may still hold the folder, because it was
    stopped and does not know yet that it is fenced; then snapshots wait until it lets go, and the older one and the log
    suffice. What it may have written meanwhile is at a committed position too, so nothing is lost where ours takes its
    place.

    `save` may run in a thread while another one calls `close`: the folder is let go only when the save has ended.

    Args:
        folder: The shard's folder.
        master_key: The key, 32 bytes.

    Raises:
        StateError: The folder is missing, or open to others, or somebody is retiring it.
        StorageError: It cannot be locked.
    """

    def __init__(self, folder: Path, master_key: bytes) -> None:
        check_mode(folder)
        self._folder = folder
        self._master_key = master_key
        self._held: FolderStore | None = None
        self._closed = False
        self._saving = threading.Lock()
        try:
            self._shared: int | None = share(folder)
        except FileNotFoundError:
            self._shared = None  # it holds no plan: whoever reads it says so
        except BlockingIOError as exc:
            raise StateBusyError(f"state folder {folder}: another process is retiring it") from exc
        except OSError as exc:
            raise StorageError(f"state folder {folder}: {exc.strerror}") from exc

    def load_latest(self, plan_digest: bytes) -> Snapshot | None:
        """See `Store.load_latest`; older generations are left until the next `save`.

        Raises:
            StateError: See `decode`.
            StorageError: It cannot be read.
        """
        before = None
        for _ in range(_ATTEMPTS):
            data = newest_bytes(self._folder)
            try:
                if data is None:
                    return None
                snapshot = decode(data, self._master_key, plan_digest).bound(place_of(self._folder))
            except CorruptSnapshotError:
                # Whoever holds the folder may have saved a newer one and erased this one while we read it.
                if data == before:
                    raise
            else:
                hand_over(self._folder, snapshot.generation)
                return snapshot
            before = data
        raise StorageError(f"state folder {self._folder}: snapshots change faster than they can be read")

    def latest_bytes(self) -> bytes | None:
        """See `Store.latest_bytes`."""
        return newest_bytes(self._folder)

    def save(self, snapshot: Snapshot) -> None:
        """See `Store.save`; the generation is raised above the newest one's.

        Raises:
            StorageError: It could not be written, or another process holds the folder still, or has saved a later one
                (it has fenced us, and we do not know yet); or the store is closed.
        """
        with self._saving:
            if self._closed:
                raise StorageError(f"state folder {self._folder}: the store is closed")
            held = self._hold()
            newest = held.peek()
            if newest is not None and newest.position > snapshot.position:
                raise StorageError(f"state folder {self._folder}: another process has saved a later snapshot in it")
            generation = max(snapshot.generation, newest.generation + 1 if newest else 1)
            held.save(replace(snapshot, generation=generation))

    def _hold(self) -> FolderStore:
        if self._held is None:
            try:
                self._held = FolderStore.open(self._folder, self._master_key)
            except StateBusyError as exc:
                raise StorageError(str(exc)) from exc
        return self._held

    def peek(self) -> PublicHeader | None:
        """See `Store.peek`."""
        return peek_folder(self._folder)

    def written(self) -> float | None:
        """See `Store.written`."""
        return written_at(self._folder)

    def write_plan(self, plan: bytes) -> None:  # noqa: ARG002 -- the protocol's
        """Not for a folder that `init` has made.

        Raises:
            StorageError: Always.
        """
        raise StorageError(f"state folder {self._folder}: its plan is written by `perpetua init` only")

    def read_plan(self) -> bytes | None:
        """See `Store.read_plan`."""
        return read_plan(self._folder)

    def close(self) -> None:
        """See `Store.close`. It waits for a save that runs in another thread; one that comes later is refused."""
        with self._saving:
            self._closed = True
            held, self._held = self._held, None
            shared, self._shared = self._shared, None
            if held is not None:
                held.close()
            if shared is not None:
                os.close(shared)
