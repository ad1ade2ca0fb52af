"""One column of an Arrow table as cells of an attribute, or as places of categories: exactly, and vectorised.

Categories are compared as texts. Texts are taken as they are, booleans are "true" and "false", dates YYYY-MM-DD, and
numbers what `number_text` says, whatever a file calls their type. A text of no characters is missing where it is no
category, and so is NaN.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.codec.arrow.columns import COLUMNS, read_column, takes, type_name
from oracle.errors import DataError
from oracle.planning.attributes import OTHER, Attribute
from oracle.planning.features import Feature

__all__ = [
    "CATEGORIES",
    "RowNumbers",
    "first_invalid",
    "is_text",
    "look_up",
    "number_text",
    "read_cells",
    "row_of",
    "takes_texts",
]

RowNumbers = NDArray[np.int64] | None
"""int64[n], by which number an error names each row of a column; from 1 where there is None."""

CATEGORIES: Final = "texts, numbers, booleans or dates"
"""What a column of categories must hold, in words."""

_EXACT: Final = 2.0**53
"""Up to here every whole number is a float64."""


def read_cells(attribute: Attribute, column: pa.Array, numbers: RowNumbers = None) -> NDArray[np.float64]:
    """Return the cell of each value, null too: float64[n], whole numbers below `attribute.cells`.

    Raises:
        DataError: The column is of another type, or a value is none of it. No value is ever quoted.
    """
    where = f"data: column {attribute.source}"
    encoded = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if encoded else column.type
    if pa.types.is_null(kind):
        return np.full(len(column), float(attribute.missing))
    if not _takes(attribute, kind):
        known = {**COLUMNS, "category": CATEGORIES}
        wanted = known[attribute.kind].removeprefix("one column of ")
        raise DataError(f"{where}: must hold {wanted}, not {type_name(column.type)}")

    def read(part: pa.Array) -> NDArray[np.float64]:
        part.validate(full=True)
        return _categories(attribute, part) if attribute.kind == "category" else _bins(attribute, part)

    try:
        return read(column)
    except pa.ArrowInvalid as exc:
        wanted = "text of UTF-8" if attribute.kind == "category" else attribute.accepts
        row = row_of(numbers, first_invalid(column, read))
        raise DataError(f"{where}: every value must be {wanted}; the first that is not is in row {row}") from exc


def row_of(numbers: RowNumbers, index: int) -> int:
    """Return the number of a row."""
    return index + 1 if numbers is None else int(numbers[index])


def first_invalid(column: pa.Array, read: Callable[[pa.Array], object]) -> int:
    """Return the index of the first value that `read` fails on with ArrowInvalid, by halving a column that has one."""
    column = column.cast(column.type.value_type) if isinstance(column, pa.DictionaryArray) else column
    start, size = 0, len(column)
    while size > 1:
        half = size // 2
        try:
            read(column.slice(start, half))
        except pa.ArrowInvalid:
            size = half
        else:
            start, size = start + half, size - half
    return start


def number_text(number: "np.floating[Any]") -> str:
    """Return the text by which a number of a column of floats is compared with categories.

    Whole numbers below 2^53 have no point and no exponent; others the fewest digits that lead back to the number, in
    the precision of the column.

    >>> [number_text(number) for number in (np.float64(-0.0), np.float32(0.1), np.float64(1e22))]
    ['0', '0.1', '1e+22']
    """
    whole = bool(np.isfinite(number)) and float(number).is_integer() and abs(float(number)) < _EXACT
    return str(int(number)) if whole else str(number)


def _takes(attribute: Attribute, kind: pa.DataType) -> bool:
    if attribute.kind == "category":
        return takes_texts(kind)
    return takes(_stand_in(attribute), kind) or (attribute.kind == "date" and is_text(kind))


def takes_texts(kind: pa.DataType) -> bool:
    """Return whether values of a type are compared as texts: what `CATEGORIES` says."""
    plain = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return plain or pa.types.is_date(kind) or is_text(kind)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column of a type holds texts."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _stand_in(attribute: Attribute) -> Feature:
    """Return a feature whose values are those of an attribute's bins."""
    return Feature(name=attribute.name, type="date" if attribute.kind == "date" else "number")


def _categories(attribute: Attribute, column: pa.Array) -> NDArray[np.float64]:
    known = dict(zip(attribute.labels, map(float, range(attribute.cells)), strict=True))  # None is "missing"
    known.setdefault("", known[None])
    return look_up(column, known, known[OTHER])


def look_up(column: pa.Array, known: Mapping[str | None, float], other: float) -> NDArray[np.float64]:
    """Return the number of each value's text, looked up once for each that there is: float64[n].

    Args:
        column: Of a type that `takes_texts` names, or of a dictionary of these; fully validated.
        known: Numbers of texts; None is that of a null.
        other: The number of any other text.
    """
    encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    numbers = np.array([*(known.get(text, other) for text in _texts(encoded.dictionary)), known[None]])
    found: NDArray[np.float64] = numbers[encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy()]
    return found


def _texts(values: pa.Array) -> list[str | None]:
    """Return the text of each value; None where there is none, or no number."""
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        return [None if np.isnan(number) else number_text(number) for number in numbers]
    if pa.types.is_boolean(values.type):
        return [None if value is None else str(value).lower() for value in values.to_pylist()]
    return [None if value is None else str(value) for value in values.to_pylist()]


def _bins(attribute: Attribute, column: pa.Array) -> NDArray[np.float64]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if is_text(column.type):  # dates of a format that has none
        column = pa.array([text or None for text in column.to_pylist()], type=pa.string()).cast(pa.date32())
    read = read_column(_stand_in(attribute), column)
    if read.fit is not None and not read.fit.all():
        raise pa.ArrowInvalid("a date is out of range")
    numbers = read.values[:, 0]
    missing = column.is_null().to_numpy(zero_copy_only=False) | np.isnan(numbers)
    bins = np.searchsorted(np.array(attribute.edges[1:-1]), numbers, side="right")
    return np.where(missing, float(attribute.missing), bins)
