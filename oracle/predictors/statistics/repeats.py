"""The answers of the last questions, so that a repeated one gets the same answer again and costs nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["CAPACITY", "Kept", "Repeats"]

CAPACITY: Final = 1 << 14
"""Questions whose answers are kept; the oldest goes when another comes."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that was given before.

    Attributes:
        value: The share; of a sparse vector, the least threshold that a share is below.
        verified: Whether it keeps the plan's promise.
    """

    value: float
    verified: bool


class Repeats:
    """Answers by the questions' hashes: first in, first out.

    Of 2^42 questions one gets another one's answer with a chance of 2^-8: the hashes have 64 bits. Utility only.
    """

    def __init__(self) -> None:
        self._hashes = np.zeros(CAPACITY, dtype=np.uint64)
        self._values = np.zeros(CAPACITY)
        self._verified = np.zeros(CAPACITY, dtype=np.bool_)
        self._added = 0
        self._numbers: dict[int, int] = {}

    def find(self, question: int, ahead: int) -> Kept | None:
        """Return the answer to a question, by its hash; None where there is none.

        Args:
            question: Its hash.
            ahead: How many answers will be added before it is asked.
        """
        number = self._numbers.get(question)
        if number is None or number < self._added + ahead - CAPACITY:
            return None
        place = number % CAPACITY
        return Kept(float(self._values[place]), bool(self._verified[place]))

    def add(self, question: int, value: float, *, verified: bool) -> None:
        """Keep the answer to a question, instead of the oldest; it is found from now on, whatever was before."""
        place = self._added % CAPACITY
        oldest = int(self._hashes[place])
        if self._numbers.get(oldest) == self._added - CAPACITY:
            del self._numbers[oldest]
        self._hashes[place], self._values[place], self._verified[place] = question, value, verified
        self._numbers[question] = self._added
        self._added += 1

    def export(self) -> dict[str, NDArray[np.generic]]:
        """Return all as arrays of `CAPACITY`, and how many were ever added."""
        return {
            "repeated": self._hashes.copy(),
            "repeated_values": self._values.copy(),
            "repeated_verified": self._verified.copy(),
            "repeated_added": np.array([self._added], dtype=np.int64),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[np.generic]]) -> "Repeats":
        """Take back what `export` returned."""
        repeats = cls()
        repeats._hashes = np.array(arrays["repeated"], dtype=np.uint64)
        repeats._values = np.array(arrays["repeated_values"], dtype=np.float64)
        repeats._verified = np.array(arrays["repeated_verified"], dtype=np.bool_)
        added = repeats._added = int(arrays["repeated_added"][0])
        hashes = repeats._hashes.tolist()
        repeats._numbers = {hashes[number % CAPACITY]: number for number in range(max(added - CAPACITY, 0), added)}
        return repeats
