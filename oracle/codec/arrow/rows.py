"""One column of labelled rows as a feature's values, or as labels; errors name the column, and quote nothing."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.codec.arrow.cells import CATEGORIES, RowNumbers, first_invalid, is_text, look_up, row_of, takes_texts
from oracle.codec.arrow.columns import COLUMNS, read_column, takes, type_name
from oracle.codec.arrow.plain import plain_array, plain_type
from oracle.codec.categories import category_numbers, other_category
from oracle.errors import DataError
from oracle.planning.ensemble.model import MISSING
from oracle.planning.features import Feature
from oracle.predictors.base import NO_LABEL, Labels

__all__ = ["labels_in_words", "read_feature", "read_labels"]

_BINARY: Final = (0, 1)
_FALSE_OR_TRUE: Final = "booleans, or the numbers 0 and 1"
_FROM_TEXT: Final = ("date", "decimal")
_DECIMALS: Final = "decimals, integers or texts of decimals"
"""Floats have few decimals exactly."""


def labels_in_words(labels: Sequence[str | int]) -> str:
    """Return what a label must be.

    >>> labels_in_words((0, 1)), labels_in_words(("late", 7))
    ('booleans, or the numbers 0 and 1', "one of the model's classes: 'late', 7")
    """
    if tuple(labels) == _BINARY:
        return _FALSE_OR_TRUE
    return f"one of the model's classes: {', '.join(map(repr, labels))}"


def read_feature(
    feature: Feature, column: pa.Array, numbers: RowNumbers = None, *, missing: bool
) -> NDArray[np.float64]:
    """Return a feature's values: float64[n, width].

    Args:
        feature: The feature.
        column: Its values, also behind a dictionary, and texts as views. Of categories, what `cells` compares as texts;
            of dates and decimals also texts, as formats have that know no such types.
        numbers: The rows' numbers.
        missing: Whether a value may be missing: null, NaN, or, of categories, a text of no characters.

    Raises:
        DataError: The column is of another type, or a value is none of it.
    """
    where = f"data: column {feature.source}"
    if missing and pa.types.is_null(column.type):
        return np.full((len(column), feature.width), MISSING)
    if not _takes(feature, column.type):
        wanted = {**COLUMNS, "category": CATEGORIES, "decimal": _DECIMALS}[feature.kind]
        raise DataError(f"{where}: must hold {wanted.removeprefix('one column of ')}, not {type_name(column.type)}")
    must = f"{where}: every value must be {feature.accepts}; the first that is not is in row"
    try:
        column = _valid(feature, column)
    except pa.ArrowInvalid as exc:
        raise DataError(f"{must} {row_of(numbers, first_invalid(column, partial(_valid, feature)))}") from exc
    if feature.kind == "category":
        return look_up(column, category_numbers(feature), other_category(feature))[:, None]
    read = read_column(feature, column)
    if read.fit is not None and not read.fit.all():
        raise DataError(f"{must} {row_of(numbers, int(read.fit.argmin()))}")
    if not missing and column.null_count:
        more = " (NaN counts as none)" if feature.kind == "number" else ""
        row = row_of(numbers, int(_nulls(column).argmax()))
        raise DataError(f"{where}: every row must have a value{more}; the first without is row {row}")
    return _with_missing(where, column, read.values, numbers) if missing else read.values


def _takes(feature: Feature, kind: pa.DataType) -> bool:
    if feature.kind == "category":
        return takes_texts(kind.value_type if pa.types.is_dictionary(kind) else kind)
    kind = plain_type(kind)
    return takes(feature, kind) or (feature.kind in _FROM_TEXT and is_text(kind))


def _valid(feature: Feature, column: pa.Array) -> pa.Array:
    """Return a column that was checked, of dates and decimals also if they are texts.

    Raises:
        pyarrow.ArrowInvalid: A value is none.
    """
    if feature.kind != "number" or plain_type(column.type) != column.type:
        column.validate(full=True)
    if feature.kind != "category":
        column = plain_array(column)
    if feature.kind in _FROM_TEXT and is_text(column.type):
        return column.cast(pa.date32() if feature.kind == "date" else pa.decimal128(38, feature.decimals))
    return column


def _nulls(column: pa.Array) -> NDArray[np.bool_]:
    nulls: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _with_missing(
    where: str, column: pa.Array, values: NDArray[np.float64], numbers: RowNumbers
) -> NDArray[np.float64]:
    """Return values with `MISSING` where there is none."""
    if (values == MISSING).any():  # nulls are not, so far
        must = f"{where}: every number must be above {MISSING!r}, which stands for a missing one"
        raise DataError(f"{must}; the first that is not is in row {row_of(numbers, int((values == MISSING).argmax()))}")
    values = np.where(np.isnan(values), MISSING, values)
    values[_nulls(column)] = MISSING
    return values


def read_labels(name: str, column: pa.Array, labels: Sequence[str | int], numbers: RowNumbers = None) -> Labels:
    """Return labels: bool[n] if they are 0 and 1; else int8[n], their places among `labels`.

    Args:
        name: Of the column.
        column: Booleans and numbers; of other labels what `cells` compares as texts, also behind a dictionary.
        labels: What a label may be.
        numbers: The rows' numbers.

    Raises:
        DataError: The column holds something else.
    """
    where = f"data: column {name}"
    if column.null_count:
        row = row_of(numbers, int(_nulls(column).argmax()))
        raise DataError(f"{where}: every row must have a label; the first without is row {row}")
    if tuple(labels) == _BINARY:
        return _flags(where, column, numbers)
    wanted = labels_in_words(labels)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not takes_texts(kind):
        raise DataError(f"{where}: every label must be {wanted}; its type is {type_name(column.type)}")
    known: dict[str | None, float] = {None: float(NO_LABEL)}
    known.update((str(label), float(place)) for place, label in enumerate(labels))
    if pa.types.is_boolean(kind) and set(labels) == set(_BINARY):
        known |= {"false": known["0"], "true": known["1"]}
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as exc:
        row = row_of(numbers, first_invalid(column, lambda part: part.validate(full=True)))
        raise DataError(f"{where}: every label must be {wanted}; the first that is not is in row {row}") from exc
    places = look_up(column, known, float(NO_LABEL)).astype(np.int8)
    if (places == NO_LABEL).any():
        row = row_of(numbers, int((places == NO_LABEL).argmax()))
        raise DataError(f"{where}: every label must be {wanted}; the first that is not is in row {row}")
    return places


def _flags(where: str, column: pa.Array, rows: RowNumbers) -> NDArray[np.bool_]:
    if pa.types.is_boolean(column.type):
        flags: NDArray[np.bool_] = column.to_numpy(zero_copy_only=False)
        return flags
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        known = np.isin(numbers, _BINARY)
        if known.all():
            return np.asarray(numbers == 1.0)
        other = f"with other numbers; the first is in row {row_of(rows, int(known.argmin()))}"
        raise DataError(f"{where}: must hold {_FALSE_OR_TRUE}; its type is {type_name(column.type)}, {other}")
    raise DataError(f"{where}: must hold {_FALSE_OR_TRUE}, not {type_name(column.type)}")
