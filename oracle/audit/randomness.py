"""The auditor's own randomness: a function of (seed, purpose, number), so that a run can be repeated."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError

__all__ = ["SEED_BYTES", "Randomness"]

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
