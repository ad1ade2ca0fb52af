"""Fixed-capacity sets of the outermost points: all that a side ever needs to keep of the records it is given.

Adding or removing one record changes what is kept by that record and at most one it pushes out, which is the
innermost; so the number of kept points at or before any key changes by at most 1 (PRIVACY.md, Lemma 3).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.mechanisms.orders import NUMBERS, Keys, last_key

__all__ = ["Window"]


class Window:
    """The `capacity` outermost (key, record) pairs of all that were added; smaller keys are further out.

    What is kept is a function of the set that was added, not of the order or the batches: ties in the key go by
    the record's number.

    Args:
        capacity: How many pairs are kept, at least 1.
        kind: Type of the keys.
    """

    def __init__(self, capacity: int, kind: "np.dtype[Any]" = NUMBERS) -> None:
        if capacity < 1:
            raise InputError("window capacity", capacity, "must be at least 1")
        self._capacity = capacity
        self._slots = 2 * capacity + 1024
        self._keys: Keys = np.empty(self._slots, dtype=kind)
        self._records = np.empty(self._slots, dtype=np.int64)
        self._count = 0
        self._none = last_key(kind)
        self._cutoff = self._none

    @property
    def capacity(self) -> int:
        """How many pairs are kept."""
        return self._capacity

    def near(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which of [n] keys could still be kept: before each of the others, enough were added already."""
        near: NDArray[np.bool_] = keys <= self._cutoff
        return near

    def add(self, keys: Keys, records: NDArray[np.int64]) -> None:
        """Add pairs: [n] oriented keys, none the last one, and int64[n] records' numbers, unique for its whole life."""
        near = self.near(keys)
        keys, records = keys[near], records[near]
        start = 0
        while start < len(keys):
            take = min(len(keys) - start, self._slots - self._count)
            stop = self._count + take
            self._keys[self._count : stop] = keys[start : start + take]
            self._records[self._count : stop] = records[start : start + take]
            self._count = stop
            start += take
            if self._count == self._slots:
                self._shrink()

    def _shrink(self) -> None:
        """Drop all pairs but the outermost `capacity`, which are left in any order."""
        if self._count < self._capacity:
            return
        keys, records = self._keys[: self._count], self._records[: self._count]
        edge = np.partition(keys, self._capacity - 1)[self._capacity - 1]
        inside = np.flatnonzero(keys < edge)
        ties = np.flatnonzero(keys == edge)
        ties = ties[records[ties].argsort()[: self._capacity - len(inside)]]
        self._keep(np.concatenate([inside, ties]))
        self._cutoff = edge.item()

    def _compact(self) -> None:
        """Drop all pairs but the outermost `capacity`, outermost first."""
        self._shrink()
        self._keep(np.lexsort((self._records[: self._count], self._keys[: self._count])))

    def _keep(self, rows: NDArray[np.intp]) -> None:
        self._count = len(rows)
        self._keys[: self._count] = self._keys[rows]
        self._records[: self._count] = self._records[rows]

    def ordered(self) -> tuple[Keys, NDArray[np.int64]]:
        """Return the kept pairs, outermost first: at most `capacity` keys and records."""
        self._compact()
        return self._keys[: self._count].copy(), self._records[: self._count].copy()

    def clear(self) -> None:
        """Forget everything, and overwrite what was held."""
        self._keys.view(np.uint8).fill(0)
        self._records.fill(0)
        self._count = 0
        self._cutoff = self._none

    def export(self) -> tuple[Keys, NDArray[np.int64], int]:
        """Return the kept pairs padded to the capacity with zeros, and how many there are."""
        self._compact()
        keys = np.zeros(self._capacity, dtype=self._keys.dtype)
        records = np.zeros(self._capacity, dtype=np.int64)
        keys[: self._count] = self._keys[: self._count]
        records[: self._count] = self._records[: self._count]
        return keys, records, self._count

    def restore(self, keys: Keys, records: NDArray[np.int64], count: int) -> None:
        """Take back what `export` returned."""
        self._count = count
        self._cutoff = self._none  # found again by the next compaction; it changes nothing that is kept
        self._keys[:count] = keys[:count]
        self._records[:count] = records[:count]
