"""Protobuf: messages of any .proto file that fits the model, as Protobuf's own compiler and runtime write them."""

import base64
import json

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from connectors.base import PROTOBUF, REGISTERED, UNKNOWN_SCHEMA, Deliveries, Delivery
from oracle.codec.json.messages import RESTING, JsonCodec
from oracle.codec.registered.frames import frame_of, frame_start
from oracle.codec.registered.proto_schemas import proto_answer, proto_query
from oracle.codec.registered.protobuf import ProtobufAnswers
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.ensemble.model import MISSING
from oracle.planning.features import Feature
from oracle.predictors.base import NO_LABEL
from tests.codec.registered.writing import ANSWERS, WRITER, codec_of_protobuf, compiled, decoded
from tests.predictors.examples import example
from tests.predictors.plans import feature, tiny_ensemble_plan, tiny_plan
from tests.support.printed import printed
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
_START = frame_start(WRITER, (0,))


def _asked(plan, text, payload, path=(0,)):
    """Return what one message comes to: its id and numbers, or its rejection."""
    body = frame_start(WRITER, path) + payload
    batch = decoded(codec_of_protobuf(plan, text), [body])
    (part,) = batch.parts
    return part if isinstance(part, Rejection) else (part, batch.features[0].tolist())


def test_a_query_of_the_models_own_file_is_what_it_is_in_json(tmp_path):
    """Numbers, texts, dates and decimals become the same numbers in both."""
    query = compiled(proto_query(_ORDERED), tmp_path, "Query")
    row = query(id="q", a=0.5, name="Zoë", day="2024-02-29", price="12.30")
    in_json = json.dumps({"id": "q", "x": [0.5, "Zoë", "2024-02-29", "12.30"]}).encode()
    expected = JsonCodec(_ORDERED).decode(in_json)
    assert not isinstance(expected, Rejection)
    assert _asked(_ORDERED, proto_query(_ORDERED), row.SerializeToString()) == (expected[0], list(expected[1]))


def test_a_field_that_is_not_there_is_missing(tmp_path):
    """Where values may be missing; elsewhere the message is rejected, and the field named."""
    text = proto_query(_MIXED)
    query = compiled(text, tmp_path, "Query")
    fields = {"dep_time": 0.0, "from": "JFK"}
    assert _asked(_MIXED, text, query(id_number=-3, **fields).SerializeToString()) == (-3, [0.0, 1.0, MISSING])
    part = _asked(small_plan(), proto_query(small_plan()), b"")
    assert isinstance(part, Rejection)
    assert (part.reason, part.field) == (Reason.MISSING_FEATURE, "a")


