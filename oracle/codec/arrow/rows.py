"""One column of labelled rows as a feature's values, or as labels; errors name the column, and quote nothing."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.codec.arrow.cells import CATEGORIES, is_text, look_up, takes_texts
from oracle.codec.arrow.columns import COLUMNS, read_column, takes, type_name
from oracle.codec.categories import category_numbers, other_category
from oracle.errors import DataError
from oracle.planning.ensemble.model import MISSING
from oracle.planning.features import Feature
from oracle.predictors.base import NO_LABEL, Labels

__all__ = ["labels_in_words", "read_feature", "read_labels"]

_BINARY: Final = (0, 1)
_FALSE_OR_TRUE: Final = "booleans, or the numbers 0 and 1"


def labels_in_words(labels: Sequence[str | int]) -> str:
    """Return what a label must be.

    >>> labels_in_words((0, 1)), labels_in_words(("late", 7))
    ('booleans, or the numbers 0 and 1', "one of the model's classes: 'late', 7")
    """
    if tuple(labels) == _BINARY:
        return _FALSE_OR_TRUE
    return f"one of the model's classes: {', '.join(map(repr, labels))}"


def read_feature(feature: Feature, column: pa.Array, *, missing: bool) -> NDArray[np.float64]:
    """Return a feature's values: float64[n, width].

    Args:
        feature: The feature.
        column: Its values. Of categories, what `cells` compares as texts, also behind a dictionary.
        missing: Whether a value may be missing: null, NaN, or, of categories, a text of no characters.

    Raises:
        DataError: The column is of another type, or a value is none of it.
    """
    where = f"data: column {feature.source}"
    if missing and pa.types.is_null(column.type):
        return np.full((len(column), feature.width), MISSING)
    dated = feature.kind == "date" and is_text(column.type)  # JSON has no dates
    if not (dated or _takes(feature, column.type)):
        wanted = {**COLUMNS, "category": CATEGORIES}[feature.kind].removeprefix("one column of ")
        raise DataError(f"{where}: must hold {wanted}, not {type_name(column.type)}")
    try:
        if feature.kind != "number":
            column.validate(full=True)
        column = column.cast(pa.date32()) if dated else column
    except pa.ArrowInvalid as exc:
        raise DataError(f"{where}: every value must be {feature.accepts}") from exc
    if feature.kind == "category":
        return look_up(column, category_numbers(feature), other_category(feature))[:, None]
    read = read_column(feature, column)
    if read.fit is not None and not read.fit.all():
        raise DataError(f"{where}: every value must be {feature.accepts}")
    if not missing and column.null_count:
        more = " (NaN counts as none)" if feature.kind == "number" else ""
        raise DataError(f"{where}: every row must have a value{more}")
    return _with_missing(where, column, read.values) if missing else read.values


def _takes(feature: Feature, kind: pa.DataType) -> bool:
    if feature.kind == "category":
        return takes_texts(kind.value_type if pa.types.is_dictionary(kind) else kind)
    return takes(feature, kind)


def _with_missing(where: str, column: pa.Array, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values with `MISSING` where there is none.

    Raises:
        DataError: A value is it.
    """
    if (values == MISSING).any():  # nulls are not, so far
        raise DataError(f"{where}: every number must be above {MISSING!r}, which stands for a missing one")
    values = np.where(np.isnan(values), MISSING, values)
    values[column.is_null().to_numpy(zero_copy_only=False)] = MISSING
    return values


def read_labels(name: str, column: pa.Array, labels: Sequence[str | int]) -> Labels:
    """Return labels: bool[n] if they are 0 and 1; else int8[n], their places among `labels`.

    Args:
        name: Of the column.
        column: Booleans and numbers; of other labels what `cells` compares as texts, also behind a dictionary.
        labels: What a label may be.

    Raises:
        DataError: The column holds something else.
    """
    where = f"data: column {name}"
    if column.null_count:
        raise DataError(f"{where}: every row must have a label")
    if tuple(labels) == _BINARY:
        return _flags(where, column)
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
        raise DataError(f"{where}: every label must be {wanted}") from exc
    places = look_up(column, known, float(NO_LABEL)).astype(np.int8)
    if (places == NO_LABEL).any():
        raise DataError(f"{where}: every label must be {wanted}")
    return places


def _flags(where: str, column: pa.Array) -> NDArray[np.bool_]:
    if pa.types.is_boolean(column.type):
        flags: NDArray[np.bool_] = column.to_numpy(zero_copy_only=False)
        return flags
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if np.isin(numbers, _BINARY).all():
            return np.asarray(numbers == 1.0)
        raise DataError(
            f"{where}: must hold {_FALSE_OR_TRUE}; its type is {type_name(column.type)}, with other numbers"
        )
    raise DataError(f"{where}: must hold {_FALSE_OR_TRUE}, not {type_name(column.type)}")
