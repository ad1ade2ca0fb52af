"""Rows of a table and questions about it, in Python."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from oracle.api.tables import as_cells
from oracle.errors import DataError, InputError
from oracle.planning.attributes import Attribute

_ATTRIBUTES = (
    Attribute(name="carrier", categories=("AA", "UA", "7")),
    Attribute(name="hour", bounds=(0.0, 24.0), bins=4, column="Hour"),
)
_COLUMNS = {"carrier": ["UA", "7", None, "XX"], "Hour": [0.0, 6.0, np.nan, 30.0], "note": [1, "a", [], {}]}
_CELLS = [[1, 0], [2, 1], [4, 4], [3, 3]]


@pytest.mark.parametrize(
    "rows",
    [
        _COLUMNS,
        {"carrier": np.array(_COLUMNS["carrier"], dtype=object), "Hour": np.array(_COLUMNS["Hour"])},
        pa.table({"carrier": _COLUMNS["carrier"], "Hour": _COLUMNS["Hour"]}),
        pd.DataFrame(_COLUMNS),
        pd.DataFrame(_COLUMNS).astype({"carrier": "category"}),
        np.array(_CELLS),
        [[float(cell) for cell in row] for row in _CELLS],
    ],
)
def test_columns_of_any_kind_are_the_same_cells(rows):
    """Mappings, Arrow tables and data frames; columns that the model does not name may hold anything."""
    assert as_cells(_ATTRIBUTES, rows).tolist() == _CELLS


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ({"carrier": ["AA"]}, InputError, r"rows\['Hour'\] is not set: must be a column"),
        ({"carrier": ["AA"], "Hour": [1, 2]}, InputError, r"rows\['Hour'\]: length = 2: must be 1, that of column car"),
        ({"carrier": ["AA"], "Hour": ["secret77"]}, DataError, "column Hour: must hold numbers, not string"),
        ({"carrier": ["AA", 77], "Hour": [1, 2]}, InputError, r"rows\['carrier'\] = '...': must be a column of values"),
        ([[0.0, 5.0]], InputError, "every cell of 'hour' must be a whole number from 0 to 4"),
        ([[-1.0, 0.0]], InputError, "every cell of 'carrier' must be a whole number from 0 to 4"),
        ([[0.0, np.nan]], InputError, "every cell of 'hour' must be"),
        ([[0.5, 0.0]], InputError, "every cell of 'carrier' must be"),
        ([[0.0]], InputError, r"rows: shape = \(1, 1\): must be \(n, 2\)"),
        ([["secret77"]], InputError, "must be numbers of cells, or columns by their names"),
    ],
)
def test_what_is_no_table_is_refused(rows, error, message):
    """By the column's name, without a value."""
    with pytest.raises(error, match=message) as caught:
        as_cells(_ATTRIBUTES, rows)
    assert "77" not in str(caught.value)
