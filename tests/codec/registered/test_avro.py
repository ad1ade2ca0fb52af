"""Avro: any writer's schema that fits the model is read by the names of its fields, and nothing else is a query."""

import io
import json
import tracemalloc
from datetime import date
from decimal import Decimal

import fastavro
import numpy as np
import pytest

from connectors.base import AVRO, JSON, REGISTERED, UNKNOWN_SCHEMA, Deliveries, Delivery
from oracle.codec.json.messages import RESTING, JsonCodec
from oracle.codec.registered.avro import AvroAnswers
from oracle.codec.registered.avro_schemas import avro_answer, avro_query
from oracle.codec.registered.frames import frame_start
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.ensemble.model import MISSING
from oracle.planning.features import Feature
from oracle.predictors.base import NO_LABEL, Answers
from tests.codec.registered.writing import ANSWERS, WRITER, avro_body, codec_of_avro, decoded
from tests.predictors.examples import example
from tests.predictors.plans import feature, tiny_ensemble_plan, tiny_plan
from tests.support.shards import small_plan

_MIXED = tiny_ensemble_plan(
    (Feature(name="dep time"), Feature(name="from", categories=("EWR", "JFK", "é")), Feature(name="m"))
)
_ORDERED = tiny_plan(
    [
        feature("a"),
        Feature(name="name", type="string", max_bytes=12),
        Feature(name="day", type="date"),
        Feature(name="price", type="decimal", places=2),
    ]
)


def _record(*fields, name="Q"):
    return {"type": "record", "name": name, "fields": [{"name": one, "type": kind} for one, kind in fields]}


def _asked(plan, schema, row):
    """Return what one row comes to: its id and numbers, or its rejection."""
    batch = decoded(codec_of_avro(plan, json.dumps(schema)), [avro_body(schema, row)])
    (part,) = batch.parts
    return part if isinstance(part, Rejection) else (part, batch.features[0].tolist())


def test_a_query_of_the_models_own_schema_is_what_it_is_in_json():
    """Numbers, texts, dates and decimals become the same numbers in both."""
    row = {"id": "q", "a": 0.5, "name": "Zoë", "day": date(2024, 2, 29), "price": Decimal("12.30")}
    in_json = json.dumps({"id": "q", "x": [0.5, "Zoë", "2024-02-29", "12.30"]}).encode()
    expected = JsonCodec(_ORDERED).decode(in_json)
    assert not isinstance(expected, Rejection)
    assert _asked(_ORDERED, avro_query(_ORDERED), row) == (expected[0], list(expected[1]))


def test_missing_values_and_categories_are_what_they_are_in_json():
    """A null is missing; a text that is no category is the one behind them."""
    schema = avro_query(_MIXED)
    assert _asked(_MIXED, schema, {"id": 3, "dep_time": None, "from": "JFK", "m": 2.0}) == (3, [MISSING, 1.0, 2.0])
    assert _asked(_MIXED, schema, {"id": None, "dep_time": 1.5, "from": "LGA", "m": None}) == (
        None,
        [1.5, 3.0, MISSING],
    )


_A_AND_B = (("a", "double"), ("b", "double"))
_TIME = {"type": "long", "logicalType": "timestamp-millis"}
_MAP = {"type": "map", "values": "string"}
_LIST = {"type": "array", "items": {"type": "record", "name": "T", "fields": [{"name": "t", "type": "string"}]}}
_FIT = [
    (_record(("a", "int"), ("b", "float")), {"a": 3, "b": 0.25}, (None, [3.0, 0.25])),
    (
        _record(("b", ["null", "double"]), ("a", "long"), ("id", "long")),
        {"a": 2**40, "b": 1.0, "id": 5},
        (5, [2.0**40, 1.0]),
    ),
    (_record(("more", _MAP), *_A_AND_B), {"a": 1.0, "more": {"x": "y"}, "b": 2.0}, (None, [1.0, 2.0])),
    (_record(("a", _TIME), ("b", "double")), {"a": 9, "b": 2.0}, (None, [9.0, 2.0])),
    (_record(*_A_AND_B, ("tags", _LIST)), {"a": 1.0, "b": 2.0, "tags": [{"t": "x"}]}, (None, [1.0, 2.0])),
]


