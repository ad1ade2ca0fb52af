"""All values that a type has, in their order, numbered from 0: what a binary search for a value needs.

Numbers are the finite float64 without -0.0; a string is any UTF-8 of so many bytes at most, in the order of its code
points, which is that of its bytes.
"""

import struct
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Final, Generic, TypeVar

from oracle.mechanisms.orders import digit_count, text_digits, text_of
from oracle.mechanisms.scalars import FIRST_DAY, LAST_DAY, largest_decimal

__all__ = ["Dates", "Decimals", "Domain", "Numbers", "Texts"]

KeyT = TypeVar("KeyT", float, bytes)

_LARGEST: Final = 0x7FEF_FFFF_FFFF_FFFF
"""Bits of the largest finite float64."""

_FIRSTS: Final = (0, 0x80, 0x800, 0xFFFF + 1)
"""The first character of 1, 2, 3 and 4 bytes of UTF-8."""

_SURROGATES: Final = (0xD800, 0xE000)
"""From the first that is no character to the next that is one."""

_CHARACTERS: Final = (0x80, 0x800 - 0x80, 0x10000 - 0x800 - 0x800, 0x110000 - 0x10000)
"""How many characters take 1, 2, 3 and 4 bytes."""


class Domain(ABC, Generic[KeyT]):
    """The values of a type, in order.

    Attributes:
        size: How many there are.
    """

    size: int

    @abstractmethod
    def rank(self, key: KeyT) -> int:
        """Return how many values are smaller than that of a key (`oracle.mechanisms.orders`), which is of the type."""

    @abstractmethod
    def row(self, rank: int) -> Sequence[float]:
        """Return the numbers that a value takes in a row, by its rank from 0 to `size` - 1."""


class Numbers(Domain[float]):
    """Finite float64 numbers, without -0.0."""

    size = 2 * _LARGEST + 1

    def rank(self, key: float) -> int:
        """See `Domain.rank`."""
        bits = int.from_bytes(struct.pack("<d", abs(key)), "little")
        return _LARGEST + (-bits if key < 0.0 else bits)

    def row(self, rank: int) -> Sequence[float]:
        """See `Domain.row`.

        >>> Numbers().row(Numbers().rank(-2.5)), Numbers().row(Numbers().size - 1)
        ((-2.5,), (1.7976931348623157e+308,))
        """
        place = rank - _LARGEST
        size: float = struct.unpack("<d", abs(place).to_bytes(8, "little"))[0]
        return (-size if place < 0 else size,)


class Dates(Domain[float]):
    """Days from 0001-01-01 to 9999-12-31."""

    size = LAST_DAY - FIRST_DAY + 1

    def rank(self, key: float) -> int:
        """See `Domain.rank`."""
        return int(key) - FIRST_DAY

    def row(self, rank: int) -> Sequence[float]:
        """See `Domain.row`."""
        return (float(rank + FIRST_DAY),)


class Decimals(Domain[float]):
    """Decimals with so many digits after the point.

    Args:
        places: How many.
    """

    def __init__(self, places: int) -> None:
        self._unit: int = 10**places
        self._most: int = largest_decimal(places) * self._unit - 1
        self.size = 2 * self._most + 1

    def rank(self, key: float) -> int:
        """See `Domain.rank`."""
        place: int = round(Fraction(key) * self._unit)
        return place + self._most

    def row(self, rank: int) -> Sequence[float]:
        """See `Domain.row`."""
        return ((rank - self._most) / self._unit,)


class Texts(Domain[bytes]):
    r"""Texts of at most so many bytes of UTF-8.

    Args:
        longest: How many bytes.

    >>> Texts(1).size, Texts(2).size, Texts(1).rank(b"\1b")
    (129, 18433, 98)
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._digits = digit_count(longest)
        within = [1]  # texts of at most 0, 1, ... bytes
        self._before = [[0]]  # how many of these come before the first that begins with 1, 2, ... bytes of a character
        for size in range(1, longest + 1):
            sizes = (many * within[size - 1 - k] for k, many in enumerate(_CHARACTERS) if k < size)
            *before, end = accumulate(sizes, initial=1)
            self._before.append(before)
            within.append(end)
        self._within = within
        self.size = within[longest]

    def rank(self, key: bytes) -> int:
        """See `Domain.rank`."""
        text = text_of(key[1:]).decode()
        rank, left = 0, self._longest
        for character in text:
            code, length = ord(character), len(character.encode())
            rank += self._before[left][length - 1]
            rank += (code - _FIRSTS[length - 1] - _skipped(code)) * self._within[left - length]
            left -= length
        return rank

    def row(self, rank: int) -> Sequence[float]:
        """See `Domain.row`."""
        characters: list[str] = []
        left = self._longest
        while rank > 0:  # 0 is the text that ends here
            before = self._before[left]
            length = bisect_right(before, rank)
            place, rank = divmod(rank - before[length - 1], self._within[left - length])
            code = _FIRSTS[length - 1] + place
            characters.append(chr(code + _skipped(code + _SURROGATES[1] - _SURROGATES[0])))
            left -= length
        return text_digits("".join(characters).encode(), self._digits)


def _skipped(code: int) -> int:
    """Return how many codes below that of a character are none, among those of 3 bytes."""
    low, high = _SURROGATES
    return high - low if high <= code < _FIRSTS[3] else 0
