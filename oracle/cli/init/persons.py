"""`perpetua init --person COLUMN --at-most M`: which of the labelled rows are used."""

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.errors import DataError, InputError
from oracle.mechanisms.persons import AtMost

__all__ = ["Persons", "check_persons"]

_EXACT: Final = float(2**53)
"""Up to here every whole number is a float64."""


def check_persons(person: str | None, most: int | None, others: set[str]) -> None:
    """Refuse one option without the other, no rows at all, and a person who is a feature or a label.

    Raises:
        InputError: One of them is.
    """
    if (person is None) != (most is None):
        name, other = ("--at-most", "--person") if most is None else ("--person", "--at-most")
        raise InputError(name, None, f"must go with {other}")
    if most is not None and not 1 <= most <= 2**20:
        raise InputError("--at-most", most, f"must be from 1 to {2**20} rows of a person")
    if person in others:
        raise InputError("--person", person, "must be a column of its own, neither a feature nor the label")


class Persons:
    """The rows that are kept of each person, found in one reading and looked up in others.

    Args:
        column: Name of the column that says whose a row is.
        batches: The column, in the file's order.

    Raises:
        DataError: It does not say of every row whose it is.
    """

    def __init__(self, column: str, choice: AtMost, batches: Iterable[pa.Array]) -> None:
        self.column = column
        self._codes: dict[object, int] = {}
        found = [self._coded(batch, new=True) for batch in batches]
        self._persons = np.concatenate([np.zeros(0, dtype=np.intp), *found])
        names = (f"{type(name).__name__} {name}".encode(errors="surrogatepass") for name in self._codes)
        self._kept = choice.kept(names, self._persons)
        self._read = 0

    def begin(self) -> None:
        """Say that the file is read from its beginning now."""
        self._read = 0

    def kept(self, column: pa.Array) -> NDArray[np.bool_]:
        """Return which rows of the next batch are kept: bool[n].

        Raises:
            DataError: They are not those of the first reading.
        """
        rows = slice(self._read, self._read + len(column))
        if not np.array_equal(self._coded(column, new=False), self._persons[rows]):
            raise DataError(f"data: column {self.column}: has changed while it was read; run the same command again")
        self._read = rows.stop
        return self._kept[rows]

    def _coded(self, column: pa.Array, *, new: bool) -> NDArray[np.intp]:
        """Return whose each row is: intp[n], in the order in which persons come first; -1 for somebody new."""
        encoded = column.dictionary_encode()
        if column.null_count:
            raise DataError(f"data: column {self.column}: every row must name a person")
        names = map(self._name, encoded.dictionary.to_pylist())
        known = self._codes
        codes = [known.setdefault(name, len(known)) if new else known.get(name, -1) for name in names]
        coded: NDArray[np.intp] = np.array(codes, dtype=np.intp)[encoded.indices.to_numpy()]
        return coded

    def _name(self, value: object) -> object:
        if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
            return int(value)
        if value is None or isinstance(value, bool | float | dict | list) or not str(value).strip():
            raise DataError(
                f"data: column {self.column}: must name the person of every row, as text, a whole number or a date"
            )
        return value
