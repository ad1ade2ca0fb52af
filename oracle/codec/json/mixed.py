"""Many JSON queries at once where features have categories and values may be missing, column by column."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.codec.json.values import ValueReader
from oracle.planning.ensemble.model import MISSING

__all__ = ["read_mixed"]

_NULL: Final = type(None)


def read_mixed(readers: Sequence[ValueReader], rows: Iterable[Iterable[object]]) -> NDArray[np.float64] | None:
    """Return float64[n, D] of values that JSON has: floats, texts and null; None if a feature does not take one.

    Args:
        readers: Of each feature, of the kinds "number" and "category".
        rows: As many values each.
    """
    columns = list(zip(*rows, strict=True))
    features = np.empty((len(columns[0]), len(readers)))
    for place, (reader, column) in enumerate(zip(readers, columns, strict=True)):
        numbers = _numbers(column) if reader.kind == "number" else _categories(reader, column)
        if numbers is None:
            return None
        features[:, place] = numbers
    return features


def _numbers(column: Sequence[object]) -> NDArray[np.float64] | None:
    kinds = set(map(type, column))
    if not kinds <= {float, _NULL}:
        return None
    numbers = np.array(column, dtype=np.float64)  # null becomes NaN, which JSON does not have
    if np.isinf(numbers).any() or (numbers == MISSING).any():
        return None
    return np.nan_to_num(numbers, nan=MISSING, copy=False) if _NULL in kinds else numbers


def _categories(reader: ValueReader, column: Sequence[object]) -> list[float] | None:
    if not set(map(type, column)) <= {str, _NULL}:
        return None
    return list(map(reader.known.get, column, repeat(reader.other)))  # type: ignore[arg-type] # texts and null, as found
