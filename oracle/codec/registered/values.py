"""Values that Avro or Protobuf gave, as what a predictor takes, by their features' types.

A number is any number but a truth value, a string or a category a text; a date is a day since 1970-01-01, or a text as
in JSON; a decimal is one, or a whole number, or a text as in JSON. Where values may be missing, null or a field that is
not there says that one is.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from itertools import repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.codec.json.values import NOT_MISSING, ValueReader
from oracle.codec.rejections import Reason, Rejection
from oracle.mechanisms.orders import text_digits
from oracle.mechanisms.scalars import FIRST_DAY, LAST_DAY, day_of, decimal_number, decimal_of
from oracle.planning.ensemble.model import MISSING
from oracle.planning.features import Feature
from oracle.planning.plan import Plan

__all__ = ["RowReader"]

_NULL: Final = type(None)
_FINITE: Final = "a finite float64"


class _Values:
    """Reads the values of one feature."""

    def __init__(self, feature: Feature, field: str, *, missing: bool) -> None:
        self._feature = feature
        self._field = field
        self._missing = missing
        reader = ValueReader(feature, missing=missing)
        self._accepts, self._known, self._other = reader.accepts, reader.known, reader.other

    def read(self, value: object) -> list[float] | Rejection:
        """Return the numbers of a value, None for null, or why it is none."""
        if value is None:
            if self._missing:
                return [MISSING] * self._feature.width
            return Rejection(Reason.MISSING_FEATURE, self._field, self._accepts)
        numbers = self._numbers(value)
        if numbers is None:
            return Rejection(Reason.WRONG_TYPE, self._field, self._accepts)
        if self._feature.kind == "number":
            if not math.isfinite(numbers[0]):
                return Rejection(Reason.NOT_FINITE, self._field, _FINITE)
            if self._missing and numbers[0] == MISSING:
                return Rejection(Reason.NOT_FINITE, self._field, NOT_MISSING)
        return numbers

    def _numbers(self, value: object) -> list[float] | None:
        feature, number = self._feature, None
        if feature.kind == "number":
            number = float(value) if type(value) in {float, int} else None  # type: ignore[arg-type]  # as found
        elif feature.kind == "date":
            number = _day(value)
        elif feature.kind == "decimal":
            number = _decimal(value, feature.decimals)
        elif not isinstance(value, str):
            return None
        elif feature.kind == "category":
            number = self._known.get(value, self._other)
        else:
            data = value.encode()
            return text_digits(data, feature.width) if len(data) <= feature.longest else None
        return None if number is None else [number]

    def column(self, values: Sequence[object]) -> NDArray[np.float64] | None:
        """Return float64[n, width] of many values, as `read` would; None if one is rejected, or might be."""
        kinds = set(map(type, values))
        if self._feature.kind == "number" and kinds <= {float, int}:
            numbers = np.array(values, dtype=np.float64)
            if not np.isfinite(numbers).all() or (self._missing and (numbers == MISSING).any()):
                return None
            return numbers[:, None]
        if self._feature.kind == "category" and kinds <= ({str, _NULL} if self._missing else {str}):
            found = map(self._known.get, values, repeat(self._other))  # type: ignore[arg-type]  # as found
            return np.array(list(found), dtype=np.float64)[:, None]
        rows = list(map(self.read, values))
        return None if any(isinstance(row, Rejection) for row in rows) else np.array(rows, dtype=np.float64)


def _day(value: object) -> float | None:
    if isinstance(value, str):
        return day_of(value)
    return float(value) if type(value) is int and FIRST_DAY <= value <= LAST_DAY else None


def _decimal(value: object, places: int) -> float | None:
    if isinstance(value, str):
        return decimal_of(value, places)
    if type(value) is int:
        value = Decimal(value)
    return decimal_number(value, places) if isinstance(value, Decimal) else None


class RowReader:
    """Reads the values of whole queries.

    Args:
        plan: Whose features.
        fields: What these are called in messages.
    """

    def __init__(self, plan: Plan, fields: Sequence[str]) -> None:
        self._width = plan.width
        self._columns = [
            _Values(feature, field, missing=plan.takes_missing)
            for feature, field in zip(plan.features, fields, strict=True)
        ]

    def read(self, values: Sequence[object]) -> list[float] | Rejection:
        """Return the numbers of one query, or why it is none."""
        row: list[float] = []
        for column, value in zip(self._columns, values, strict=True):
            numbers = column.read(value)
            if isinstance(numbers, Rejection):
                return numbers
            row += numbers
        return row

    def read_many(self, rows: Sequence[Sequence[object]]) -> NDArray[np.float64] | None:
        """Return float64[n, D] of queries, as `read` would; None if one is rejected, or might be."""
        if not rows:
            return np.empty((0, self._width))
        parts: list[NDArray[np.float64]] = []
        for column, values in zip(self._columns, zip(*rows, strict=True), strict=True):
            part = column.column(values)
            if part is None:
                return None
            parts.append(part)
        return np.concatenate(parts, axis=1)
