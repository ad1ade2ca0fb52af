"""Rows of a table, as a program has them: columns of any kind, or cells."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.codec.arrow.cells import read_cells
from oracle.errors import InputError
from oracle.planning.attributes import Attribute

__all__ = ["as_cells", "column_of"]


def as_cells(attributes: Sequence[Attribute], rows: Any) -> NDArray[np.float64]:  # noqa: ANN401 -- said below
    """Return the cell of each row in each attribute: float64[n, A].

    Args:
        attributes: The table's attributes.
        rows: Numbers of cells, [n, A], as an array or a list. Or columns by their names, as a mapping, an Arrow table
            or a data frame; `oracle.codec.arrow.cells` says what their values become.

    Raises:
        InputError: A column is missing or of another length, or the numbers are none of cells.
        DataError: A column holds what it should not.
    """
    if isinstance(rows, str | bytes | PathLike):
        raise InputError("rows", "...", "must be rows, no path: read the file, such as by pandas.read_csv")
    if isinstance(rows, np.ndarray | list | tuple):
        return _checked(attributes, rows)
    columns = [read_cells(attribute, column_of(rows, attribute.source, "rows")) for attribute in attributes]
    for attribute, column in zip(attributes, columns, strict=True):
        if len(column) != len(columns[0]):
            bound = f"must be {len(columns[0])}, that of column {attributes[0].source}"
            raise InputError(f"rows[{attribute.source!r}]: length", len(column), bound)
    return np.column_stack(columns)


def column_of(rows: Any, name: str, what: str) -> pa.Array:  # noqa: ANN401 -- as above
    """Return a column by its name; `what` is what to call its owner in an error.

    Raises:
        InputError: There is none, or its values are of several types.
    """
    where = f"{what}[{name!r}]"
    try:
        column = rows[name]
    except LookupError as exc:
        raise InputError(where, None, "must be a column") from exc
    except TypeError as exc:  # it has none
        raise InputError("rows", "...", "must be columns by their names, or numbers of cells") from exc
    try:
        found = pa.chunked_array(column) if hasattr(column, "__arrow_c_stream__") else pa.array(column)
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    except (pa.ArrowException, TypeError, ValueError) as exc:  # their texts quote values
        raise InputError(where, "...", "must be a column of values of one type") from exc


def _checked(attributes: Sequence[Attribute], rows: Any) -> NDArray[np.float64]:  # noqa: ANN401 -- as above
    try:
        cells = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as exc:
        raise InputError("rows", "...", "must be numbers of cells, or columns by their names") from exc
    if cells.ndim != 2 or cells.shape[1] != len(attributes):  # noqa: PLR2004 -- rows and columns
        raise InputError("rows: shape", cells.shape, f"must be (n, {len(attributes)})")
    limits = [attribute.cells for attribute in attributes]
    bad = ~((cells >= 0.0) & (cells < limits) & (cells == np.floor(cells))).all(axis=0)
    if bad.any():
        index = int(bad.argmax())
        bound = f"every cell of {attributes[index].name!r} must be a whole number from 0 to {limits[index] - 1}"
        raise InputError("rows", "...", bound)
    return cells