_OTHER = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
package shop; // of somebody else
option java_package = "org.shop;}"; /* a { brace */
message Envelope {
  map<string, int32> counts = 1;
  message Row {
    string id = 9;
    sint64 b = 2;
    float a = 0x1 [deprecated = true, json_name = "A"];
    repeated string tags = 3;
    google.protobuf.Timestamp when = 4;
    enum Kind { NONE = 0; }
    Kind kind = 5;
    oneof choice { bool yes = 6; }
    reserved 20 to 30;
    reserved "old", 'older';
    option deprecated = true;
  }
  Row row = 2;
}
"""


@pytest.mark.parametrize("described", [False, True], ids=["text", "descriptor"])
def test_a_writers_file_may_be_any_that_has_the_fields(tmp_path, described):
    """Nested, of other numbers and types, with more of them; what is not there is zero if nothing says otherwise."""
    row = compiled(_OTHER, tmp_path, "Envelope.Row")
    text = _OTHER
    if described:
        file = FileDescriptorProto()
        row.DESCRIPTOR.file.CopyToProto(file)
        text = base64.standard_b64encode(file.SerializeToString()).decode()
    payload = row(id="r", a=0.5, b=-4, tags=["x", "y"], kind=0, yes=True).SerializeToString()
    assert _asked(small_plan(), text, payload, (0, 1)) == ("r", [0.5, -4.0])
    assert _asked(small_plan(), text, b"", (0, 1)) == (None, [0.0, 0.0])
    for path in [(0, 0), (1,), (0, 2), (0, 1, 0), (-1,)]:
        part = _asked(small_plan(), text, payload, path)
        assert isinstance(part, Rejection)
        assert (part.reason, part.field) == (Reason.MALFORMED, "body")


def _of(fields):
    return f'syntax = "proto3"; message Q {{ {fields} }}'


_UNFIT = [
    (_of("double a = 1;"), "b"),
    (_of("double a = 1; string b = 2;"), "b"),
    (_of("double a = 1; repeated double b = 2;"), "b"),
    (_of("bool a = 1; double b = 2;"), "a"),
    (_of("double a = 1; double b = 1;"), "schema"),
    (_of("double a = 0; double b = 2;"), "schema"),
    (_of("double a = 99999999999999999999; double b = 2;"), "schema"),
    (_of("double a = ; double b = 2;"), "schema"),
    (_of("double a = 1 double b = 2;"), "schema"),
    (_of("double a = 1; double b = 2") + "{", "schema"),
    (_of("double a = 1; double b = 2; } }"), "schema"),
    ("message {", "schema"),
    ("message A {" * 2000, "schema"),
    ("x" * 70_000, "schema"),
    (" " * 60_000 + "message", "schema"),
    ("A" * 70_000, "schema"),
    ("AAAA", "schema"),
    ('{"type": "record"}', "schema"),
    ("", "schema"),
]


@pytest.mark.parametrize(("text", "field"), _UNFIT)
def test_a_schema_that_does_not_fit_is_refused(text, field, capfd):
    """Its messages are rejected whatever they are, and the field is named; nothing is printed about it."""
    part = _asked(small_plan(), text, bytes(9))
    assert isinstance(part, Rejection)
    assert (part.reason, part.field) == (Reason.UNFIT_SCHEMA, field)
    assert printed(capfd) == ("", "")


_A, _B = b"\x59" + bytes(6) + b"\xe0\x3f", b"\x61" + bytes(6) + b"\xd0\x3f"
_GOOD = _START + b"\x0a\x01g" + _A + _B
_REJECTED = [
    (b"", Reason.MALFORMED, "body"),
    (b"\0\0\0\0\7", Reason.MALFORMED, "body"),
    (b"\0\0\0\0\7\xff\xff\xff\xff\xff\xff", Reason.MALFORMED, "body"),
    (b"\0\0\0\0\7\x7f", Reason.MALFORMED, "body"),
    (b"\0\0\0\0\7\x02\x04" + _GOOD[6:], Reason.MALFORMED, "body"),
    (_GOOD[:-1], Reason.MALFORMED, "body"),
    (_GOOD + b"\x0b" * 500, Reason.MALFORMED, "body"),
    (_START + b"\x0a\x01\xff" + _A + _B, Reason.MALFORMED, "body"),
    (_START + b"\x0a\xff\xff\xff\xff\x07" + _A + _B, Reason.MALFORMED, "body"),
    (_START + b"\x0a\xac\x02" + b"x" * 300 + _A + _B, Reason.BAD_ID, "id"),
    (_START + _A + b"\x61" + bytes(6) + b"\xf8\x7f", Reason.NOT_FINITE, "b"),
    (_START + _A, Reason.MISSING_FEATURE, "b"),
    (_START + b"\x58\x01" + _B, Reason.MISSING_FEATURE, "a"),
]


@pytest.mark.parametrize(("body", "reason", "field"), _REJECTED)
def test_what_is_no_query_is_rejected_alone(body, reason, field):
    """Whatever stands beside it stays a query."""
    codec = codec_of_protobuf(small_plan(), proto_query(small_plan()))
    batch = decoded(codec, [_GOOD, body, _GOOD, None])
    first, part, third, tombstone = batch.parts
    assert (first, third, tombstone) == ("g", "g", None)
    assert isinstance(part, Rejection)
    assert (part.reason, part.field) == (reason, field)
    assert batch.features.tolist() == [[0.5, 0.25], [0.5, 0.25], [0.0, 0.0]]
    assert batch.present.tolist() == [True, True, False]


def _told(body, answer, plan):
    frame = frame_of(body, PROTOBUF)
    assert frame is not None
    assert (frame.schema, frame.path) == (ANSWERS, (0,))
    found = {field.name: value for field, value in answer.FromString(frame.payload).ListFields()}
    assert found.pop("model") == plan.name
    return {name: value for name, value in found.items() if name != "padding"}


@pytest.mark.parametrize("labels", [("no", "yes, " * 20, "é" * 31), (0, 1), (5, 300, 70_000), ("a", 7)])
def test_all_labels_take_as_many_bytes(tmp_path, labels):
    """So nobody who sees lengths only learns an answer; also where there is none."""
    plan = tiny_ensemble_plan(_MIXED.features, classes=labels)
    answer = compiled(proto_answer(plan), tmp_path, "Answer")
    outcomes = [*range(len(labels)), NO_LABEL]
    bodies = ProtobufAnswers(plan, ANSWERS).answers(["i"] * len(outcomes), outcomes, 3, [1] * len(outcomes))
    told = labels if all(isinstance(label, int) for label in labels) else tuple(map(str, labels))
    assert [_told(body, answer, plan).get("label") for body in bodies] == [*told, None]
    assert len(set(map(len, bodies))) == 1


def test_values_take_as_many_bytes_as_none(tmp_path):
    """The answers of averages, and a round without a query."""
    plan = example("bisection")
    answer = compiled(proto_answer(plan), tmp_path, "Answer")
    bodies = ProtobufAnswers(plan, ANSWERS).answers([1, 2], [0.125, float("nan")], 2**40, [1, 1])
    assert [_told(body, answer, plan).get("value") for body in bodies] == [0.125, None]
    assert len(bodies[0]) == len(bodies[1])


def test_rejections_and_rests_say_why(tmp_path):
    """A round that rested has no label and an error, which is public."""
    plan = small_plan()
    answer = compiled(proto_answer(plan), tmp_path, "Answer")
    (rested,) = ProtobufAnswers(plan, ANSWERS).answers(["r"], [RESTING], 5, [2])
    assert _told(rested, answer, plan) == {"id": "r", "round": 5, "phase": 2, "error": "resting"}
    codec = codec_of_protobuf(plan, proto_query(plan))
    given = [(_START + b"\x10\x07" + _A, REGISTERED), (_GOOD, UNKNOWN_SCHEMA)]
    batch = codec.decode(Deliveries.of(Delivery(place, *one) for place, one in enumerate(given, 1)))
    refused = [part for part in batch.parts if isinstance(part, Rejection)]
    missing, unknown = (_told(codec._answers.rejection(None, part), answer, plan) for part in refused)
    assert missing == {"error": "missing-feature", "field": "b", "bound": "a number"}
    assert unknown["error"] == "unknown-schema"
