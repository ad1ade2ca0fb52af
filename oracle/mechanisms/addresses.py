"""Addressed randomness: AES-256 over (purpose, side, word, round | keyed hash of the query).

Two calls with the same address give the same 128 bits; two addresses never share a block. So re-executing a round
gives its noise again, and no draw can serve two queries (ARCHITECTURE.md, "Keys and noise").
"""

from enum import IntEnum, unique
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from oracle.mechanisms.keys import PhaseKey

__all__ = ["MAX_ROUNDS", "MAX_SIDES", "Addresses", "Purpose"]

ROUND_BITS: Final = 50
SIDE_BITS: Final = 10

MAX_ROUNDS: Final = 1 << ROUND_BITS
"""Rounds a phase may have at most: the address has 50 bits for the round."""

MAX_SIDES: Final = 1 << SIDE_BITS
"""Sides a model may have at most: the address has 10 bits for the side."""

_BLOCK: Final = 16


@unique
class Purpose(IntEnum):
    """What a block of randomness is for; a part of every address (3 bits). Append-only."""

    DEPTH = 0
    STOPPER = 1
    THRESHOLD = 2
    COIN = 3
    SLICE = 4
    CHOICE = 5
    BIT = 6
    QUESTION = 7


class _Blocks:
    """AES-256 in bulk over 16-byte blocks, as a pseudo-random permutation; for one thread at a time."""

    def __init__(self, key: bytes) -> None:
        cipher = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305 -- a permutation of distinct addresses
        self._encryptor = cipher.encryptor()  # whole blocks leave nothing behind in it

    def encrypt(self, blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Encrypt uint64[..., 2] blocks (little-endian words) in one call."""
        size = blocks.nbytes
        out = np.empty(size + _BLOCK - 1, dtype=np.uint8)
        if size:
            self._encryptor.update_into(
                np.ascontiguousarray(blocks, dtype="<u8").view(np.uint8).reshape(-1).data, out.data
            )
        return out[:size].view("<u8").reshape(blocks.shape)


class Addresses:
    """All keyed functions of one phase.

    Formal guarantees:
        * `words` is a pure function of (phase key, purpose, round, side, hash): any slicing of the rounds gives
          the same numbers.
        * `hashes` and `tag` use keys of their own, derived from the same phase key.

    Args:
        key: The phase's key.
        dimension: D, how many numbers a query's features take.
    """

    def __init__(self, key: PhaseKey, dimension: int) -> None:
        self._noise = _Blocks(key.subkey(b"noise"))
        self._hash = _Blocks(key.subkey(b"query hash"))
        self._tag = _Blocks(key.subkey(b"running tag"))
        self._columns = np.arange(dimension, dtype=np.uint64)

    def hashes(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> NDArray[np.uint64]:
        """Return the keyed hash of each row: XOR over j of AES_k(j | bits of x_j), its first 64 bits.

        Args:
            features: float64[n, D], with -0.0 already replaced by 0.0.
            present: bool[n]; rows with no query hash to 0.
        """
        blocks = np.empty((features.shape[1], features.shape[0], 2), dtype=np.uint64)
        blocks[..., 0] = self._columns[:, None]
        blocks[..., 1] = np.ascontiguousarray(features).view(np.uint64).T
        mixed: NDArray[np.uint64] = np.bitwise_xor.reduce(self._hash.encrypt(blocks)[..., 0], axis=0)
        mixed[~present] = 0
        return mixed

    def words(
        self, purpose: Purpose, rounds: NDArray[np.uint64], sides: NDArray[np.uint64], hashes: NDArray[np.uint64] | None
    ) -> NDArray[np.uint64]:
        """Return 128 uniform bits for every (side, round).

        Args:
            purpose: What they are for.
            rounds: uint64[n], rounds within the phase, below `MAX_ROUNDS`.
            sides: uint64[s], below `MAX_SIDES`.
            hashes: uint64[n], or None where the draw must not depend on the query.

        Returns:
            uint64[s, n, 2]: the high and the low word.
        """
        blocks = np.empty((len(sides), len(rounds), 2), dtype=np.uint64)
        top = np.uint64(int(purpose) << (ROUND_BITS + 1 + SIDE_BITS))
        np.bitwise_or((top | (sides << np.uint64(ROUND_BITS + 1)))[:, None], rounds, out=blocks[..., 0])
        blocks[..., 1] = 0 if hashes is None else hashes
        return self._noise.encrypt(blocks)

    def tag(
        self, rounds: NDArray[np.uint64], hashes: NDArray[np.uint64], present: NDArray[np.bool_]
    ) -> NDArray[np.uint64]:
        """Return the XOR over the rows of AES_k(round, present | hash): uint64[2], the same for any batch cut."""
        blocks = np.empty((len(rounds), 2), dtype=np.uint64)
        blocks[:, 0] = rounds | (present.astype(np.uint64) << np.uint64(63))
        blocks[:, 1] = hashes
        words = self._tag.encrypt(blocks)
        return np.array([np.bitwise_xor.reduce(words[:, 0]), np.bitwise_xor.reduce(words[:, 1])], dtype=np.uint64)

    def made_tag(self, at: int, digest: bytes) -> NDArray[np.uint64]:
        """Return what goes into the tag for something that was made of the rounds before `at`: uint64[2].

        Args:
            at: Round of the phase, below `MAX_ROUNDS`.
            digest: Of what was made; its first 8 bytes count.
        """
        block = np.array([[at | 1 << 62, int.from_bytes(digest[:8], "little")]], dtype=np.uint64)
        made: NDArray[np.uint64] = self._tag.encrypt(block)[0]
        return made
