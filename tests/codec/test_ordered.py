"""Strings, dates and decimals in JSON and in Arrow: the same values are the same query, and nothing else is one."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import ARROW_STREAM, JSON, Deliveries, Delivery
from oracle.codec.arrow.messages import ArrowCodec, ArrowQueries
from oracle.codec.batches import BatchCodec
from oracle.codec.json.messages import JsonCodec
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.features import Feature
from tests.predictors.plans import feature, tiny_plan
from tests.predictors.texts import read_text
from tests.support.shards import arrow_body

_FEATURES = (
    feature("n"),
    Feature(name="s", type="string", max_bytes=8),
    Feature(name="d", type="date"),
    Feature(name="p", type="decimal", places=2),
)
_PLAN = tiny_plan(_FEATURES, slicing="sequential")
_JSON, _ARROW = JsonCodec(_PLAN), ArrowCodec(_PLAN)
_GOOD = {"n": 0.5, "s": "EWR", "d": "2013-07-04", "p": "12.30"}
_NUMBERS = {"d": 15890.0, "p": 12.3}
_COLUMNS = {
    "n": pa.array([0.5]),
    "s": pa.array(["EWR"]),
    "d": pa.array([dt.date(2013, 7, 4)]),
    "p": pa.array([Decimal("12.30")], pa.decimal128(10, 2)),
}
_DATE = "a date from 0001-01-01 to 9999-12-31, as YYYY-MM-DD"
_DECIMAL = "a decimal below 1e13, with at most 2 digits after the point"
_TEXT = "a text of at most 8 bytes of UTF-8"


def _scaled(scale):
    """Return one decimal of a scale that only a crafted schema has."""
    units = pa.py_buffer((18_760).to_bytes(16, "little"))
    return pa.Array.from_buffers(pa.decimal128(30, scale), 1, [None, units])


def _no(reason, field, bound):
    return Rejection(Reason(reason), field, bound)


def _arrow(body) -> Any:
    return _ARROW.decode(body)


def _json(body) -> Any:
    return _JSON.decode(body)


def _rows(codec, *bodies, kind=JSON):
    return codec.decode(Deliveries.of([Delivery(place, body, kind) for place, body in enumerate(bodies, 1)])).features


@pytest.mark.parametrize("form", ["array", "object", "beside"])
def test_json_forms(form):
    """By position or by name, beside the id or in x: one row of numbers."""
    forms: dict[str, dict[str, Any]] = {"array": {"x": list(_GOOD.values())}, "object": {"x": _GOOD}, "beside": _GOOD}
    identifier, row = _json(json.dumps({"id": "q", **forms[form]}).encode())
    assert identifier == "q"
    assert [row[0], *row[3:]] == [0.5, 15890.0, 12.3]
    assert read_text(row[1:3]) == "EWR"
    assert len(row) == _PLAN.width == 5


def test_decimals_in_json_are_texts_or_numbers():
    """A number by its text, not by the float64 that is nearest to it: one digit too many is seen."""
    body = b'{"n":0,"s":"","d":"1970-01-01","p":%b}'
    for text in (b'"12.3"', b"12.3", b"12.30", b"1.23e1", b" 12.300 "):
        assert _json(body % text)[1][4] == 12.3
    for text in (b"12.3000000000000000001", b"12.345", b'"12.3 "', b"true", b"null", b"[12.3]", b"10000000000000"):
        assert _json(body % text) == _no("wrong-type", "p", _DECIMAL)


@pytest.mark.parametrize(
    ("name", "value", "reason", "bound"),
    [
        ("s", "123456789", "wrong-type", _TEXT),
        ("s", "\u20ac\u20ac\u20ac", "wrong-type", _TEXT),
        ("s", 5, "wrong-type", _TEXT),
        ("s", None, "wrong-type", _TEXT),
        ("d", "2013-02-29", "wrong-type", _DATE),
        ("d", "2013-07-04T00:00", "wrong-type", _DATE),
        ("d", 15890, "wrong-type", _DATE),
        ("p", "a", "wrong-type", _DECIMAL),
        ("n", "0.5", "wrong-type", "a number"),
        ("n", None, "wrong-type", "a number"),
    ],
)
def test_bad_values_in_json(name, value, reason, bound):
    """The field as the message has it, and the bound; never the value."""
    message = {**_GOOD, name: value}
    for body, field in (
        ({"x": message}, f"x.{name}"),
        ({"x": [message[each.name] for each in _FEATURES]}, f"x[{list(_GOOD).index(name)}]"),
    ):
        assert _json(json.dumps(body).encode()) == _no(reason, field, bound)
    if value is not None:
        assert _json(json.dumps(message).encode()) == _no(reason, name, bound)


@pytest.mark.parametrize("x", [list(_GOOD.values()), _GOOD])
def test_values_beside_x_are_values_too(x):
    """A value that is not asked for is checked as if it were, as the decoder does where all features are numbers."""
    assert _json(json.dumps({"x": x, "s": "JFK", "d": "2013-07-04"}).encode()) == _json(json.dumps({"x": x}).encode())
    assert _json(json.dumps({"x": x, "s": True}).encode()) == _no("wrong-type", "s", _TEXT)
    assert _json(json.dumps({"x": x, "d": "2013-02-29"}).encode()) == _no("wrong-type", "d", _DATE)
    assert _json(json.dumps({"x": x, "n": None}).encode()) == _no("wrong-type", "n", "a number")


def test_other_rejections_in_json():
    """Dimension, names and what is missing, in the words of the features' types; numbers beyond float64."""
    for message, rejection in (
        ({"x": [0.5, "EWR"]}, _no("wrong-dimension", "x", "4 values")),
        ({"n": 0.5, "s": "EWR", "p": 1}, _no("missing-feature", "d", f"{_DATE}, at the top level or in x")),
        ({"x": {"n": 0.5, "s": "EWR", "p": 1}}, _no("missing-feature", "x.d", _DATE)),
        ({"x": {**_GOOD, "y": 1}}, _no("unknown-feature", "x", "the model's features only")),
        ({"x": 5}, _no("wrong-type", "x", "numbers, as array or object")),
    ):
        assert _json(json.dumps(message).encode()) == rejection
    for number in (b"1e999", b"1" + b"0" * 400):
        decoded = _json(b'{"n":%b,"s":"","d":"1970-01-01","p":0}' % number)
        assert decoded == _no("not-finite", "n", "a finite float64")


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("s", pa.array(["EWR"], pa.large_string())),
        ("s", pa.array(["x", "EWR", "y"]).slice(1, 1)),
        ("d", pa.array([15890 * 86_400_000], pa.int64()).cast(pa.date64())),
        ("d", pa.array([1, 15890], pa.int32()).cast(pa.date32()).slice(1)),
        ("p", pa.array([Decimal("12.3")], pa.decimal128(10, 1))),
        ("p", pa.array([Decimal("12.300")], pa.decimal128(38, 3))),
        ("p", pa.array([Decimal("12.3")], pa.decimal256(50, 10))),
        ("p", pa.array([Decimal("9.99"), Decimal("12.30")], pa.decimal128(10, 2)).slice(1)),
        ("n", pa.array([0.5], pa.float32())),
    ],
)
def test_arrow_types(name, column):
    """Every type that a column may have gives the row that JSON gives."""
    decoded = _arrow(arrow_body(pa.table({**_COLUMNS, name: column})))
    assert isinstance(decoded, ArrowQueries)
    assert decoded.rejected.tolist() == [0]
    assert decoded.features.tolist() == [_json(json.dumps(_GOOD).encode())[1]]


