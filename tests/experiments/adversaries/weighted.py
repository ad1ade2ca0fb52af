"""Weighted keys: an adversary asks one query a million times, and it is one key with a multiplicity."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.between_thresholds import log_answer_law
from oracle.planning.plan import InstancePlan

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_COMPACT = 400_000
"""Pairs a pile holds before it is cut."""


def outermost(keys: Floats, counts: Counts, points: int, skip: int = 0) -> tuple[Floats, Counts]:
    """Return the points ranked skip + 1 ... skip + points as sorted keys with multiplicities (at least 1)."""
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    upto = np.clip(np.cumsum(counts) - skip, 0, points)
    kept = np.diff(upto, prepend=0)
    return keys[kept > 0], kept[kept > 0]


@dataclass(frozen=True)
class Laws:
    """P(low), P(medium) and P(high) at every depth of one kind of instance."""

    low: Floats
    medium: Floats
    high: Floats

    @classmethod
    def of(cls, instance: InstancePlan) -> "Laws":
        """Tabulate an instance's laws at depths 0 ... M."""
        depths = np.arange(instance.points + 1, dtype=np.int64)
        logs = log_answer_law(instance.law, instance.scale, instance.low, instance.high, depths)
        return cls(*(np.exp(log) for log in logs))


class Armed:
    """One armed side: sorted keys with multiplicities, as an adversary may see it.

    Args:
        instance: Its public parameters.
        laws: The same, tabulated.
        keys: Sorted keys, outermost first.
        counts: Their multiplicities, M in all (less if the side is starved).
    """

    def __init__(self, instance: InstancePlan, laws: Laws, keys: Floats, counts: Counts) -> None:
        self.instance = instance
        self.laws = laws
        self.keys = keys
        self._depths = np.concatenate([[0], np.cumsum(counts)])

    @property
    def fill(self) -> int:
        """How many points it holds."""
        return int(self._depths[-1])

    @property
    def last(self) -> float:
        """Its innermost key."""
        return float(self.keys[-1]) if len(self.keys) else np.inf

    def depth(self, keys: Floats) -> Counts:
        """Return the depth of each key; ties count."""
        depths: Counts = self._depths[self.keys.searchsorted(keys, side="right")]
        return depths

    def key_at(self, depth: float) -> float:
        """Return the outermost key whose depth is at least `depth` (the innermost key if there is none)."""
        if not len(self.keys):
            return 0.0
        position = int(self._depths[1:].searchsorted(depth))
        return float(self.keys[min(position, len(self.keys) - 1)])


@dataclass
class Pile:
    """Collects weighted keys and keeps the outermost ones.

    Attributes:
        room: How many points can be needed of it.
        bound: Keys beyond it are not needed.
    """

    room: int
    bound: float = np.inf
    _keys: list[Floats] = field(default_factory=list)
    _counts: list[Counts] = field(default_factory=list)
    _size: int = 0

    def add(self, keys: Floats, counts: Counts) -> None:
        """Add keys with their multiplicities; those of multiplicity 0 do not count."""
        wanted = (counts > 0) & (keys <= self.bound)
        if wanted.any():
            self._keys.append(keys[wanted])
            self._counts.append(counts[wanted])
            self._size += len(self._keys[-1])
            if self._size > max(_COMPACT, 4 * self.room):
                self._compact()

    def _compact(self) -> None:
        keys, counts = self.ordered()
        self._keys, self._counts, self._size = [keys], [counts], len(keys)
        if counts.sum() >= self.room:
            self.bound = min(self.bound, float(keys[-1]))

    def ordered(self) -> tuple[Floats, Counts]:
        """Return what is kept, outermost first."""
        if not self._keys:
            return np.empty(0), np.empty(0, dtype=np.int64)
        return outermost(np.concatenate(self._keys), np.concatenate(self._counts), self.room)

    def clear(self) -> None:
        """Forget everything."""
        self._keys, self._counts, self._size = [], [], 0
