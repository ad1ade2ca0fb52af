"""`DeferredStore`: a shard's folder on a bus that itself sees to it that one process at a time answers."""

import os
import threading
from dataclasses import replace
from pathlib import Path

from oracle.errors import StateBusyError, StorageError
from oracle.state.folder import FolderStore, check_mode, load_newest, peek_folder, written_at
from oracle.state.format import PublicHeader, Snapshot
from oracle.state.retired import lock_shared

__all__ = ["DeferredStore"]


class DeferredStore:
    """Reads the newest snapshot without locking the folder, and locks it at the first `save` that can.

    On Kafka it is the bus that lets one process answer. The process before may still hold the folder, because it was
    stopped and does not know yet that it is fenced; then snapshots wait until it lets go, and the older one and the log
    suffice. What it may have written meanwhile is at a committed position too, so nothing is lost where ours takes its
    place.

    `save` may run in a thread while another one calls `close`: the folder is let go only when the save has ended.

    Args:
        folder: The shard's folder.
        master_key: The key, 32 bytes.

    Raises:
        StateError: The folder is missing, or open to others, or somebody is retiring or moving it.
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
            self._shared: int | None = lock_shared(folder)
        except FileNotFoundError:
            self._shared = None  # it holds no plan: whoever reads it says so
        except BlockingIOError as exc:
            raise StateBusyError(f"state folder {folder}: another process is retiring or moving it") from exc
        except OSError as exc:
            raise StorageError(f"state folder {folder}: {exc.strerror}") from exc

    def load_latest(self, plan_digest: bytes) -> Snapshot | None:
        """See `Store.load_latest`; older generations are left until the next `save`."""
        return load_newest(self._folder, self._master_key, plan_digest)

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

    def close(self) -> None:
        """Let the folder go, once a save that runs in another thread has ended; a later one is refused."""
        with self._saving:
            self._closed = True
            held, self._held = self._held, None
            shared, self._shared = self._shared, None
            if held is not None:
                held.close()
            if shared is not None:
                os.close(shared)
