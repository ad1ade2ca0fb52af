"""`Store`: where a shard's snapshots and its plan live; and `MemoryStore`, which tests use."""

import hashlib
import time
from typing import Protocol

from oracle.errors import ForeignPlanError, ForeignShardError, InputError
from oracle.state.format import PublicHeader, Snapshot, decode, encode, peek

__all__ = ["MemoryStore", "Store", "check_generation", "check_plan"]


class Store(Protocol):
    """The newest snapshot of one shard, and the plan it is bound to.

    Formal guarantees:
        * *Whole or not at all*: after a crash anywhere, the newest snapshot is the one before the `save` that was
          under way or the one of it.
        * *No going back*: a damaged newest snapshot is an error, never silently replaced by an older one.
        * *Forgetting*: once `save` returned, older generations are erased.
    """

    def load_latest(self, plan_digest: bytes) -> Snapshot | None:
        """Return the newest snapshot, or None if there has never been one.

        Raises:
            StateError: It cannot be read under this key and plan (its subclasses say why).
            StorageError: The file could not be read.
        """
        ...

    def latest_bytes(self) -> bytes | None:
        """Return the newest snapshot as it stands, encrypted, or None if there has never been one."""
        ...

    def save(self, snapshot: Snapshot) -> None:
        """Make `snapshot` the newest one, durably, and erase the older ones.

        Raises:
            InputError: Its generation is not above the newest one's.
            StorageError: It could not be written (then the newest one stands), or an older one not erased.
        """
        ...

    def peek(self) -> PublicHeader | None:
        """Return the newest snapshot's public header, without the key."""
        ...

    def written(self) -> float | None:
        """Return when the newest snapshot was written (seconds since 1970), or None if there has never been one.

        Raises:
            StorageError: The folder cannot be read.
        """
        ...

    def write_plan(self, plan: bytes) -> None:
        """Keep the plan's canonical JSON, durably.

        Raises:
            ForeignPlanError: There is another plan already, or a snapshot of another plan.
            StorageError: It could not be written.
        """
        ...

    def read_plan(self) -> bytes | None:
        """Return the plan's JSON, or None if none was written.

        Raises:
            ForeignPlanError: It is not the plan of the newest snapshot.
        """
        ...

    def close(self) -> None:
        """Let another process have the store."""
        ...


class MemoryStore:
    """A store that keeps encoded snapshots in memory and goes through the whole format.

    Args:
        master_key: The key, 32 bytes.
    """

    def __init__(self, master_key: bytes) -> None:
        self._master_key = master_key
        self._data: bytes | None = None
        self._written: float | None = None
        self._plan: bytes | None = None

    def load_latest(self, plan_digest: bytes) -> Snapshot | None:
        """See `Store.load_latest`."""
        return None if self._data is None else decode(self._data, self._master_key, plan_digest)

    def latest_bytes(self) -> bytes | None:
        """See `Store.latest_bytes`."""
        return self._data

    def save(self, snapshot: Snapshot) -> None:
        """See `Store.save`."""
        check_generation(snapshot, self.peek())
        self._data = encode(snapshot, self._master_key)
        self._written = time.time()

    def peek(self) -> PublicHeader | None:
        """See `Store.peek`."""
        return None if self._data is None else peek(self._data)

    def written(self) -> float | None:
        """See `Store.written`."""
        return self._written

    def write_plan(self, plan: bytes) -> None:
        """See `Store.write_plan`."""
        if self._plan is not None and self._plan != plan:
            raise ForeignPlanError("plan: the store holds another plan")
        check_plan(plan, self.peek())
        self._plan = plan

    def read_plan(self) -> bytes | None:
        """See `Store.read_plan`."""
        if self._plan is not None:
            check_plan(self._plan, self.peek())
        return self._plan

    def close(self) -> None:
        """See `Store.close`."""


def check_generation(snapshot: Snapshot, newest: PublicHeader | None) -> None:
    """Refuse a snapshot that is not newer than the newest one, or of a run with other noise.

    Raises:
        InputError: It is not newer.
        ForeignShardError: It is of another run.
    """
    if newest is not None and newest.origin and snapshot.origin and newest.origin != snapshot.origin:
        raise ForeignShardError("snapshot: the one that is there is of another run, or of another shard")
    if newest is not None and snapshot.generation <= newest.generation:
        raise InputError("snapshot.generation", snapshot.generation, f"must be above {newest.generation}")


def check_plan(plan: bytes, newest: PublicHeader | None) -> None:
    """Refuse a plan that is not the newest snapshot's.

    Raises:
        ForeignPlanError: It is not.
    """
    if newest is not None and hashlib.sha256(plan).digest() != newest.plan_digest:
        raise ForeignPlanError("plan: it is not the plan of the snapshot beside it")
