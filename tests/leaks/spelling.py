"""How a world's numbers stand in queries and training rows: as they are, or in texts of all lengths in their order.

A text is the number's digits, or those and as many full stops as make it as long as its feature allows.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.mechanisms.orders import text_digits
from oracle.planning.features import Feature

_PLACES: Final = 6


def as_values(features: Sequence[Feature], row: Sequence[float]) -> list[float | str]:
    """Return a row as it stands in JSON."""
    return [_as_value(feature, number) for feature, number in zip(features, row, strict=True)]


def as_column(feature: Feature, numbers: Sequence[float | None]) -> pa.Array:
    """Return numbers, nulls and NaN as a column; where texts stand, NaN is an empty one."""
    if feature.kind != "string":
        return pa.array(numbers, pa.float64())
    return pa.array([None if number is None else _as_text(feature, number) for number in numbers], pa.string())


def as_numbers(features: Sequence[Feature], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what predictors take: float64[n, d] to float64[n, D]."""
    columns: list[NDArray[np.float64]] = []
    for feature, column in zip(features, rows.T, strict=True):
        if feature.kind == "string":
            texts = [text_digits(_as_text(feature, number).encode(), feature.width) for number in column.tolist()]
            columns.append(np.array(texts).reshape(-1, feature.width))
        else:
            columns.append(column[:, None])
    return np.concatenate(columns, axis=1)


def _as_value(feature: Feature, number: float) -> float | str:
    return _as_text(feature, number) if feature.kind == "string" else number


def _as_text(feature: Feature, number: float) -> str:
    """Return the text of a number from -1 to 8: short, or with an odd last place of the longest that may be."""
    if np.isnan(number):
        return ""
    digits = f"{1.0 + number:.{_PLACES}f}"
    text = "\u00e9" + digits.rstrip("0").replace(".", "")  # no digit and no full stop is beyond another one
    return text.ljust(feature.longest - 1, ".") if int(digits[-1]) % 2 else text
