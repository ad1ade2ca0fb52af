"""The auditor's own randomness: a function of (seed, purpose, number), so that a run can be repeated."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError

__all__ = ["SEED_BYTES", "Draws", "Randomness"]

SEED_BYTES = 16
"""Length of a seed."""


class Randomness:
    """Uniform bits by SHAKE-256: independent of every keyed function that is audited.

    Args:
        seed: 16 bytes; the same seed gives the same audit.
        purpose: What the bits are for: different purposes give independent bits.

    >>> bool((Randomness(bytes(16), "a").words(3, 7) == Randomness(bytes(16), "a").words(3, 7)).all())
    True
    """

    def __init__(self, seed: bytes, purpose: str) -> None:
        if len(seed) != SEED_BYTES:
            raise InputError("audit seed length", len(seed), f"must be {SEED_BYTES} bytes")
        self._prefix = seed + hashlib.sha256(purpose.encode()).digest()

    def _bytes(self, number: int, length: int) -> bytes:
        return hashlib.shake_256(self._prefix + number.to_bytes(8, "big")).digest(length)

    def words(self, number: int, count: int) -> NDArray[np.uint64]:
        """Return uint64[count, 2], uniform bits for draw `number` of so many games."""
        return np.frombuffer(self._bytes(number, 16 * count), dtype="<u8").reshape(count, 2)

    def secret(self, number: int) -> bytes:
        """Return 32 uniform bytes: the genesis key of game `number`."""
        return self._bytes(number, 32)


class Draws:
    """Uniform numbers, one call after the other.

    Args:
        randomness: Where they come from.
        number: Different numbers give independent ones, also of `Randomness.secret` and `words` below 2^32.
    """

    def __init__(self, randomness: Randomness, number: int) -> None:
        self._randomness = randomness
        self._next = (number + 1) << 32

    def uniform(self, count: int) -> NDArray[np.float64]:
        """Return float64[count] in [0, 1)."""
        words = self._randomness.words(self._next, count)[:, 0]
        self._next += 1
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def one(self) -> float:
        """Return one number in [0, 1)."""
        return float(self.uniform(1)[0])

    def below(self, bound: int) -> int:
        """Return a whole number from 0 to `bound` - 1, each about as likely."""
        return int(self.one() * bound)

    def some(self, count: int, of: int) -> list[int]:
        """Return so many different whole numbers from 0 to `of` - 1, in order."""
        return sorted(np.argsort(self.uniform(of))[:count].tolist())
