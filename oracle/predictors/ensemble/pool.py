"""Labelled rows, each in a slot that its number alone decides."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

from oracle.errors import CorruptSnapshotError
from oracle.predictors.base import StateArrays

__all__ = ["EMPTY", "Pool"]

EMPTY = -1
"""The label of a slot that has no row."""


class Pool:
    """Rows with the labels that they were given, and the teacher that each belongs to.

    A slot is taken by a number, whether there is a row for it or not; so one row more or less moves no other
    (PRIVACY.md, Theorem 29).

    Args:
        capacity: Slots; what comes when all are taken is dropped.
        width: D, numbers of a row.

    Attributes:
        slots: Slots that are taken.
    """

    def __init__(self, capacity: int, width: int) -> None:
        self._features = np.zeros((capacity, width))
        self._labels = np.full(capacity, EMPTY, dtype=np.int8)
        self._owners = np.zeros(capacity, dtype=np.int32)
        self.slots = 0

    def add(self, features: NDArray[np.float64], labels: NDArray[np.int8], owners: NDArray[np.int32]) -> None:
        """Take slots.

        Args:
            features: float64[n, D].
            labels: int8[n], `EMPTY` where a slot stays without a row.
            owners: int32[n], numbers of the teachers.
        """
        fitting = min(len(labels), len(self._labels) - self.slots)
        place = slice(self.slots, self.slots + fitting)
        there = labels[:fitting] != EMPTY
        self._labels[place] = labels[:fitting]
        for mine, given in ((self._features[place], features), (self._owners[place], owners)):
            mine[:] = given[:fitting]
            mine[~there] = 0
        self.slots += fitting

    def rows(self, stop: int) -> tuple[NDArray[np.float64], NDArray[np.int8], NDArray[np.int32]]:
        """Return copies of the rows in the slots up to `stop`: features, labels and owners, in the order of slots."""
        there = np.flatnonzero(self._labels[:stop] != EMPTY)
        return self._features[there], self._labels[there], self._owners[there]

    def late(self, start: int) -> tuple[NDArray[np.float64], NDArray[np.int8], NDArray[np.int32]]:
        """Return copies of what the slots from `start` on hold, as `add` takes it."""
        place = slice(start, self.slots)
        return self._features[place].copy(), self._labels[place].copy(), self._owners[place].copy()

    def resized(self, capacity: int) -> Self:
        """Return what the slots hold, in a pool of another capacity."""
        other = type(self)(capacity, self._features.shape[1])
        place = slice(0, self.slots)
        other.add(self._features[place], self._labels[place], self._owners[place])
        return other

    def cut(self, stop: int, capacity: int) -> Self:
        """Return what the slots up to `stop` hold, in a pool of a capacity; this one is not to be used any more."""
        self._labels[stop:], self._owners[stop:], self._features[stop:] = EMPTY, 0, 0.0
        self.slots = stop
        return self if capacity == len(self._labels) else self.resized(capacity)

    def export(self, name: str) -> dict[str, NDArray[np.generic]]:
        """Return its arrays, whose shapes depend on its capacity only."""
        return {
            f"{name}_features": self._features.copy(),
            f"{name}_labels": self._labels.copy(),
            f"{name}_owners": self._owners.copy(),
        }

    def restore(self, name: str, arrays: StateArrays, slots: int) -> None:
        """Take back what `export` returned.

        Raises:
            CorruptSnapshotError: It is not of the same capacity.
        """
        for key, mine in (("features", self._features), ("labels", self._labels), ("owners", self._owners)):
            found = arrays.get(f"{name}_{key}")
            if found is None or found.shape != mine.shape or found.dtype != mine.dtype or slots > len(self._labels):
                raise CorruptSnapshotError(f"snapshot: its {name} has other sizes than its plan says")
            mine[:] = found
        self.slots = slots