@pytest.mark.parametrize(("schema", "row", "expected"), _FIT)
def test_a_writers_schema_may_have_other_numbers_and_more_fields(schema, row, expected):
    """What Avro promotes to a double is one, in any order; what the model does not ask for is passed over."""
    assert _asked(small_plan(), schema, row) == expected


_UNFIT = [
    (_record(("a", "double")), "b"),
    (_record(("a", "double"), ("b", "string")), "b"),
    (_record(("a", "boolean"), ("b", "double")), "a"),
    ("double", "schema"),
    ({"type": "array", "items": "double"}, "schema"),
    (_record(("a", "double"), ("b", "double"), ("n", "null")), "schema"),
    (_record(("a", "double"), ("b", "double"), ("n", {"type": "array", "items": "null"})), "schema"),
    (_record(("a", "double"), ("b", "double"), ("f", {"type": "fixed", "name": "F", "size": 0})), "schema"),
    (_record(("a", "double"), ("b", "double"), ("next", ["null", "Q"])), "schema"),
    (_record(("a", "double"), ("b", "double"), ("c", "Nowhere")), "schema"),
    (_record(), "schema"),
]


@pytest.mark.parametrize(("schema", "field"), _UNFIT)
def test_a_schema_that_does_not_fit_or_would_do_harm_is_refused(schema, field):
    """Its messages are rejected whatever they are, and the field is named."""
    (part,) = decoded(codec_of_avro(small_plan(), json.dumps(schema)), [frame_start(WRITER) + bytes(16)]).parts
    assert isinstance(part, Rejection)
    assert (part.reason, part.field) == (Reason.UNFIT_SCHEMA, field)


def test_a_schema_that_unpacks_to_many_times_its_length_is_refused():
    """Each record has ten of the one before it: at 12 of them this would be a billion types."""
    inner = _record(("x", "int"), name="R0")
    for level in range(1, 12):
        fields = [("f0", inner), *((f"f{place}", f"R{level - 1}") for place in range(1, 10))]
        inner = _record(*fields, name=f"R{level}")
    schema = _record(("a", "double"), ("b", "double"), ("deep", inner))
    (part,) = decoded(codec_of_avro(small_plan(), json.dumps(schema)), [frame_start(WRITER) + bytes(16)]).parts
    assert isinstance(part, Rejection)
    assert part.reason is Reason.UNFIT_SCHEMA
    assert "types" in part.bound


def test_a_list_of_symbols_is_not_read_for_each_field_that_names_it():
    """A megabyte of schema would take minutes, and all of them."""
    enum = {"type": "enum", "name": "E", "symbols": [f"s{number}" for number in range(40_000)]}
    schema = _record(("a", "double"), ("b", "double"), ("c", enum), ("d", "E"))
    (part,) = decoded(codec_of_avro(small_plan(), json.dumps(schema)), [frame_start(WRITER) + bytes(18)]).parts
    assert isinstance(part, Rejection)
    assert part.reason is Reason.UNFIT_SCHEMA
    assert "symbols" in part.bound


def test_what_no_feature_takes_is_not_kept_until_others_are_read():
    """Records of one record each, deep down, are as many objects as they are deep for a byte each."""
    inner = _record(("x", "boolean"), name="R0")
    for level in range(1, 12):
        inner = _record(("f", inner), name=f"R{level}")
    schema = _record(("a", ["double", {"type": "array", "items": inner}]), ("b", "double"))
    count = 4000
    body = frame_start(WRITER) + b"\x02" + _varint(count) + bytes(count) + b"\0" + bytes(8)
    codec = codec_of_avro(small_plan(), json.dumps(schema))
    tracemalloc.start()
    batch = decoded(codec, [body] * 64)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all(isinstance(part, Rejection) and part.reason is Reason.WRONG_TYPE for part in batch.parts)
    assert peak - kept < 64 * count * 20


