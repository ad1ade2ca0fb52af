"""Which side gets which positive record: the rules `faces`, `sequential` and `rsc`, and the windows cut from them.

Sources: PRIVACY.md, Lemma 3, for the first two; `rsc` is Algorithm 1 of Stemmer (2024).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.orders import Keys, blank_keys
from oracle.mechanisms.windows import Window

__all__ = ["Faces", "cut_window", "noisy_slices", "sequential_slices"]

_NEAR = 0.1
"""A side is near the outermost one if its score is within this part of the outermost score's size."""


@dataclass(frozen=True)
class Faces:
    """The rule that sends each positive record to one side, by the face of the scaled box it is nearest to.

    z_j = (x_j - c_j)/s_j; with probability `coin` a uniformly random side, else uniformly among the sides whose
    outwardness (-z_j for a lower side, z_j for an upper one) is within 10 % of the largest. With both sides of
    every feature in use this is the rule |z_j| >= 0.9 max |z|.

    Formal guarantees:
        * The side depends on the record and its own coin alone, so the sides compose in parallel.
        * Every side gets every record with probability at least coin / S: none starves for ever.

    Args:
        centers: float64[S], c in oriented keys.
        scales: float64[S], s > 0.
        coin: Probability of a uniformly random side.
    """

    centers: NDArray[np.float64]
    scales: NDArray[np.float64]
    coin: float

    def choose(self, keys: NDArray[np.float64], words: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the side of each record: intp[n].

        Args:
            keys: float64[S, n], oriented keys of each record on each side.
            words: uint64[n, 2], the coin of each record.
        """
        sides = len(keys)
        with np.errstate(over="ignore", invalid="ignore"):  # far out, a score may be infinite: still ordered
            scores = (self.centers[:, None] - keys) / self.scales[:, None]
            best = scores.max(axis=0)
            near = scores >= np.where(np.isinf(best), best, best - _NEAR * np.abs(best))
        pick = words[:, 1] >> np.uint64(32)
        uniform = (pick * np.uint64(sides)) >> np.uint64(32)
        counted = near.cumsum(axis=0, dtype=np.uint64)
        rank = (pick * counted[-1]) >> np.uint64(32)  # the rank-th near side
        nearest = (counted <= rank).sum(axis=0)
        random = words[:, 0] < np.uint64(int(self.coin * 2.0**64))
        return np.where(random, uniform.astype(np.intp), nearest)


def cut_window(keys: Keys, points: int, trim: int) -> Keys:
    """Return the points ranked trim + 1 ... trim + points, padded to `points` keys with the last one (+inf).

    Args:
        keys: [m] keys, sorted, outermost first.
        points: M.
        trim: h, how many outermost ones are skipped.

    >>> cut_window(np.array([1.0, 2.0, 3.0]), 3, 1)
    array([ 2.,  3., inf])
    """
    window = blank_keys(points, keys.dtype)
    kept = keys[trim : trim + points]
    window[: len(kept)] = kept
    return window


def sequential_slices(windows: Sequence[Window], points: int, trim: int) -> list[Keys]:
    """Cut all sides one after another, each from the records that no earlier side took (noise-free RSC).

    Formal guarantees:
        * Adding or removing one record changes every side by at most one swap, so every depth by at most 1.

    Args:
        windows: Side i's window; it must hold the outermost (i + 1)(points + trim) records of all positives.
        points: M of each side.
        trim: h of each side.

    Returns:
        For each side, `points` keys, sorted and padded with the last one (+inf).
    """
    taken = _take(windows, [points + trim] * len(windows))
    return [cut_window(keys, points, trim) for keys in taken]


def noisy_slices(windows: Sequence[Window], sizes: Sequence[int], capacity: int) -> list[Keys]:
    """Cut all sides one after another by Algorithm 1 of Stemmer (2024): side i takes `sizes[i]` = m + G records.

    Args:
        windows: Side i's window; it must hold the outermost (i + 1) capacity records of all positives.
        sizes: How many records each side takes, with the noise G in it; at most `capacity`.
        capacity: Length of each side's array.

    Returns:
        For each side, `capacity` keys, sorted and padded with the last one (+inf).
    """
    return [cut_window(keys, capacity, 0) for keys in _take(windows, sizes)]


def _take(windows: Sequence[Window], sizes: Sequence[int]) -> list[Keys]:
    taken = np.empty(0, dtype=np.int64)
    slices = []
    for window, size in zip(windows, sizes, strict=True):
        keys, records = window.ordered()
        free = np.flatnonzero(~np.isin(records, taken))[:size]
        taken = np.concatenate([taken, records[free]])
        slices.append(keys[free])
    return slices
