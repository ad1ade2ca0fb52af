"""Which shard gets which row of the training set: a keyed assignment by the row's number, never by its content."""

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.keys import PhaseKey

__all__ = ["Partition"]


class Partition:
    """Assigns each block of N consecutive rows to N shards, one row to each, in a pseudo-random order of its own.

    The rows of a block are sorted by AES under the partition's key of their numbers: for uniform words every order is
    equally likely. So each shard's part is spread over the whole set however its owner has sorted it, and all parts
    are of one size, which is public.

    Formal guarantees:
        * *Parallel composition*: who gets a row is a function of (key, number of the row), and every row goes to
          exactly one shard. Neighbours differ by one row that is there or blanked (PRIVACY.md, Definition 1), and
          a blanked row keeps its number. So one record changes the input of exactly one shard, by that row;
          all others see the same bits. The record pays that shard's epsilon and delta and nothing else.
        * This holds for every key, known or not: the key is for the spread, not for privacy.

    Args:
        key: Fresh for every partition, and good for nothing else.
        shards: N, at least 1.

    >>> Partition(PhaseKey(bytes(32)), 3).orders(0, 2).sum(axis=1)
    array([3, 3])
    """

    def __init__(self, key: PhaseKey, shards: int) -> None:
        self._addresses = Addresses(key, 0)
        self._shards = shards

    @property
    def shards(self) -> int:
        """N."""
        return self._shards

    def orders(self, first: int, blocks: int) -> NDArray[np.intp]:
        """Return which row of each block every shard gets: intp[blocks, N], each line a permutation of 0 ... N-1.

        Args:
            first: Number of the first block: rows first * N and on.
            blocks: How many.
        """
        rows = np.arange(first * self._shards, (first + blocks) * self._shards, dtype=np.uint64)
        words = self._addresses.words(Purpose.SLICE, rows, np.zeros(1, dtype=np.uint64), None)
        return words[0, :, 0].reshape(blocks, self._shards).argsort(axis=1, kind="stable")