def _varint(number):
    found, left = b"", 2 * number
    while left > 127:
        found, left = found + bytes([left & 127 | 128]), left >> 7
    return found + bytes([left])


@pytest.mark.parametrize("schema", ["{", "[" * 100_000, '"\ud800"', "null", "7", '{"type":{"type":{"type":1}}}', ""])
def test_what_is_no_schema_fits_nothing(schema):
    """Whoever may register schemas cannot stop the daemon with one."""
    (part,) = decoded(codec_of_avro(small_plan(), schema), [frame_start(WRITER) + bytes(16)]).parts
    assert isinstance(part, Rejection)
    assert part.reason is Reason.UNFIT_SCHEMA


_OWN = avro_query(small_plan())
_GOOD = avro_body(_OWN, {"id": "g", "a": 0.5, "b": 0.25})
_REJECTED = [
    (b"", Reason.MALFORMED, "body"),
    (b"\0\0\0", Reason.MALFORMED, "body"),
    (b"\1" + _GOOD[1:], Reason.MALFORMED, "body"),
    (_GOOD[:-1], Reason.MALFORMED, "body"),
    (_GOOD + b"\0", Reason.MALFORMED, "body"),
    (_GOOD[:5] + b"\2\x02\xff" + _GOOD[-16:], Reason.MALFORMED, "body"),
    (_GOOD[:5] + b"\2\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1", Reason.MALFORMED, "body"),
    (avro_body(_OWN, {"id": "x" * 300, "a": 0.5, "b": 0.25}), Reason.BAD_ID, "id"),
    (avro_body(_OWN, {"id": "x" * 70_000, "a": 0.5, "b": 0.25}), Reason.OVERSIZED, "body"),
    (avro_body(_OWN, {"id": None, "a": float("nan"), "b": 0.25}), Reason.NOT_FINITE, "a"),
    (avro_body(_OWN, {"id": None, "a": 0.5, "b": float("-inf")}), Reason.NOT_FINITE, "b"),
]


@pytest.mark.parametrize(("body", "reason", "field"), _REJECTED)
def test_what_is_no_query_is_rejected_alone(body, reason, field):
    """Whatever stands beside it stays a query."""
    batch = decoded(codec_of_avro(small_plan(), json.dumps(_OWN)), [_GOOD, body, _GOOD, None])
    first, part, third, tombstone = batch.parts
    assert (first, third, tombstone) == ("g", "g", None)
    assert isinstance(part, Rejection)
    assert (part.reason, part.field) == (reason, field)
    assert batch.features.tolist() == [[0.5, 0.25], [0.5, 0.25], [0.0, 0.0]]
    assert batch.present.tolist() == [True, True, False]


def test_a_missing_value_where_none_may_be_names_its_field():
    """A writer's null is told from a number only when the message is read."""
    schema = _record(("a", ["null", "double"]), ("b", "double"))
    part = _asked(small_plan(), schema, {"a": None, "b": 1.0})
    assert isinstance(part, Rejection)
    assert (part.reason, part.field) == (Reason.MISSING_FEATURE, "a")


def test_decimals_keep_their_digits_and_no_more():
    """Of another scale a decimal is the same number; with more digits than the feature has it is none."""
    plan = tiny_plan([feature("a"), Feature(name="price", type="decimal", places=2)])

    def priced(scale, value):
        kind = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": scale}
        return _asked(plan, _record(("a", "double"), ("price", kind)), {"a": 1.0, "price": Decimal(value)})

    assert priced(1, "12.5") == (None, [1.0, 12.5])
    assert priced(4, "12.5000") == (None, [1.0, 12.5])
    part = priced(4, "12.5001")
    assert isinstance(part, Rejection)
    assert (part.reason, part.field) == (Reason.WRONG_TYPE, "price")


def _answers(labels):
    phases = np.ones(len(labels), dtype=np.int64)
    return Answers(np.array(labels, dtype=np.int8), 41, phases, np.zeros(2, dtype=np.uint64), [])


