"""Dates and decimals as float64: one to one, in order, and nothing else taken."""

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oracle.mechanisms.scalars import FIRST_DAY, LAST_DAY, day_of, decimal_number, decimal_of, largest_decimal

_SEVERAL = settings(max_examples=200, deadline=None, derandomize=True, database=None)


@_SEVERAL
@given(st.dates(), st.dates())
@example(dt.date.min, dt.date.max)
def test_days_are_in_the_order_of_dates(one, other):
    """Days since 1970, whole numbers, from the first date to the last."""
    days = [day_of(date.isoformat()) or 0.0 for date in (one, other)]
    assert (days[0] < days[1], days[0] == days[1]) == (one < other, one == other)
    assert days[0] - days[1] == (one - other).days
    assert FIRST_DAY <= days[0] <= LAST_DAY
    assert day_of("1970-01-01") == 0.0


@pytest.mark.parametrize(
    "text",
    ["", "2013", "2013-1-1", "20130101", "2013-02-29", "0000-01-01", "2013-01-01T00:00", " 2013-01-01", "2013-W01-1"],
)
def test_what_is_no_date(text):
    """Only YYYY-MM-DD is one, of a day that there is."""
    assert day_of(text) is None


@_SEVERAL
@given(st.data(), st.integers(0, 12))
def test_decimals_are_told_apart(data, places):
    """Of two decimals of 15 digits, next to each other or not, the numbers compare as the decimals do."""
    limit = 10**15
    one = data.draw(st.integers(1 - limit, limit - 1))
    other = data.draw(st.one_of(st.integers(1 - limit, limit - 1), st.sampled_from([one - 1, one + 1]))) % limit
    left, right = (Decimal(digits).scaleb(-places) for digits in (one, other))
    found = decimal_of(format(left, "f"), places), decimal_number(right, places)
    assert None not in found
    numbers = [number or 0.0 for number in found]
    assert (numbers[0] < numbers[1], numbers[0] == numbers[1]) == (left < right, left == right)
    assert Decimal(format(numbers[0], f".{places}f")) == left


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12.30", 12.3),
        ("-0.00", 0.0),
        ("1.23e1", 12.3),
        ("1E2", 100.0),
        ("0.1200000000000", 0.12),
        ("9999999999999.99", 9999999999999.99),
        ("10000000000000", None),
        ("-1e13", None),
        ("0.001", None),
        ("1e-3", None),
        ("1e999999999", None),
        ("0e-999999999", 0.0),
        ("1e9999999999", None),
        ("NaN", None),
        ("Infinity", None),
        ("1_000", None),
        ("\u0661", None),
        (" 1", None),
        ("", None),
        ("1.", None),
        ("+1", None),
    ],
)
def test_decimal_texts(text, number):
    """Two places: what JSON could write as a number, with zeros anywhere, below 1e13."""
    assert decimal_of(text, 2) == number
    assert str(decimal_of(text, 2)) != "-0.0"


def test_special_decimals_are_none():
    """Neither NaN nor an infinity, as Arrow's or Python's objects have them."""
    assert [decimal_number(Decimal(text), 2) for text in ("NaN", "sNaN", "Infinity", "-Infinity")] == [None] * 4
    assert largest_decimal(2) == 10**13
