"""Columns of labelled rows: values that may be missing, categories, and labels of any name."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.codec.arrow.cells import read_cells
from oracle.codec.arrow.rows import read_feature, read_labels
from oracle.errors import DataError
from oracle.planning.attributes import Attribute
from oracle.planning.ensemble.model import MISSING
from oracle.planning.features import Feature

_CARRIER = Feature(name="c", categories=("AA", "7", "true", "2013-01-02", "0.1"))


@pytest.mark.parametrize(
    ("column", "numbers"),
    [
        (pa.array(["AA", "aa", "", None, "7"]), [0, 5, MISSING, MISSING, 1]),
        (pa.array(["AA", None, "7"]).dictionary_encode(), [0, MISSING, 1]),
        (pa.array(["7", "x"], pa.string_view()), [1, 5]),
        (pa.array([7, 8, None], pa.int16()), [1, 5, MISSING]),
        (pa.array([7.0, 0.1, float("nan"), None]), [1, 4, MISSING, MISSING]),
        (pa.array([0.1], pa.float32()), [4]),
        (pa.array([True, False, None]), [2, 5, MISSING]),
        (pa.array([dt.date(2013, 1, 2), None]), [3, MISSING]),
        (pa.nulls(2), [MISSING, MISSING]),
    ],
)
def test_categories_are_compared_as_texts(column, numbers):
    """Whatever a file calls their type, and whether it is a dictionary's."""
    assert read_feature(_CARRIER, column, missing=True)[:, 0].tolist() == numbers


_TEXTS = ["a", "more than twelve letters", "a"]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("encoded", [False, True])
def test_columns_may_be_of_dictionaries_and_views(kind, encoded):
    """As Polars writes texts, and any writer its categoricals: of strings, dates, decimals and numbers too."""
    text = Feature(name="n", type="string", max_bytes=24)
    values = pa.array([*_TEXTS[:2]], kind)
    column = pa.DictionaryArray.from_arrays([0, 1, 0], values) if encoded else pa.array(_TEXTS, kind)
    assert (
        read_feature(text, column, missing=False).tolist()
        == read_feature(text, pa.array(_TEXTS), missing=False).tolist()
    )
    day = pa.array(["1970-01-03", "1970-01-02"], kind)
    days = pa.DictionaryArray.from_arrays([0, 1], day) if encoded else day
    assert read_feature(Feature(name="n", type="date"), days, missing=False)[:, 0].tolist() == [2, 1]
    bad = pa.array(["1970-01-03", "no day"], kind)
    with pytest.raises(DataError, match="the first that is not is in row 2"):
        read_feature(Feature(name="n", type="date"), bad, missing=False)
    numbers = pa.DictionaryArray.from_arrays([1, 0, 1], pa.array([0.5, 2.0]))
    assert read_feature(Feature(name="n"), numbers, missing=False)[:, 0].tolist() == [2.0, 0.5, 2.0]


@pytest.mark.parametrize(
    ("feature", "column", "numbers"),
    [
        (Feature(name="n"), pa.array([1.5, None, float("nan")]), [1.5, MISSING, MISSING]),
        (Feature(name="n"), pa.array([3, None], pa.int8()), [3, MISSING]),
        (Feature(name="n"), pa.nulls(1), [MISSING]),
        (Feature(name="n", type="date"), pa.array([dt.date(1970, 1, 3), None]), [2, MISSING]),
        (Feature(name="n", type="date"), pa.array(["1970-01-03", None]), [2, MISSING]),
        (Feature(name="n", type="decimal", places=1), pa.array([5, None]), [5, MISSING]),
        (Feature(name="n", type="decimal", places=1), pa.array(["-5.50", None]), [-5.5, MISSING]),
    ],
)
def test_any_value_may_be_missing(feature, column, numbers):
    """Where the plan says so; of other plans null is refused."""
    assert read_feature(feature, column, missing=True)[:, 0].tolist() == numbers
    with pytest.raises(DataError, match=r"^data: column n: (every row must have a value|must hold)"):
        read_feature(feature, column, missing=False)


@pytest.mark.parametrize(
    ("feature", "column", "message"),
    [
        (
            Feature(name="n"),
            pa.array([1.0, None, MISSING]),
            "data: column n: every number must be above -1.7976931348623157e+308, which stands for a missing one",
        ),
        (Feature(name="n"), pa.array(["1"]), "data: column n: must hold numbers, not string"),
        (_CARRIER, pa.array([["AA"]]), "data: column c: must hold texts, numbers, booleans or dates, not list"),
        (_CARRIER, pa.array([b"AA"]), "data: column c: must hold texts, numbers, booleans or dates, not binary"),
    ],
)
def test_what_is_no_value_is_refused(feature, column, message):
    """By its column, and not quoted."""
    with pytest.raises(DataError) as caught:
        read_feature(feature, column, missing=True)
    assert str(caught.value).startswith(message)
    assert ("row 3" in str(caught.value)) == ("missing one" in message)


