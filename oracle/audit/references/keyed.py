"""Keyed words and noise for the plain re-implementations, from ARCHITECTURE.md, "Keys and noise", and PRIVACY.md.

Nothing here is shared with what is audited but the numbers of purposes, AES and SHA-256: keys, addresses, hashes and
tags are made one at a time, and noise comes from the laws themselves.
"""

import hmac
import math
import struct
from collections.abc import Sequence
from typing import Final

import mpmath
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from oracle.mechanisms.addresses import Purpose

__all__ = [
    "Bits",
    "Keyed",
    "choose_level",
    "discrete_laplace",
    "geometric",
    "gumbel",
    "laplace",
    "logistic",
]

_BITS: Final = 128
_PRECISION: Final = 1_500
"""Bits that weights are worked out to: far more than the 512 that a choice is made of."""


class Keyed:
    """All keyed functions of a phase.

    Args:
        secret: The phase's key, 32 bytes.

        drawn: Words that were drawn before.

    Attributes:
        drawn: All words so far, those of earlier phases too, but coins, which are looked at again and again.
    """

    def __init__(self, secret: bytes, drawn: list[tuple[int, int]] | None = None) -> None:
        self.secret = secret
        self.drawn = [] if drawn is None else drawn
        self._noise, self._hash, self._tag = (
            Cipher(algorithms.AES(_derived(secret, b"use/" + name)), modes.ECB()).encryptor()  # noqa: S305 -- one block
            for name in (b"noise", b"query hash", b"running tag")
        )

    def ratchet(self) -> "Keyed":
        """Return the next phase's."""
        return Keyed(_derived(self.secret, b"ratchet"), self.drawn)

    def halves(self, purpose: Purpose, number: int, side: int = 0, query: int = 0) -> tuple[int, int]:
        """Return the two words of 64 uniform bits at an address."""
        block = struct.pack("<QQ", (purpose << 61) | (side << 51) | number, query)
        first, second = struct.unpack("<QQ", self._noise.update(block))
        if purpose is not Purpose.COIN:
            self.drawn.append((first, second))
        return first, second

    def word(self, purpose: Purpose, number: int, side: int = 0, query: int = 0) -> int:
        """Return them as one number."""
        first, second = self.halves(purpose, number, side, query)
        return (first << 64) | second

    def hash(self, numbers: Sequence[float]) -> int:
        """Return the keyed hash of a query: 64 bits."""
        mixed = 0
        for column, value in enumerate(numbers):
            (one,) = struct.unpack("<Q", self._hash.update(struct.pack("<Qd", column, value))[:8])
            mixed ^= one
        return mixed

    def tag(self, number: int, query: int | None) -> int:
        """Return what a round adds to the running tag: 128 bits."""
        block = struct.pack("<QQ", number | ((query is not None) << 63), query or 0)
        return int.from_bytes(self._tag.update(block), "little")


def _derived(secret: bytes, purpose: bytes) -> bytes:
    """Return the one block of HKDF's expansion with SHA-256 (RFC 5869)."""
    return hmac.digest(secret, b"perpetua/1/" + purpose + b"\x01", "sha256")


class Bits:
    """The bits that one choice is made of, from its first block of words on."""

    def __init__(self, keyed: Keyed, side: int) -> None:
        self._keyed = keyed
        self._side = side
        self._blocks = 0
        self._waiting = ""

    def take(self, count: int) -> int:
        """Return the next bits, the first one on top; 0 of none."""
        while len(self._waiting) < count:
            for half in self._keyed.halves(Purpose.CHOICE, self._blocks, self._side):
                self._waiting += "".join(f"{byte:08b}" for byte in half.to_bytes(8, "little"))
            self._blocks += 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return int(taken or "0", 2)


def choose_level(rate: float, counts: dict[int, int], uniform: int, digits: int) -> tuple[int, int]:
    """Return a loss by the exponential mechanism, and which candidate of this loss the same bits stand for.

    Candidates stand in the order of their losses, each as wide as its weight exp(-rate loss).

    Args:
        rate: e.
        counts: How many candidates have a loss.
        uniform: Bits.
        digits: How many.
    """
    with mpmath.workprec(_PRECISION):
        least = min(counts)
        weights = {loss: mpmath.exp(-mpmath.mpf(rate) * (loss - least)) for loss in sorted(counts)}
        left = mpmath.ldexp(uniform, -digits) * mpmath.fsum(weights[loss] * counts[loss] for loss in weights)
        for loss, weight in weights.items():
            if left < weight * counts[loss]:
                break
            left -= weight * counts[loss]
        return loss, int(left / weight)


def logistic(slope: float, word: int) -> int:
    """Return Z of the law P(Z < z) = 1/(1 + exp(-e (z - 1/2))), by 128 uniform bits."""
    if word == 0:
        return -(1 << 40)
    return math.floor((math.log(word) - math.log((1 << _BITS) - word)) / slope + 0.5)


def discrete_laplace(slope: float, word: int) -> int:
    """Return Z of the law P(Z = z) ~ exp(-e |z|): the least z of which P(Z <= z) is above the share of the word."""
    half = 1 << (_BITS - 1)
    if word < half:
        return -_beyond(slope, word + 1)
    return _beyond(slope, (1 << _BITS) - word)


def laplace(slope: float, word: int) -> int:
    """Return the floor of noise by Laplace's law: P(Z >= z) = exp(-e z)/2 from 0 on, and it mirrors itself."""
    half = 1 << (_BITS - 1)
    if word < half:
        return math.floor((math.log(word) - math.log(half)) / slope) if word else -(1 << 40)
    return math.floor((math.log(half) - math.log((1 << _BITS) - word)) / slope)


def geometric(slope: float, word: int) -> int:
    """Return its size, rounded down: P(G >= g) = exp(-e g)."""
    floor = laplace(slope, word)
    return max(floor, -1 - floor)


def gumbel(slope: float, word: int) -> int:
    """Return Z of the law P(Z < z) = exp(-exp(-e z))."""
    above = (1 << _BITS) - word
    share = math.ldexp(above, -_BITS)
    minus_log = -math.log1p(-share) if share < 0.5 else _BITS * math.log(2.0) - math.log(word or 1)  # noqa: PLR2004 -- digits
    return math.floor(-math.log(minus_log) / slope)


def _beyond(slope: float, part: int) -> int:
    """Return the most z with P(Z >= z) = exp(-e z)/(1 + exp(-e)) at least a part of 2^128; 0 if it is below 1."""
    tail = math.log(part) - _BITS * math.log(2.0)
    return max(math.floor((-tail - math.log1p(math.exp(-slope))) / slope), 0)
