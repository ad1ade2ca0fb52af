"""One integer of discrete Laplace noise whose law is exact, for what is released once and not under a key."""

from fractions import Fraction
from functools import lru_cache
from typing import Final

from oracle.mechanisms.choice.exponential import BitSource, exp_bounds

__all__ = ["discrete_laplace"]

_DIGITS: Final = 256
"""Bits that a coin is first looked at; it is undecided after these about once in 2^250 tosses."""

_bounds = lru_cache(maxsize=8)(exp_bounds)


def discrete_laplace(scale: float | Fraction, bits: BitSource) -> int:
    """Return Z with P(Z = z) = tanh(e/2) exp(-e |z|).

    Formal guarantees:
        * The law is exactly this one if the bits are uniform: a sign and a size, which is how many coins of probability
          exp(-e) fell on heads before the first one that did not; -0 is drawn again. A coin compares a uniform real
          number with exp(-e), both known to ever more digits, until the comparison is certain.
        * Added to an integer that one record moves by at most 1, it is (e, 0)-DP for that record (Ghosh, Roughgarden
          and Sundararajan, 2012, "Universally utility-maximizing privacy mechanisms").

    Args:
        scale: e (nats), above 0; it takes about 1/e coins.
        bits: Where the digits come from.
    """
    rate = Fraction(scale)
    while True:
        negative, size = bits.take(1), 0
        while _heads(rate, bits):
            size += 1
        if size or not negative:
            return -size if negative else size


def _heads(rate: Fraction, bits: BitSource) -> bool:
    """Toss a coin of probability exp(-rate)."""
    digits, seen = _DIGITS, bits.take(_DIGITS)
    while True:
        low, high = _bounds(rate, digits)
        if seen < low:
            return True
        if seen >= high:
            return False
        seen = (seen << digits) | bits.take(digits)
        digits *= 2