@pytest.mark.parametrize(
    ("labels", "column", "numbers"),
    [
        (("late", "on time"), pa.array(["on time", "late"]), [1, 0]),
        (("late", "on time"), pa.array(["on time", "late"]).dictionary_encode(), [1, 0]),
        ((3, -1, 2), pa.array([2, 3, -1], pa.int8()), [2, 0, 1]),
        ((3, -1, 2), pa.array([2.0, 3.0]), [2, 0]),
        (("3", "1"), pa.array([1, 3]), [1, 0]),
        ((1, 0), pa.array([True, False]), [0, 1]),
        ((1, 0), pa.array([0, 1]), [1, 0]),
        (("true", "false"), pa.array([False, True]), [1, 0]),
        ((0, "7"), pa.array(["7", "0"]), [1, 0]),
    ],
)
def test_labels_are_places_among_the_classes(labels, column, numbers):
    """As int8."""
    read = read_labels("y", column, labels)
    assert read.dtype == np.int8
    assert read.tolist() == numbers


def test_zero_and_one_are_flags_as_they_always_were():
    """So nothing changes for predictors of these."""
    read = read_labels("y", pa.array([1.0, 0.0]), (0, 1))
    assert read.dtype == np.bool_
    assert read.tolist() == [True, False]


_WANTED = "data: column y: every label must be one of the model's classes: 'late', 'on time'"
_FIRST = f"{_WANTED}; the first that is not is in row"


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["late", "secret77"]), f"{_FIRST} 2"),
        (pa.array(["late", ""]), f"{_FIRST} 2"),
        (pa.array([1, 2]), f"{_FIRST} 1"),
        (pa.array([1.0, float("nan")]), f"{_FIRST} 1"),
        (pa.array([b"late"]), f"{_WANTED}; its type is binary"),
        (pa.array(["late", None]), "data: column y: every row must have a label; the first without is row 2"),
    ],
)
def test_other_labels_are_refused(column, message):
    """By what they may be; the label itself is not quoted."""
    with pytest.raises(DataError) as caught:
        read_labels("y", column, ("late", "on time"))
    assert str(caught.value) == message


_DATES, _PRICES = Feature(name="d", type="date"), Feature(name="p", type="decimal", places=2)
_NOT_UTF8 = pa.array([b"a", b"\xff", b"b"]).view(pa.string())


@settings(max_examples=30)
@given(bad=st.sets(st.integers(0, 99), min_size=1), first=st.integers(1, 10**6), case=st.integers(0, 7))
def test_the_first_bad_row_is_named(bad, first, case):
    """By the number that it was given, whatever is wrong, and however many more are."""

    def column(good, wrong, kind=None):
        return pa.array([wrong if row in bad else good for row in range(100)], kind)

    numbers = np.arange(first, first + 100)
    feature, rows = (
        (_DATES, column("2013-02-28", "2013-02-30")),
        (_DATES, column("2013-02-28", None)),
        (_PRICES, column("1.25", "1.255")),
        (_PRICES, column("1.25", "")),
        (_PRICES, column(1, 10**13)),
        (Feature(name="s", type="string", max_bytes=2), column("ab", "abc")),
        (Feature(name="s", type="string", max_bytes=2), column(b"a", b"\xff").view(pa.string())),
        (Feature(name="n"), column(1.0, None)),
    )[case]
    with pytest.raises(DataError, match=rf"row {first + min(bad)}$"):
        read_feature(feature, rows, numbers, missing=False)


def test_labels_and_cells_that_are_wrong_are_named_by_their_rows():
    """Flags, texts behind a dictionary, and bins."""
    numbers = np.array([7, 9, 11])
    with pytest.raises(DataError, match=r"with other numbers; the first is in row 9$"):
        read_labels("y", pa.array([1.0, 2.0, 3.0]), (0, 1), numbers)
    with pytest.raises(DataError, match=r"the first that is not is in row 9$"):
        read_labels("y", _NOT_UTF8.dictionary_encode(), ("a", "b"), numbers)
    days = Attribute(name="d", type="date", bounds=(15706.0, 15710.0), bins=2)
    with pytest.raises(DataError, match=r"the first that is not is in row 11$"):
        read_cells(days, pa.array(["2013-01-02", "", "2013-02-30"]), numbers)
