"""Categories and missing values in JSON and in Arrow: the same values are the same query, and nothing else is one."""

import json

import pyarrow as pa
import pytest

from connectors.base import ARROW_STREAM, Deliveries, Delivery
from oracle.codec.arrow.messages import ArrowCodec, ArrowQueries
from oracle.codec.batches import BatchCodec
from oracle.codec.json.messages import JsonCodec
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.ensemble.model import MISSING
from oracle.planning.features import Feature
from oracle.planning.serving import least_bytes
from tests.predictors.plans import feature, tiny_ensemble_plan, tiny_plan
from tests.support.shards import arrow_body

_FEATURES = (Feature(name="n"), Feature(name="c", categories=("EWR", "JFK", "é")), Feature(name="m"))
_PLAN = tiny_ensemble_plan(_FEATURES)
_JSON, _ARROW = JsonCodec(_PLAN), ArrowCodec(_PLAN)
_LEAST = "a finite float64 above -1.7976931348623157e+308, which stands for null"

_CELLS = [("EWR", 0.0), ("JFK", 1.0), ("é", 2.0), ("ewr", 3.0), ("LGA", 3.0), ("", MISSING), (None, MISSING)]


def _body(values):
    return json.dumps({"id": 7, "x": values}).encode()


def _forms(values):
    """Return the three forms of a JSON query."""
    named = dict(zip(("n", "c", "m"), values, strict=True))
    return [_body(values), _body(named), json.dumps({"id": 7} | named).encode()]


@pytest.mark.parametrize(("given_text", "number"), _CELLS)
def test_a_text_is_its_place_among_the_categories(given_text, number):
    """Any other text is the one behind them, and none, or one of no characters, is missing; in all forms."""
    for body in _forms([0.5, given_text, 2]):
        assert _JSON.decode(body) == (7, [0.5, number, 2.0])
    decoded = _ARROW.decode(arrow_body(pa.table({"n": [0.5], "c": pa.array([given_text], pa.string()), "m": [2]})))
    assert isinstance(decoded, ArrowQueries)
    assert decoded.features.tolist() == [[0.5, number, 2.0]]
    assert decoded.present.all()
    assert not decoded.rejected.any()


def test_a_text_of_no_characters_may_be_a_category():
    """Then it is that one, and only null is missing."""
    plan = tiny_ensemble_plan([Feature(name="n"), Feature(name="c", categories=("a", ""))])
    assert JsonCodec(plan).decode(_body([1.0, ""])) == (7, [1.0, 1.0])
    rows = ArrowCodec(plan).decode(arrow_body(pa.table({"n": [1.0, 1.0], "c": ["", None]})))
    assert isinstance(rows, ArrowQueries)
    assert rows.features.tolist() == [[1.0, 1.0], [1.0, MISSING]]


def test_any_value_may_be_null():
    """In JSON a query of nulls only is a query; in Arrow it is a round with none, as it is for every model."""
    for body in _forms([None, None, None]):
        assert _JSON.decode(body) == (7, [MISSING] * 3)
    columns = {"n": [None, 1.0], "c": pa.array([None, None], pa.large_string()), "m": [None, None]}
    columns = {name: pa.array(column, pa.float64()) if name != "c" else column for name, column in columns.items()}
    decoded = _ARROW.decode(arrow_body(pa.table(columns)))
    assert isinstance(decoded, ArrowQueries)
    assert decoded.present.tolist() == [False, True]
    assert decoded.features.tolist() == [[0.0, 0.0, 0.0], [1.0, MISSING, MISSING]]
    assert not decoded.rejected.any()


@pytest.mark.parametrize(
    ("body", "rejection"),
    [
        (_body([1, 7, 2]), Rejection(Reason.WRONG_TYPE, "x[1]", "a text, or null")),
        (_body([1, True, 2]), Rejection(Reason.WRONG_TYPE, "x[1]", "a text, or null")),
        (_body([1, ["EWR"], 2]), Rejection(Reason.WRONG_TYPE, "x[1]", "a text, or null")),
        (_body(["1", "EWR", 2]), Rejection(Reason.WRONG_TYPE, "x[0]", "a number, or null")),
        (_body([MISSING, "EWR", 2]), Rejection(Reason.NOT_FINITE, "x[0]", _LEAST)),
        (b'{"x":[1e400,"EWR",2]}', Rejection(Reason.NOT_FINITE, "x[0]", "a finite float64")),
        (_body({"n": 1, "m": 2}), Rejection(Reason.MISSING_FEATURE, "x.c", "a text, or null")),
        (b'{"n":1,"c":"EWR"}', Rejection(Reason.MISSING_FEATURE, "m", "a number, or null, at the top level or in x")),
        (b'{"x":null}', Rejection(Reason.WRONG_TYPE, "x", "numbers, as array or object")),
        (b'{"x":[1,"EWR",2],"c":5}', Rejection(Reason.WRONG_TYPE, "c", "a text, or null")),
        (b'{"x":[1,"EWR",NaN]}', Rejection(Reason.NOT_FINITE, "body", "JSON, which has no NaN and no Infinity")),
    ],
)
def test_what_is_no_value_is_refused(body, rejection):
    """By its field and what would be one; also in the middle of many good ones, which are answered."""
    assert _JSON.decode(body) == rejection
    good = _body([1.0, "JFK", None])
    batch = BatchCodec(_PLAN).decode(Deliveries.of([Delivery(i, body if i == 20 else good) for i in range(40)]))
    assert batch.parts[20] == rejection
    assert batch.features.tolist() == [[1.0, 1.0, MISSING]] * 39


