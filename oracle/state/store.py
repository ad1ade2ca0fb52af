"""`Store`: where a daemon keeps a shard's newest snapshot."""

import hashlib
from typing import Protocol

from oracle.errors import ForeignPlanError, ForeignShardError, InputError
from oracle.state.format import PublicHeader, Snapshot

__all__ = ["Store", "check_generation", "check_plan"]


class Store(Protocol):
    """The newest snapshot of one shard.

    Formal guarantees:
        * *Whole or not at all*: after a crash anywhere, the newest snapshot is the one before the interrupted `save`
          or the one of it.
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


def check_generation(snapshot: Snapshot, newest: PublicHeader | None) -> None:
    """Refuse a snapshot that is not newer than the newest one, or belongs to another run.

    Raises:
        InputError: It is not newer.
        ForeignShardError: It is of another run.
    """
    if newest is not None and newest.origin and snapshot.origin and newest.origin != snapshot.origin:
        raise ForeignShardError("snapshot: the present one belongs to another run or shard")
    if newest is not None and snapshot.generation <= newest.generation:
        raise InputError("snapshot.generation", snapshot.generation, f"must be above {newest.generation}")


def check_plan(plan: bytes, newest: PublicHeader | None) -> None:
    """Refuse a plan that is not the newest snapshot's.

    Raises:
        ForeignPlanError: It is not.
    """
    if newest is not None and hashlib.sha256(plan).digest() != newest.plan_digest:
        raise ForeignPlanError("plan: not the plan of the snapshot beside it")