def _read(body, plan):
    assert body.startswith(frame_start(ANSWERS))
    stream = io.BytesIO(body[5:])
    record = fastavro.schemaless_reader(stream, fastavro.parse_schema(avro_answer(plan)), None)
    assert stream.tell() == len(body) - 5
    assert isinstance(record, dict)
    return {name: value for name, value in record.items() if value is not None and name != "padding"}


def test_answers_and_rejections_are_in_the_format_of_their_queries():
    """Beside them JSON is answered in JSON, in the order of the messages."""
    codec = codec_of_avro(small_plan(), json.dumps(_OWN))
    nan = avro_body(_OWN, {"id": "n", "a": float("nan"), "b": 0.25})
    json_body = b'{"id": "j", "x": [1, 2]}'
    given = [(_GOOD, REGISTERED), (json_body, JSON), (nan, REGISTERED), (_GOOD, UNKNOWN_SCHEMA), (None, REGISTERED)]
    deliveries = Deliveries.of(Delivery(place, body, kind) for place, (body, kind) in enumerate(given, 1))
    batch = codec.decode(deliveries)
    replies = codec.encode(batch, _answers([1, 0, NO_LABEL]))
    assert replies.content_types == [AVRO, JSON, AVRO, AVRO, AVRO]
    told = [
        json.loads(body) if kind == JSON else _read(body, small_plan())
        for body, kind in zip(replies.bodies, replies.content_types, strict=True)
    ]
    bound = "the id of a schema that the registry has"
    assert told == [
        {"id": "g", "model": "tiny", "label": 1, "round": 41, "phase": 1},
        {"id": "j", "model": "tiny", "label": 0, "round": 42, "phase": 1},
        {"id": "n", "model": "tiny", "error": "not-finite", "field": "a", "bound": "a finite float64"},
        {"model": "tiny", "error": "unknown-schema", "field": "schema", "bound": bound},
        {"model": "tiny", "round": 43, "phase": 1},
    ]
    assert [one and one.reason for one in replies.rejected] == [None, None, "not-finite", "unknown-schema", None]


@pytest.mark.parametrize("labels", [("no", "yes, " * 20, "é" * 31), (0, 1), (5, 300, 70_000), ("a", 7)])
def test_all_labels_take_as_many_bytes(labels):
    """So nobody who sees lengths only learns an answer; also where there is none."""
    plan = tiny_ensemble_plan(_MIXED.features, classes=labels)
    writer = AvroAnswers(plan, ANSWERS)
    bodies = writer.answers(["i"] * (len(labels) + 1), [*range(len(labels)), NO_LABEL], 3, [1] * (len(labels) + 1))
    told = labels if all(isinstance(label, int) for label in labels) else tuple(map(str, labels))
    assert [_read(body, plan).get("label") for body in bodies] == [*told, None]
    assert len(set(map(len, bodies))) == 1


def test_values_take_as_many_bytes_as_none():
    """The answers of averages, and a round without a query."""
    plan = example("bisection")
    assert plan.answers == "value"
    bodies = AvroAnswers(plan, ANSWERS).answers([None, 7], [0.125, float("nan")], 2**40, [1, 1])
    assert [_read(body, plan).get("value") for body in bodies] == [0.125, None]
    assert len(bodies[0]) + len(b"\2\x0e") - 1 == len(bodies[1])  # the id


def test_a_round_that_rested_says_so():
    """It has no label, and an error, which is public."""
    (body,) = AvroAnswers(small_plan(), ANSWERS).answers(["r"], [RESTING], 5, [2])
    assert _read(body, small_plan()) == {"id": "r", "model": "tiny", "round": 5, "phase": 2, "error": "resting"}


@pytest.mark.parametrize("kind", [AVRO, REGISTERED.lower(), "unknown-schema "])
def test_no_message_says_of_itself_that_its_schema_is_known(kind):
    """Only the source does, which has asked; what headers and envelopes say is read in lower case."""
    codec = codec_of_avro(small_plan(), json.dumps(_OWN))
    (part,) = codec.decode(Deliveries.of([Delivery(1, _GOOD, kind)])).parts
    assert isinstance(part, Rejection)
    assert part.reason is Reason.UNSUPPORTED_CONTENT
