"""Values of a column as cells of an attribute."""

import datetime as dt
import decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.codec.arrow.cells import number_text, read_cells
from oracle.errors import DataError
from oracle.planning.attributes import Attribute

_TEN = Attribute(name="hour", bounds=(0.0, 1.0), bins=10)
_DAYS = Attribute(name="day", type="date", bounds=(0.0, 4.0), bins=2, column="When")


def _categories(*names: str) -> Attribute:
    return Attribute(name="c", categories=names)


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        (pa.array(["1", "a", "1.0", "", None, "A", "a "]), [0, 1, 2, 5, 5, 4, 4]),
        (pa.array(["1", "a", ""], type=pa.large_string()), [0, 1, 5]),
        (pa.array(["1", "a", None], type=pa.string_view()), [0, 1, 5]),
        (pa.array(["a", "a", None, "b"]).dictionary_encode(), [1, 1, 5, 4]),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None])), [1, 5, 5]),
        (pa.DictionaryArray.from_arrays(pa.array([1, None, 0], type=pa.uint8()), pa.array(["a", "1"])), [0, 5, 1]),
        (pa.array([1, -1, None, 2**63 - 1]), [0, 4, 5, 4]),
        (pa.array([1, 255], type=pa.uint8()).dictionary_encode(), [0, 4]),
        (pa.array([1.0, 1.5, np.nan, None, np.inf, -0.0]), [0, 4, 5, 5, 4, 4]),
        (pa.array([True, False, None]), [3, 4, 5]),
        (pa.array([dt.date(2013, 1, 1), None]), [4, 5]),
        (pa.nulls(2), [5, 5]),
        (pa.array([], type=pa.string()), []),
        (pa.array(["x", "a", "1", None]).slice(1), [1, 0, 5]),
    ],
)
def test_categories_are_compared_as_texts(column, cells):
    """Whatever the column's type; what is none of them is other, and what is no value is missing."""
    found = read_cells(_categories("1", "a", "1.0", "true"), column)
    assert found.dtype == np.float64
    assert found.tolist() == cells


def test_declared_names_come_before_the_built_in_cells():
    """A text of no characters and "other" are categories where they are declared."""
    assert read_cells(_categories("", "a"), pa.array(["", None, "x", "other"])).tolist() == [0, 3, 2, 2]
    assert read_cells(_categories("other", "a"), pa.array(["x", "other", "a", None])).tolist() == [0, 0, 1, 2]
    dates = _categories("2013-01-01")
    assert read_cells(dates, pa.array([dt.date(2013, 1, 1), dt.date(2013, 1, 2)])).tolist() == [0, 1]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_numbers_are_compared_by_the_text_of_their_own_precision(kind):
    """0.1 is "0.1" in either, though the two numbers differ; a whole number has no point."""
    attribute = _categories("0.1", "7", "1e+22", "1e22")
    assert read_cells(attribute, pa.array([0.1, 7.0, 1e22, 0.2], type=kind)).tolist() == [0, 1, 2, 4]


@given(st.floats(allow_nan=False))
def test_the_text_of_a_number_leads_back_to_it(number):
    """So no two numbers share a category, but for the two zeros."""
    assert float(number_text(np.float64(number))) == number


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        (pa.array([0.0, 0.05, 0.1, 0.3, np.nextafter(0.3, 0.0), 0.999]), [0, 0, 1, 3, 2, 9]),
        (pa.array([-5.0, 1.0, 7.0, -np.inf, np.inf]), [0, 9, 9, 0, 9]),
        (pa.array([np.nan, None, 0.5]), [10, 10, 5]),
        (pa.array([0, 1, None]), [0, 9, 10]),
        (pa.array([0.15, None], type=pa.float32()).dictionary_encode(), [1, 10]),
        (pa.nulls(1), [10]),
    ],
)
def test_numbers_belong_to_the_bin_from_its_edge_on(column, cells):
    """[from, to) of each bin; outside of all, the bin at that end; without a value, missing."""
    assert read_cells(_TEN, column).tolist() == cells


@given(
    st.floats(-1e300, 1e300).flatmap(lambda low: st.tuples(st.just(low), st.floats(min_value=0.0, max_value=1e9))),
    st.integers(1, 400),
    st.lists(st.floats(allow_nan=False), max_size=20),
)
def test_bins_are_those_of_the_declared_edges(bounds, bins, values):
    """Each edge itself lies in the bin that begins with it, and the number before it in the bin before."""
    low, width = bounds
    attribute = Attribute(name="a", bounds=(low, low + width), bins=bins)
    edges = attribute.edges
    if not all(one < other for one, other in pairwise(edges)):
        return
    tried = [*values, *edges, *np.nextafter(edges, -np.inf).tolist()]
    cells = read_cells(attribute, pa.array(tried, type=pa.float64()))
    for value, cell in zip(tried, cells.astype(int).tolist(), strict=True):
        assert 0 <= cell < bins
        assert value >= edges[cell] or cell == 0
        assert value < edges[cell + 1] or cell == bins - 1


def test_dates_are_binned_by_their_days():
    """Dates of Arrow, and texts where a format has no dates."""
    days = [dt.date(1969, 12, 31), dt.date(1970, 1, 2), dt.date(1970, 1, 3), dt.date(2030, 1, 1), None]
    for kind in (pa.date32(), pa.date64()):
        assert read_cells(_DAYS, pa.array(days, type=kind)).tolist() == [0, 0, 1, 1, 2]
    assert read_cells(_DAYS, pa.array(["1970-01-02", "", None, "1970-01-03"])).tolist() == [0, 2, 2, 1]


@pytest.mark.parametrize(
    ("attribute", "column", "message"),
    [
        (_TEN, pa.array(["0.77"]), "column hour: must hold numbers, not string"),
        (_TEN, pa.array([True]), "column hour: must hold numbers, not bool"),
        (_TEN, pa.array([77], type=pa.timestamp("us")), r"column hour: must hold numbers, not timestamp\[us\]"),
        (_DAYS, pa.array([77]), "column When: must hold dates, not int64"),
        (_DAYS, pa.array(["77.1.1970"]), "column When: every value must be a date from 0001-01-01"),
        (_DAYS, pa.array([10**9], type=pa.int32()).cast(pa.date32()), "column When: every value must be a date from"),
        (_categories("a"), pa.array([["77"]]), "column c: must hold texts, numbers, booleans or dates, not list"),
        (_categories("a"), pa.array([{"77": 1}]), "column c: must hold texts, numbers, booleans or dates, not struct"),
        (_categories("a"), pa.array([decimal.Decimal("7.7")]), r"column c: must hold .*, not decimal128\(2, 1\)"),
        (
            _categories("a"),
            pa.Array.from_buffers(
                pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], dtype=np.int32)), pa.py_buffer(b"7\xff")]
            ),
            "column c: every value must be text of UTF-8",
        ),
    ],
)
def test_what_is_none_of_it_is_named_and_not_quoted(attribute, column, message):
    """The column and the rule, and never a value."""
    with pytest.raises(DataError, match=message) as caught:
        read_cells(attribute, column)
    assert "77" not in str(caught.value)
    assert "7.7" not in str(caught.value)