def test_other_models_take_no_null():
    """What was refused of them before is refused still."""
    codec = JsonCodec(tiny_plan([feature("a"), feature("b")]))
    assert codec.decode(_body([1, None])) == Rejection(Reason.WRONG_TYPE, "x[1]", "a number")
    rows = ArrowCodec(tiny_plan([feature("a"), feature("b")])).decode(
        arrow_body(pa.table({"a": [1.0], "b": pa.nulls(1, pa.float64())}))
    )
    assert isinstance(rows, ArrowQueries)
    assert rows.rejected.tolist() == [2]


@pytest.mark.parametrize("value", [MISSING, float("inf"), float("nan")])
def test_a_number_in_arrow_must_be_one(value):
    """Also what stands for a missing one is refused: the row, and no other."""
    table = pa.table({"n": [value, 1.0, None], "c": ["EWR", "JFK", "EWR"], "m": [1.0, 2.0, 3.0]})
    decoded = _ARROW.decode(arrow_body(table))
    assert isinstance(decoded, ArrowQueries)
    assert decoded.rejected.tolist() == [1, 0, 0]


@pytest.mark.parametrize("column", [pa.array([1]), pa.array([b"EWR"]), pa.array([1]).dictionary_encode()])
def test_categories_in_arrow_are_strings(column):
    """Columns of other types are refused."""
    rejection = _ARROW.decode(arrow_body(pa.table({"n": [1.0], "c": column, "m": [1.0]})))
    assert rejection == Rejection(Reason.WRONG_TYPE, "c", "one column of strings or booleans")


def test_categories_in_arrow_come_as_any_writer_has_them():
    """As strings of any kind, behind dictionaries, as booleans, which are texts too, and as nothing but nulls."""
    texts = ["EWR", None, "nowhere", "true"]
    plain = _decoded(pa.array(texts))
    for kind in (pa.large_string(), pa.string_view()):
        assert _decoded(pa.array(texts, kind)) == plain
        encoded = pa.DictionaryArray.from_arrays(pa.array([0, None, 2, 1]), pa.array(["EWR", "true", "nowhere"], kind))
        assert _decoded(encoded) == plain
    assert _decoded(pa.array([True, None, False])) == _decoded(pa.array(["true", None, "false"]))
    assert _decoded(pa.nulls(3)) == _decoded(pa.array([None] * 3, pa.string()))


def _decoded(column):
    rows = [1.0] * len(column)
    found = _ARROW.decode(arrow_body(pa.table({"n": rows, "c": column, "m": rows})))
    assert isinstance(found, ArrowQueries)
    assert not found.rejected.any()
    return found.features.tolist()


def test_runs_of_good_queries_are_read_together():
    """Not one by one: that would take several times as long."""
    for form in range(3):
        texts = [_forms([0.5, "JFK", None])[form], _forms([None, "?", 3])[form]] * 20
        batch = BatchCodec(_PLAN).decode(Deliveries.of([Delivery(i, text) for i, text in enumerate(texts)]))
        assert batch.plain
        assert batch.features.tolist() == [[0.5, 1.0, MISSING], [MISSING, 3.0, 3.0]] * 20


def test_arrow_messages_read_together_are_those_read_alone():
    """Nulls and unknown texts in some of them move no other row."""
    tables = [
        pa.table({"n": [1.0, None], "c": ["EWR", "x"], "m": [1.0, 2.0]}),
        pa.table({"n": pa.nulls(2, pa.float64()), "c": pa.nulls(2, pa.string()), "m": pa.array([None, 2.0])}),
        pa.table({"n": [3.0], "c": [""], "m": [4.0]}),
    ]
    codec = BatchCodec(_PLAN)
    together = codec.decode(
        Deliveries.of([Delivery(i, arrow_body(table), ARROW_STREAM) for i, table in enumerate(tables)])
    )
    alone = [codec.decode(Deliveries.of([Delivery(0, arrow_body(table), ARROW_STREAM)])) for table in tables]
    assert together.features.tolist() == [row for batch in alone for row in batch.features.tolist()]
    assert together.present.tolist() == [True, True, False, True, True]


def test_a_category_takes_four_bytes_of_a_message_at_least():
    """So the memory that a message's rows take is bounded by its length, as for strings."""
    assert least_bytes(_PLAN) == 1 + 4 + 1