def test_integers_are_decimals():
    """Of any width; those that a decimal may not be are no queries."""
    column = pa.array([3, -(10**13), 10**13 - 1], pa.int64())
    columns = {name: pa.concat_arrays([array] * 3) for name, array in _COLUMNS.items()}
    decoded = _arrow(arrow_body(pa.table({**columns, "p": column})))
    assert decoded.rejected.tolist() == [0, 3, 0]
    assert decoded.features[[0, 2], 4].tolist() == [3.0, 10.0**13 - 1]


@pytest.mark.parametrize(
    ("name", "column", "bound"),
    [
        ("s", pa.array([5]), "one column of strings"),
        ("s", pa.array([b"EWR"], pa.binary()), "one column of strings"),
        ("d", pa.array([15890]), "one column of dates"),
        ("d", pa.array(["2013-07-04"]), "one column of dates"),
        ("d", pa.array([0], pa.timestamp("s")), "one column of dates"),
        ("p", pa.array([12.3]), "one column of decimals or integers"),
        ("p", pa.array(["12.30"]), "one column of decimals or integers"),
        ("p", _scaled(131_074), "one column of decimals or integers"),
        ("p", _scaled(-(2**31)), "one column of decimals or integers"),
        ("n", pa.array([Decimal(1)]), "one column of numbers"),
        ("n", pa.array(["0.5"]), "one column of numbers"),
    ],
)
def test_wrong_columns_in_arrow(name, column, bound):
    """A column of another type, or one that is not there, rejects the message with the type wanted."""
    assert _arrow(arrow_body(pa.table({**_COLUMNS, name: column}))) == _no("wrong-type", name, bound)
    less = {other: array for other, array in _COLUMNS.items() if other != name}
    assert _arrow(arrow_body(pa.table(less))) == _no("missing-feature", name, bound)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("s", pa.array(["12345678", "123456789", None, "\u20ac" * 3])),
        ("d", pa.array([0, 2**31 - 1, None, -(2**31)], pa.int32()).cast(pa.date32())),
        ("p", pa.array([Decimal("0.125"), Decimal("0.12"), None, Decimal("0.001")], pa.decimal128(5, 3))),
        ("p", pa.array([Decimal("1e12"), Decimal("1e13"), None, Decimal("-1e13")], pa.decimal128(20, 2))),
        ("p", pa.array([Decimal("1e12"), Decimal("1e30"), None, Decimal("-1e30")], pa.decimal128(38, 2))),
        ("p", pa.array([Decimal(1), Decimal(2**64 + 1230), None, Decimal(-(2**64))], pa.decimal128(38, 0))),
    ],
)
def test_bad_rows_in_arrow(name, column):
    """A value that the feature does not accept makes its row no query; a null is a missing feature as for numbers."""
    columns = {other: pa.concat_arrays([array] * 4) for other, array in _COLUMNS.items()}
    decoded = _arrow(arrow_body(pa.table({**columns, name: column})))
    expected = [3, 0, 2, 3] if "0.125" in str(column) else [0, 3, 2, 3]
    assert decoded.rejected.tolist() == expected
    body = arrow_body(pa.table({**columns, name: column}))
    assert _rows(BatchCodec(_PLAN), body, kind=ARROW_STREAM).shape == (1, _PLAN.width)


