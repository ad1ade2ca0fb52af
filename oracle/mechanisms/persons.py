"""At most so many rows of each person: a keyed choice that looks at the person's name and number of rows only."""

import hmac
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.keys import PhaseKey

__all__ = ["AtMost"]


class AtMost:
    """Keeps M rows of each person, or all where there are no more; every set of M is equally likely.

    A person's rows are numbered in their order. Each gets the AES word of (its number | keyed hash of the person's
    name), and the M smallest are kept.

    Formal guarantees:
        * Which rows of a person are kept is a function of (key, the person's name, how many rows are theirs). So where
          all rows of one person are blanked, every other person's kept rows stay the same, in their places; and of the
          person's own the same at most M are kept. What is trained on differs in at most M rows.
        * By group privacy (`oracle.accounting.budget.person_bound`) a guarantee for one row is one for the person.
        * This holds for every key, known or not, and if two names have equal hashes: the key is there so that the
          choice favours nobody and no moment.

    Args:
        key: Fresh, and good for nothing else.
        most: M, at least 1.
    """

    def __init__(self, key: PhaseKey, most: int) -> None:
        self._addresses = Addresses(key, 0)
        self._names = key.subkey(b"names of persons")
        self._most = most

    def kept(self, names: Iterable[bytes], persons: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which rows are kept: bool[n].

        Args:
            names: Of all persons, each once.
            persons: intp[n], whose each row is, as an index into these.
        """
        hashes = b"".join(hmac.digest(self._names, name, "sha256")[:8] for name in names)
        order = np.argsort(persons, kind="stable")
        grouped = persons[order]
        words = self._addresses.words(
            Purpose.CHOICE, _numbers(grouped), np.zeros(1, dtype=np.uint64), np.frombuffer(hashes, dtype="<u8")[grouped]
        )[0, :, 0]
        ranked = np.lexsort((words, grouped))  # still a person's rows together
        kept = np.zeros(len(persons), dtype=np.bool_)
        kept[order[ranked[_numbers(grouped) < self._most]]] = True
        return kept


def _numbers(grouped: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return the number of each row among those of its person: uint64[n]; a person's rows stand together."""
    starts = np.flatnonzero(np.diff(grouped, prepend=-1))
    counts = np.diff(starts, append=len(grouped))
    numbers: NDArray[np.uint64] = (np.arange(len(grouped)) - np.repeat(starts, counts)).astype(np.uint64)
    return numbers
