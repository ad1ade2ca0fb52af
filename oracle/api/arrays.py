"""Rows and queries as predictors take them."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from oracle.api.tables import column_of
from oracle.codec.arrow.rows import read_feature
from oracle.errors import DataError, InputError
from oracle.planning.features import Feature
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import TablePlan

__all__ = ["BATCH", "as_features", "as_values"]

BATCH = 16_384
"""Most rows handed to a trainer or a predictor at once; no result depends on it."""


def as_features(plan: Plan, name: str, values: Any) -> NDArray[np.float64]:  # noqa: ANN401 -- said below
    """Return values as float64[n, D], without -0.0.

    Args:
        plan: Has D features.
        name: What to call them in an error.
        values: Numbers, [n, D], finite. Where values may be missing, of any types, [n, D]; or columns by their names,
            as a mapping, an Arrow table or a data frame: see `oracle.codec.arrow.rows`.

    Raises:
        InputError: The shape is another, or a value is no finite number.
        DataError: A column holds what it should not.
    """
    features = _of_columns(plan, name, values) if plan.takes_missing else _of_numbers(plan, name, values)
    if not np.isfinite(features).all():
        raise InputError(name, "...", "every value must be a finite number")
    if isinstance(plan, TablePlan):
        _check_questions(plan, name, features)
    return np.ascontiguousarray(features + 0.0)


def as_values(feature: Feature, rows: Any) -> NDArray[np.float64]:  # noqa: ANN401 -- said below
    """Return what a feature's values are compared as: float64[n, width], without -0.0.

    Args:
        feature: The feature.
        rows: Its values, [n] or [n, 1], or an Arrow array; or columns by their names, as a mapping, an Arrow table
            or a data frame.

    Raises:
        InputError: They are of several types, or there is no such column.
        DataError: A value is not what the feature accepts.
    """
    if isinstance(rows, str | bytes | PathLike):
        raise InputError("rows", "...", "must be values, no path: read the file, such as by pandas.read_csv")
    if isinstance(rows, np.ndarray | list | tuple | pa.Array | pa.ChunkedArray):
        one_column = isinstance(rows, np.ndarray) and rows.shape[1:] == (1,)
        rows = {feature.source: np.ravel(rows) if one_column else rows}
    values = read_feature(feature, column_of(rows, feature.source, "rows"), missing=False)
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        must = f"data: column {feature.source}: every value must be a finite number"
        raise DataError(f"{must}; the first that is not is in row {int(finite.argmin()) + 1}")
    return np.ascontiguousarray(values + 0.0)


def _of_numbers(plan: Plan, name: str, values: ArrayLike) -> NDArray[np.float64]:
    try:
        features = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as exc:
        raise InputError(name, "...", "must be an array of numbers") from exc
    _check_shape(name, features.shape, plan.width)
    return features


def _of_columns(plan: Plan, name: str, values: Any) -> NDArray[np.float64]:  # noqa: ANN401 -- as above
    """Return what each column is read as."""
    if isinstance(values, np.ndarray | list | tuple):
        columns = _cut(name, values, len(plan.features))
    else:
        columns = [column_of(values, feature.source, name) for feature in plan.features]
        for feature, column in zip(plan.features, columns, strict=True):
            if len(column) != len(columns[0]):
                bound = f"must be {len(columns[0])}, that of column {plan.features[0].source}"
                raise InputError(f"{name}[{feature.source!r}]: length", len(column), bound)
    pairs = zip(plan.features, columns, strict=True)
    return np.column_stack([read_feature(feature, column, missing=True) for feature, column in pairs])


def _cut(name: str, values: Any, width: int) -> Sequence[pa.Array]:  # noqa: ANN401 -- as above
    """Return the columns of an array, or of a list of rows."""
    try:
        array = values if isinstance(values, np.ndarray) else np.array([[*row] for row in values], dtype=object)
        _check_shape(name, array.shape, width)
        return [pa.array(array[:, place], from_pandas=True) for place in range(width)]
    except (pa.ArrowException, TypeError, ValueError) as exc:  # their texts quote values
        if isinstance(exc, InputError):
            raise
        raise InputError(name, "...", f"must be rows of {width} values, and columns of values of one type") from exc


def _check_shape(name: str, shape: Sequence[int], width: int) -> None:
    if len(shape) != 2 or shape[1] != width:  # noqa: PLR2004 -- rows and columns
        raise InputError(f"{name}: shape", shape, f"must be (n, {width})")


def _check_questions(plan: TablePlan, name: str, rows: NDArray[np.float64]) -> None:
    """Refuse rows that no question has.

    Raises:
        InputError: One is.
    """
    words = rows[:, : plan.layout.width]
    if not plan.layout.holds(words):
        raise InputError(name, "...", "must be rows of plan.layout.row")
    if not ((rows[:, words.shape[1] :] >= 0.0) & (rows[:, words.shape[1] :] <= 1.0)).all():
        raise InputError(name, "...", "thresholds must be shares of the rows, from 0 to 1")
