"""A store in memory."""

import time

from oracle.state.format import PublicHeader, Snapshot, decode, encode, peek
from oracle.state.shard_id import ShardId
from oracle.state.store import check_generation

_ONLY = ShardId(0, 1)


class MemoryStore:
    """Keeps the newest snapshot encoded, and goes through the whole format.

    Args:
        master_key: The key, 32 bytes.
    """

    def __init__(self, master_key: bytes) -> None:
        self._master_key = master_key
        self._data: bytes | None = None
        self._written: float | None = None

    def load_latest(self, plan_digest: bytes) -> Snapshot | None:
        """See `Store.load_latest`."""
        return None if self._data is None else decode(self._data, self._master_key, plan_digest)

    def latest_bytes(self) -> bytes | None:
        """Return the newest snapshot, encrypted."""
        return self._data

    def save(self, snapshot: Snapshot) -> None:
        """See `Store.save`."""
        check_generation(snapshot, self.peek())
        self._data = encode(snapshot.bound(_ONLY), self._master_key)
        self._written = time.time()

    def peek(self) -> PublicHeader | None:
        """See `Store.peek`."""
        return None if self._data is None else peek(self._data)

    def written(self) -> float | None:
        """See `Store.written`."""
        return self._written
