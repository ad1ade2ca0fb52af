"""One column of an Arrow table as what a predictor takes: exactly, and vectorised."""

from collections.abc import Iterator
from decimal import Context, Decimal
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from oracle.codec.categories import category_numbers, other_category
from oracle.mechanisms.orders import texts_digits
from oracle.mechanisms.scalars import FIRST_DAY, LAST_DAY, decimal_number, largest_decimal
from oracle.planning.features import Feature

__all__ = ["COLUMNS", "Column", "read_column", "takes", "type_name"]

COLUMNS: Final = {
    "number": "one column of numbers",
    "string": "one column of strings",
    "date": "one column of dates",
    "decimal": "one column of decimals or integers",
    "category": "one column of strings or booleans",
}
"""What a feature's column must be, in words, by its type."""

_LARGEST_SCALE: Final = 76
"""Digits of the longest decimals of Arrow; a schema can name a scale beyond."""

_NULLS: Final = {"string": pa.string(), "category": pa.string(), "date": pa.date32()}
"""As what a column of nulls is read; else as numbers."""

_DAY: Final = 86_400_000
"""Milliseconds."""


class Column(NamedTuple):
    """The values of one feature.

    Attributes:
        values: float64[n, width]; anything where there is none.
        fit: bool[n], which values the feature accepts; null counts. None if all do, or for numbers, whose codec looks.
    """

    values: NDArray[np.float64]
    fit: NDArray[np.bool_] | None


def takes(feature: Feature, kind: pa.DataType) -> bool:
    """Return whether a column of a type is what `COLUMNS` says. All types that are not named here are refused.

    Any feature takes a column of nulls, whose type says nothing of what is missing.
    """
    if pa.types.is_null(kind) or (feature.kind == "category" and pa.types.is_boolean(kind)):
        return True
    if feature.kind in {"string", "category"}:
        return pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if feature.kind == "date":
        return pa.types.is_date(kind)
    if feature.kind == "decimal" and pa.types.is_decimal(kind):
        return abs(kind.scale) <= _LARGEST_SCALE
    return pa.types.is_integer(kind) or (pa.types.is_floating(kind) and feature.kind == "number")


def type_name(kind: pa.DataType) -> str:
    """Return Arrow's name of a type, without the names of columns within it.

    >>> type_name(pa.timestamp("ms")), type_name(pa.struct({"age": pa.int8()}))
    ('timestamp[ms]', 'struct')
    """
    return str(kind).partition("<")[0]


def read_column(feature: Feature, column: pa.Array) -> Column:
    """Return the values of a column of a type that the feature takes, fully validated but for numbers."""
    if pa.types.is_null(column.type):
        column = column.cast(_NULLS.get(feature.kind, pa.float64()))
    if feature.kind == "category":
        return Column(_categories(feature, column)[:, None], None)
    if feature.kind == "string":
        return _strings(feature, column)
    if feature.kind == "date":
        return _dates(column)
    if pa.types.is_decimal(column.type):
        return _decimals(feature.decimals, column)
    values = _filled(column.cast(pa.float64(), safe=False), 0.0)
    numbers = _doubles(values)
    fit = np.abs(numbers) < largest_decimal(feature.decimals) if feature.kind == "decimal" else None
    return Column(numbers[:, None], fit)


def _doubles(array: pa.Array) -> NDArray[np.float64]:
    """Return the values of a DoubleArray that is not asked for its nulls; `to_numpy` would import pandas if it can."""
    return _values(array, 1, np.dtype(np.float64))


def _filled(array: pa.Array, value: object) -> pa.Array:
    return array.fill_null(value) if array.null_count else array


def _values(array: pa.Array, buffer: int, kind: "np.dtype[Any]", more: int = 0) -> NDArray[Any]:
    """Return what a buffer holds of an array: a number a value, and `more` at the end."""
    data = array.buffers()[buffer]
    if data is None:
        return np.zeros(len(array) + more, dtype=kind)
    return np.frombuffer(memoryview(data), dtype=kind, count=len(array) + more, offset=kind.itemsize * array.offset)


def _categories(feature: Feature, column: pa.Array) -> NDArray[np.float64]:
    """Return the number of each text; that of a null is missing's. Booleans are the texts "true" and "false"."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.string())
    numbers = category_numbers(feature)
    known = pa.array(list(numbers), column.type)
    places: NDArray[np.float64] = np.array([*numbers.values(), other_category(feature)])
    found = pa.compute.index_in(column, value_set=known)  # type: ignore[attr-defined] # its types do not know it
    rows: NDArray[np.float64] = places[_values(_filled(found, len(known)), 1, np.dtype(np.int32))]
    return rows


def _strings(feature: Feature, column: pa.Array) -> Column:
    column = _filled(column, "")
    if not len(column):
        return Column(np.empty((0, feature.width)), None)
    kind = np.dtype(np.int64 if pa.types.is_large_string(column.type) else np.int32)
    offsets = _values(column, 1, kind, 1).astype(np.int64)
    lengths = np.diff(offsets)
    fit = lengths <= feature.longest
    data = column.buffers()[2]
    texts = np.frombuffer(b"" if data is None else memoryview(data), dtype=np.uint8)
    return Column(texts_digits(texts, offsets[:-1], np.where(fit, lengths, 0), feature.width), fit)


def _dates(column: pa.Array) -> Column:
    column = _filled(column.cast(pa.int32() if column.type == pa.date32() else pa.int64()), 0)
    numbers = _values(column, 1, np.dtype(column.type.to_pandas_dtype()))
    if numbers.dtype == np.int64:
        numbers = numbers // _DAY  # Arrow calls others invalid
    return Column(numbers.astype(np.float64)[:, None], (numbers >= FIRST_DAY) & (numbers <= LAST_DAY))


def _decimals(places: int, column: pa.Array) -> Column:
    """Read decimals: both numbers of the division are exact, so that what comes out is the nearest float64."""
    scale = column.type.scale
    if pa.types.is_decimal128(column.type) and 0 <= scale <= places:
        words = _values(column, 1, np.dtype("V16")).view(np.int64).reshape(-1, 2)
        low, high = words[:, 0], words[:, 1]
        limit = largest_decimal(places) * 10**scale
        fit = (high == low >> 63) & (low < limit) & (low > -limit)
        if column.null_count:
            fit |= column.is_null().to_numpy(zero_copy_only=False)
        return Column((low / 10.0**scale)[:, None], fit)
    numbers = [0.0 if value is None else decimal_number(value, places) for value in _decimal_values(column)]
    fit = np.array([number is not None for number in numbers], dtype=np.bool_)
    return Column(np.array([number or 0.0 for number in numbers], dtype=np.float64).reshape(-1, 1), fit)


def _decimal_values(column: pa.Array) -> Iterator[Decimal | None]:
    """Yield decimals of any width as they are; pyarrow itself fails where a scale is beyond a width's digits."""
    units = _values(column, 1, np.dtype(f"V{column.type.byte_width}")).tolist()
    nulls = column.is_null().to_numpy(zero_copy_only=False).tolist()
    scaled = partial(Context(prec=_LARGEST_SCALE).multiply, Decimal((0, (1,), -column.type.scale)))
    for unit, null in zip(units, nulls, strict=True):
        yield None if null else scaled(int.from_bytes(unit, "little", signed=True))