def test_texts_and_dates_that_are_none():
    """Half a surrogate pair in JSON, bytes that are no UTF-8 and parts of days in Arrow are malformed."""
    assert _json(json.dumps({**_GOOD, "s": "\ud800"}).encode()).reason == "malformed"
    no_text = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 1], dtype=np.int32)), pa.py_buffer(b"\xff"))
    for name, column in (("s", no_text), ("d", pa.array([1], pa.int64()).view(pa.date64()))):
        decoded = _arrow(arrow_body(pa.table({**_COLUMNS, name: column})))
        assert decoded == _no("malformed", "body", "one Arrow IPC stream")


def test_rows_of_nulls_are_rounds_without_query():
    """All features null: no query, and no rejection."""
    nulls = {name: pa.nulls(1, array.type) for name, array in _COLUMNS.items()}
    table = pa.concat_tables([pa.table(_COLUMNS), pa.table(nulls)])
    decoded = _arrow(arrow_body(table))
    assert decoded.rejected.tolist() == [0, 0]
    assert decoded.present.tolist() == [True, False]
    assert not decoded.features[1].any()


def test_nulls_over_other_bytes_leave_nothing():
    """What a column holds beneath a null is in no row."""
    raw = pa.array([Decimal("7.77")], pa.decimal128(10, 2)).buffers()[1]
    null = pa.Array.from_buffers(pa.decimal128(10, 2), 1, [pa.py_buffer(b"\0"), raw])
    columns = {name: pa.nulls(1, array.type) for name, array in _COLUMNS.items()}
    assert not _arrow(arrow_body(pa.table({**columns, "p": null}))).features.any()


def test_short_strings_cannot_fill_the_memory():
    """A message of empty strings counts as if each were as long as it may be."""
    wide = tiny_plan((feature("n"), Feature(name="s", type="string", max_bytes=256)), slicing="sequential")
    limits = msgspec.structs.replace(wide.limits, batch_bytes=100_000)
    codec = ArrowCodec(msgspec.structs.replace(wide, limits=limits))
    most = 100_000 // (8 * wide.width)
    message = [pa.table({"n": np.zeros(rows), "s": [""] * rows}) for rows in (most, most + 1)]
    taken = codec.decode(arrow_body(message[0]))
    assert isinstance(taken, ArrowQueries)
    assert taken.features.nbytes <= 100_000
    assert codec.decode(arrow_body(message[1])) == _no("too-many-rows", "body", f"at most {most} rows")


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.tuples(
            st.text(max_size=8).filter(lambda text: len(text.encode()) <= 8),
            st.dates(),
            st.decimals(-(10**10), 10**10, places=2),
        ),
        max_size=20,
    )
)
def test_json_and_arrow_agree(rows):
    """The same values are the same numbers, whichever way they come."""
    texts, dates, decimals = ([row[part] for row in rows] for part in range(3))
    table = pa.table(
        {
            "n": pa.array([0.25] * len(rows), pa.float64()),
            "s": pa.array(texts, pa.string()),
            "d": pa.array(dates, pa.date32()),
            "p": pa.array(decimals, pa.decimal128(20, 2)),
        }
    )
    messages = [
        json.dumps({"x": [0.25, text, date.isoformat(), format(decimal, "f")]}).encode() for text, date, decimal in rows
    ]
    codec = BatchCodec(_PLAN)
    by_arrow, by_json = _rows(codec, arrow_body(table), kind=ARROW_STREAM), _rows(codec, *messages)
    assert by_arrow.shape == by_json.shape == (len(rows), _PLAN.width)
    assert np.array_equal(by_arrow, by_json)
