"""The phase key: derived subkeys, the ratchet that forgets, and the fork for a run of its own.

Noise is a function of the phase key, so whoever holds it can undo the noise of the phase. At a phase's end the key is
replaced by a one-way function of itself (`ratchet`); once the old key is erased, the noise of past phases is as good
as fresh randomness (computationally; PRIVACY.md, Lemma 2). No entropy comes in: all later keys follow from one.
"""

from dataclasses import dataclass, field

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from oracle.errors import InputError

__all__ = ["FORK_BYTES", "KEY_BYTES", "PhaseKey"]

KEY_BYTES = 32
"""Length of every key, in bytes (AES-256)."""

FORK_BYTES = 32
"""Length of a fork's salt, in bytes."""


def _derive(key: bytes, purpose: bytes) -> bytes:
    return HKDFExpand(algorithm=hashes.SHA256(), length=KEY_BYTES, info=b"perpetua/1/" + purpose).derive(key)


@dataclass(frozen=True, slots=True)
class PhaseKey:
    """One phase's secret.

    Args:
        secret: 32 uniformly random or ratcheted bytes; never shown by `repr`.

    >>> key = PhaseKey(bytes(32))
    >>> key.ratchet() == PhaseKey(bytes(32)).ratchet(), key.ratchet() == key
    (True, False)
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Check the length."""
        if len(self.secret) != KEY_BYTES:
            raise InputError("phase key length", len(self.secret), f"must be {KEY_BYTES} bytes")

    def subkey(self, purpose: bytes) -> bytes:
        """Return the 32-byte key for one purpose."""
        return _derive(self.secret, b"use/" + purpose)

    def ratchet(self) -> "PhaseKey":
        """Return the next phase's key, from which this one cannot be computed."""
        return PhaseKey(_derive(self.secret, b"ratchet"))

    def fork(self, salt: bytes) -> "PhaseKey":
        """Return the key of another run from the same state: its noise, hashes and tags are independent of this one's.

        Args:
            salt: 32 bytes, fresh for every fork. It may be public: the secret is what the forked key is drawn from.
        """
        if len(salt) != FORK_BYTES:
            raise InputError("fork salt length", len(salt), f"must be {FORK_BYTES} bytes")
        return PhaseKey(_derive(self.secret, b"fork/" + salt))
