"""The AsyncAPI document says what the code does: its examples go through the real codecs, its words are theirs."""

import base64
import dataclasses
import io
import re
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import yaml
from msgspec import NODEFAULT

from connectors.base import ARROW_STREAM, JSON, REGISTERED, RETAINED, UNKNOWN_SCHEMA, Deliveries, Delivery
from connectors.events import ANSWER_ID, CLOUD_EVENT, AnswerIds
from connectors.kafka.reply_headers import (
    content_type,
    dead_letter,
    is_event,
    kept_headers,
    reply_headers,
    reply_topic,
)
from oracle.accounting import ledger
from oracle.codec.arrow.messages import ArrowQueries
from oracle.codec.batches import BatchCodec
from oracle.codec.events import EventCodec
from oracle.codec.guarded import GuardedCodec
from oracle.codec.json.public import Several
from oracle.codec.json.truths import Truth, TruthCodec
from oracle.codec.kinds import codec_of
from oracle.codec.registered.frames import frame_start
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.attributes import Attribute
from oracle.planning.ensemble.model import MISSING
from oracle.planning.features import Feature
from oracle.planning.kinds import KINDS
from oracle.predictors.base import Answers, phase_started
from tests.codec.registered.writing import WRITER, codec_of_avro
from tests.predictors.examples import example as example_plan
from tests.predictors.plans import feature, tiny_bisection_plan, tiny_classical_plan, tiny_ensemble_plan, tiny_plan
from tests.support.distributions import distribution_plan
from tests.support.shards import arrow_body
from tests.support.tables import share_answers, sparse_plan, statistics_plan

_FILE = Path(__file__).resolve().parents[3] / "deploy" / "asyncapi.yaml"
_DOCUMENT = yaml.safe_load(_FILE.read_text())
_MESSAGES = _DOCUMENT["components"]["messages"]
_SCHEMAS = _DOCUMENT["components"]["schemas"]
_PLAN = msgspec.structs.replace(tiny_plan([feature("visib"), feature("wind")]), name="vfr")
_ON_NO_BUS = {ledger.ScoreReleased, ledger.StartChecked}  # of trials, which no daemon runs: in a file of its own
_KINDS = {kind.__struct_config__.tag: kind for kind in set(get_args(ledger.LedgerEvent)) - _ON_NO_BUS}


def _examples(message):
    """Return a message's examples by name."""
    return {example["name"]: example for example in _MESSAGES[message]["examples"]}


def _headers(example):
    return [(name, value.encode()) for name, value in example["headers"].items()]


def _decoded(body, kind=JSON, passed=None):
    codec = GuardedCodec(codec_of(_PLAN))
    return codec, codec.decode(Deliveries.of([Delivery(1, body, kind)]), {} if passed is None else {1: passed})


def _reply(body, kind=JSON, *, label=-1, first_round=0, passed=None):
    """Return the reply to one message whose rows all get this label, or which takes no round for a reason of ours."""
    codec, batch = _decoded(body, kind, passed)
    rows = len(batch.features)
    labels = np.where(batch.present, label, -1).astype(np.int8)
    phases = np.ones(rows, dtype=np.int64)
    answers = Answers(labels=labels, first_round=first_round, phases=phases, tag=np.zeros(2, np.uint64), events=())
    return next(codec.encode(batch, answers).rows())


def test_every_message_has_an_example_and_a_channel():
    """No message of the document is without an example, a payload and a place; no channel has unknown messages."""
    placed = set()
    for channel in _DOCUMENT["channels"].values():
        for name, target in channel["messages"].items():
            assert target == {"$ref": f"#/components/messages/{name}"}
            placed.add(name)
    assert placed == set(_MESSAGES)
    for message in _MESSAGES.values():
        assert message["examples"]
        assert "payload" in message


def test_true_labels_are_read():
    """Both examples; and all that is read is in the schema."""
    read = [TruthCodec(_PLAN).truth(msgspec.json.encode(one["payload"])) for one in _examples("TrueLabel").values()]
    assert read == [Truth(b'"a1"', 17, 1), Truth(b"2", 18, 0)]
    assert set(_SCHEMAS["trueLabel"]["properties"]) == {"id", "round", "label", "model"}


def test_queries_in_their_three_forms_are_one_query():
    """All three JSON examples are decoded to the same features, and give their ids back."""
    found = {}
    examples = _examples("JsonQuery")
    del examples["category-and-missing-value"]
    for name, example in examples.items():
        assert content_type(_headers(example)) == JSON
        _, batch = _decoded(msgspec.json.encode(example["payload"]))
        assert batch.features.tolist() == [[7.5, 12.0]]
        found[name] = batch.parts[0]
    assert found == {"by-position": "a1", "by-name-in-x": 2, "by-name": "a3"}


def test_a_category_is_a_text_and_null_is_missing():
    """The example is a query of an ensemble, and of no other model."""
    body = msgspec.json.encode(_examples("JsonQuery")["category-and-missing-value"]["payload"])
    features = (Feature(name="origin", categories=("JFK", "EWR")), Feature(name="wind"))
    batch = BatchCodec(tiny_ensemble_plan(features)).decode(Deliveries.of([Delivery(1, body, JSON)]))
    assert batch.features.tolist() == [[1.0, MISSING]]
    assert isinstance(_decoded(body)[1].parts[0], Rejection)


def test_no_query_is_a_round():
    """A record without a value is a round with no query."""
    (example,) = _examples("NoQuery").values()
    _, batch = _decoded(example["payload"])
    assert batch.present.tolist() == [False]


def test_arrow_queries_and_their_answers():
    """The example of answers is, byte for byte, the codec's reply to the example of queries."""
    (asked,) = _examples("ArrowQueries").values()
    (answered,) = _examples("ArrowAnswers").values()
    body = base64.b64decode(asked["payload"])
    assert content_type(_headers(asked)) == ARROW_STREAM
    _, batch = _decoded(body, ARROW_STREAM)
    assert isinstance(batch.parts[0], ArrowQueries)
    assert batch.features.tolist() == [[7.5, 12.0], [0.0, 0.0]]
    assert batch.present.tolist() == [True, False]
    reply = _reply(body, ARROW_STREAM, label=1, first_round=17)
    with pa.ipc.open_stream(io.BytesIO(base64.b64decode(answered["payload"]))) as reader:
        table = reader.read_all()
    with pa.ipc.open_stream(io.BytesIO(reply.body)) as reader:
        assert reader.read_all().equals(table, check_metadata=True)
    assert table["label"].to_pylist() == [1, -1, -1]
    assert table["error"].to_pylist() == [None, None, "not-finite"]
    assert _headers(answered) == reply_headers(reply.content_type, reply.headers)


def test_an_event_and_its_answer():
    """The example of an answer in an envelope is, field by field, the reply to the example of a query in one."""
    (asked,) = _examples("CloudEvent").values()
    (answered,) = _examples("CloudEventAnswer").values()
    assert content_type(_headers(asked)) == CLOUD_EVENT
    codec = EventCodec(codec_of(_PLAN), _PLAN)
    own = answered["payload"]["id"].encode()
    delivery = Delivery(1, msgspec.json.encode(asked["payload"]), CLOUD_EVENT, ((ANSWER_ID, own),))
    batch = codec.decode(Deliveries.of([delivery]))
    one = np.ones(1, dtype=np.int64)
    answers = Answers(one.astype(np.int8), 17, one, np.zeros(2, np.uint64), ())
    (reply,) = codec.encode(batch, answers).rows()
    assert (msgspec.json.decode(reply.body), reply.content_type) == (answered["payload"], CLOUD_EVENT)
    given = set(_SCHEMAS["cloudEvent"]["properties"]) - {"specversion", "id", "source", "type", "datacontenttype"}
    whole = asked["payload"] | dict.fromkeys(given - {"data", "data_base64"}, "v")
    (reply,) = codec.encode(
        codec.decode(Deliveries.of([delivery._replace(body=msgspec.json.encode(whole))])), answers
    ).rows()
    assert set(msgspec.json.decode(reply.body)) == set(_SCHEMAS["cloudEventAnswer"]["properties"]) - {"data_base64"}


def test_a_round_that_an_ensemble_rested_in_has_an_error():
    """The example is what the codec writes."""
    payload = _examples("JsonAnswer")["resting"]["payload"]
    codec = BatchCodec(msgspec.structs.replace(tiny_ensemble_plan([feature("visib")]), name="vfr"))
    batch = codec.decode(Deliveries.of([Delivery(1, msgspec.json.encode({"id": payload["id"], "x": [1]}), JSON)]))
    rows = np.zeros(1, np.int8), payload["round"], np.ones(1, np.int64), np.zeros(2, np.uint64), ()
    (reply,) = codec.encode(batch, Answers(*rows, verified=np.zeros(1, np.bool_))).rows()
    assert msgspec.json.decode(reply.body) == payload
    assert {*_SCHEMAS["jsonAnswer"]["required"], "error"} == payload.keys()


@pytest.mark.parametrize("name", [name for name in _examples("JsonAnswer") if name != "resting"])
def test_answers_are_what_the_codec_writes(name):
    """Each example of an answer is what the codec writes for its id, label and round."""
    payload = _examples("JsonAnswer")[name]["payload"]
    body = None if payload["label"] is None else msgspec.json.encode({"id": payload["id"], "x": [7.5, 12.0]})
    label = -1 if payload["label"] is None else payload["label"]
    reply = _reply(body, label=label, first_round=payload["round"])
    assert msgspec.json.decode(reply.body) == payload
    assert {*_SCHEMAS["jsonAnswer"]["required"], "label"} == payload.keys()


@pytest.mark.parametrize("name", _examples("JsonValue"))
def test_values_are_what_the_codec_writes(name):
    """Each example of an answer that is a number is what the codec writes; its text has one length, as null has."""
    payload = _examples("JsonValue")[name]["payload"]
    codec = BatchCodec(msgspec.structs.replace(tiny_bisection_plan(50, 50), name="mix"))
    body = None if payload["value"] is None else msgspec.json.encode({"id": payload["id"], "x": [0.5, 0.25]})
    batch = codec.decode(Deliveries.of([Delivery(1, body, JSON)]))
    value = np.nan if payload["value"] is None else payload["value"]
    answers = Answers(
        labels=np.zeros(1, np.int8),
        first_round=payload["round"],
        phases=np.ones(1, np.int64),
        tag=np.zeros(2, np.uint64),
        events=(),
        values=np.array([value]),
    )
    (reply,) = codec.encode(batch, answers).rows()
    assert msgspec.json.decode(reply.body) == payload
    assert set(_SCHEMAS["jsonValue"]["required"]) == payload.keys()
    assert len(reply.body.split(b'"value":')[1].split(b',"model"')[0]) == 24


_TABLE = (
    Attribute(name="carrier", categories=("AA", "UA")),
    Attribute(name="hour", bounds=(0.0, 24.0), bins=24),
    Attribute(name="origin", categories=("EWR", "JFK")),
)
_TABLES = {"s": statistics_plan(_TABLE, name="s"), "v": sparse_plan(_TABLE, name="v")}


@pytest.mark.parametrize("name", _examples("JsonQuestion"))
def test_questions_are_read(name):
    """Each example of a question is one, and gives its id back."""
    payload = _examples("JsonQuestion")[name]["payload"]
    codec = codec_of(_TABLES["v" if "above" in payload else "s"])
    batch = codec.decode(Deliveries.of([Delivery(1, msgspec.json.encode(payload), JSON)]))
    (part,) = batch.parts
    assert (part.id if isinstance(part, Several) else part) == payload["id"]
    assert len(batch.features) == (4 if "by" in payload else 1)
    assert payload.keys() <= set(_SCHEMAS["jsonQuestion"]["properties"])


@pytest.mark.parametrize("message", ["JsonShare", "JsonThreshold"])
def test_answers_about_tables_are_what_the_codec_writes(message):
    """Each example is what the codec writes, in its order, for a question with its id."""
    for example in _examples(message).values():
        payload = example["payload"]
        cells = payload.get("values", [payload])
        question = {"id": payload["id"], "where": {}} | ({"above": 0.05} if payload["model"] == "v" else {})
        if "values" in payload:
            asked = {"by": ["origin"]} if payload["model"] == "s" else {"by": ["hour"], "where": {"hour": [0, 3]}}
            question |= asked
        codec = codec_of(_TABLES[payload["model"]])
        body = None if payload["id"] is None else msgspec.json.encode(question)
        answers = share_answers(
            [np.nan if cell.get("value") is None else cell["value"] for cell in cells],
            paid=[payload["paid"]] * len(cells),
            verified=[cell.get("verified", cell.get("error") != "budget-spent") for cell in cells],
            labels=[-1 if body is None else int(cell.get("above") or 0) for cell in cells],
            first_round=payload["round"],
        )
        (reply,) = codec.encode(codec.decode(Deliveries.of([Delivery(1, body, JSON)])), answers).rows()
        assert reply.body == msgspec.json.encode(payload)
        schema = _SCHEMAS[message[0].lower() + message[1:]]
        assert set(schema["required"]) <= payload.keys() <= set(schema["properties"])


_PLACES = distribution_plan()


@pytest.mark.parametrize("name", _examples("JsonDistribution"))
def test_questions_about_a_distribution_are_read(name):
    """Each example of a question is one, and gives its id back."""
    payload = _examples("JsonDistribution")[name]["payload"]
    batch = codec_of(_PLACES).decode(Deliveries.of([Delivery(1, msgspec.json.encode(payload), JSON)]))
    (part,) = batch.parts
    (asked,) = [payload[key] for key in ("at", "quantile") if key in payload]
    assert (part.id if isinstance(part, Several) else part) == payload["id"]
    assert len(batch.features) == (len(asked) if isinstance(asked, list) else 1)


@pytest.mark.parametrize("name", _examples("JsonQuantile"))
def test_answers_about_a_distribution_are_what_the_codec_writes(name):
    """Each example is what the codec writes, in its order, for a question with its id."""
    payload = _examples("JsonQuantile")[name]["payload"]
    items = payload.get("values", [payload])
    asked = [{"quantile": 0.5} if "quantile" in item else {"at": 1.0} for item in items]
    ((field, value),) = asked[0].items()
    question = {"id": payload["id"], field: [value] * len(items) if "values" in payload else value}
    body = None if payload["id"] is None else msgspec.json.encode(question)
    answers = share_answers(
        [np.nan if item["value"] is None else item["value"] for item in items],
        paid=[payload["paid"]] * len(items),
        verified=[item["verified"] for item in items],
        first_round=payload["round"],
    )
    found = np.array([[item.get("quantile", 0.0)] for item in items])
    codec = codec_of(_PLACES)
    batch = codec.decode(Deliveries.of([Delivery(1, body, JSON)]))
    (reply,) = codec.encode(batch, dataclasses.replace(answers, found=found)).rows()
    assert reply.body == msgspec.json.encode(payload)
    schema = _SCHEMAS["jsonQuantile"]
    assert set(schema["required"]) <= payload.keys() <= set(schema["properties"])


_REJECTED = {
    Reason.OVERSIZED: b" " * 65_537,
    Reason.NOT_UTF8: b'{"id":"\xff"}',
    Reason.MALFORMED: b"{",
    Reason.WRONG_TYPE: b'{"id":"a4","visib":"7.5","wind":12}',
    Reason.MISSING_FEATURE: b'{"id":"a4","visib":7.5}',
    Reason.UNKNOWN_FEATURE: b'{"id":"a4","x":{"visib":7.5,"wind":12,"rain":0}}',
    Reason.WRONG_DIMENSION: b'{"id":"a4","x":[7.5]}',
    Reason.NOT_FINITE: b'{"id":"a4","x":[7.5,1e999]}',
    Reason.BAD_ID: b'{"id":1.5,"x":[7.5,12]}',
    Reason.TOO_MANY_ROWS: arrow_body(pa.table({name: np.zeros(131_073, np.int8) for name in ("visib", "wind")})),
    Reason.UNSUPPORTED_CONTENT: b'{"id":"a4","x":[7.5,12]}',
    Reason.RETAINED: b'{"id":"a4","x":[7.5,12]}',
    Reason.INTERNAL: b'{"id":"a4","x":[7.5,12]}',
    Reason.SKIPPED: b'{"id":"a4","x":[7.5,12]}',
    Reason.OUTSIDE_DOMAIN: b'{"id":"a4","where":{"hour":[6.5,9]}}',
}
_SCHEMA_KIND = {Reason.UNKNOWN_SCHEMA: UNKNOWN_SCHEMA, Reason.UNFIT_SCHEMA: REGISTERED}
_KIND_OF = {Reason.TOO_MANY_ROWS: ARROW_STREAM, Reason.UNSUPPORTED_CONTENT: "text/plain", Reason.RETAINED: RETAINED}


@pytest.mark.parametrize("reason", _SCHEMA_KIND)
def test_errors_of_schemas_are_what_the_codec_writes(reason):
    """The fields of a reply in Avro or Protobuf are those of the example."""
    query = Delivery(1, frame_start(WRITER) + bytes(8), _SCHEMA_KIND[reason])
    (part,) = codec_of_avro(_PLAN, '"double"').decode(Deliveries.of([query])).parts
    assert isinstance(part, Rejection)
    told = {"id": None, "error": part.reason, "field": part.field, "bound": part.bound, "model": _PLAN.name}
    assert _examples("ErrorAnswer")[reason]["payload"] == told


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason not in _SCHEMA_KIND])
def test_error_answers_are_what_the_codec_writes(reason):
    """There is an example of every reason, and it is what the codec writes for such a message."""
    example = _examples("ErrorAnswer")[reason]
    passed = reason if reason in {Reason.INTERNAL, Reason.SKIPPED} else None
    if reason is Reason.OUTSIDE_DOMAIN:
        codec = codec_of(_TABLES["s"])
        batch = codec.decode(Deliveries.of([Delivery(1, _REJECTED[reason])]))
        (reply,) = codec.encode(batch, share_answers([])).rows()
    else:
        reply = _reply(_REJECTED[reason], _KIND_OF.get(reason, JSON), passed=passed)
    assert reply.rejected is not None
    assert reply.rejected.reason == reason
    assert msgspec.json.decode(reply.body) == example["payload"]
    assert set(_SCHEMAS["errorAnswer"]["required"]) == example["payload"].keys()


def test_reasons_are_those_of_the_code():
    """The document's vocabulary of rejections is the code's, in its order, and each has one example."""
    assert _SCHEMAS["reason"]["enum"] == [str(reason) for reason in Reason]
    assert list(_examples("ErrorAnswer")) == [str(reason) for reason in Reason]


@pytest.mark.parametrize("bodies", [False, True])
@pytest.mark.parametrize(
    ("message", "schema", "reason", "more"),
    [
        ("DeadLetter", "deadLetter", Reason.MALFORMED, {}),
        ("Undelivered", "undelivered", "undelivered", {"reply_topic": "vfr.replies-a"}),
    ],
)
def test_dead_letters_are_what_the_connector_writes(message, schema, reason, more, bodies):
    """Notes on rejected messages and on answers that were given up, with the message and without."""
    example = _examples(message)["with-the-body" if bodies else "note"]
    note = dead_letter(reason, ("vfr.queries", 0, 41), b"{", bodies=bodies, **more)
    assert msgspec.json.decode(note) == example["payload"]
    assert set(_SCHEMAS[schema]["properties"]) == {*_SCHEMAS[schema]["required"], "body"}


def test_ledger_kinds_are_those_of_the_code():
    """Every kind of ledger event on a bus has a message with a schema of exactly its fields, and no other has."""
    channel = _DOCUMENT["channels"]["ledger"]["messages"]
    assert {_MESSAGES[name]["title"] for name in channel} == set(_KINDS)
    for name in channel:
        kind = _KINDS[_MESSAGES[name]["title"]]
        fields = msgspec.structs.fields(kind)
        needed = [field.name for field in fields if field.default is NODEFAULT]
        assert name == kind.__name__
        assert _SCHEMAS[name]["required"] == ["kind", *needed]
        assert list(_SCHEMAS[name]["properties"]) == ["kind", *(field.name for field in fields)]
        assert _SCHEMAS[name]["properties"]["kind"] == {"const": _MESSAGES[name]["title"]}


@pytest.mark.parametrize("kind", sorted(_KINDS))
def test_ledger_examples_are_events(kind):
    """The example of each kind is decoded to an event of that kind, and encoded to itself."""
    payload = _examples(_KINDS[kind].__name__)[kind]["payload"]
    event = ledger.decode(msgspec.json.encode(payload))
    assert type(event) is _KINDS[kind]
    assert msgspec.json.decode(ledger.encode(event)) == payload


@pytest.mark.parametrize(
    ("name", "plan", "phase"),
    [
        ("queries-not-protected", tiny_bisection_plan(100_000, 562_949_953_421_312), 2),
        ("all-released", tiny_classical_plan([feature("visib")], rounds=9_007_199_254_740_992), 1),
    ],
)
def test_phases_of_other_kinds_are_told_so(name, plan, phase):
    """The examples of phases whose queries are not protected, or cost nothing, are what such a plan's ledger has."""
    payload = _examples("PhaseStarted")[name]["payload"]
    event = phase_started(msgspec.structs.replace(plan, epsilon=payload["epsilon"]), phase)
    event = msgspec.structs.replace(event, delta_spent=round(event.delta_spent, 12))
    assert msgspec.json.decode(ledger.encode(event)) == payload


def test_every_kind_answers_as_the_document_says():
    """Each kind of predictor is named where the document says whether its answers are labels or numbers."""
    labels, numbers = _DOCUMENT["info"]["description"].split("Answers are labels ")[1].split("numbers", 1)
    words = {"rectangles": "boxes"}
    tables = {plan.predictor: plan for plan in _TABLES.values()}
    for predictor in KINDS:
        plan = tables[predictor] if predictor in tables else example_plan(predictor)
        place = numbers if plan.answers == "value" else labels
        assert words.get(predictor, predictor) in place.split(".")[0]


def test_headers_are_those_of_the_connector():
    """What the document says comes back does, what it does not say does not, and a reply topic is honoured."""
    kept = _SCHEMAS["keptHeaders"]["properties"]
    asked = [(name, b"v") for name in (*kept, "ce_id", "ce_anything", "other", "x-own")]
    written = [name for name, _ in reply_headers(JSON, kept_headers(asked))]
    assert written == ["content-type", *kept, "ce_id", "ce_anything"]
    own = _SCHEMAS["queryHeaders"]["allOf"][1]["properties"]
    assert set(own) == {"content-type", "reply-topic", "kafka_replyTopic"}
    for name in ("reply-topic", "kafka_replyTopic"):
        headers = kept_headers([(name, b"team")])
        assert reply_topic(headers, {"team"}, "answers") == "team"
        assert reply_headers(JSON, headers) == [("content-type", b"application/json")]
    many = [(f"ce_{number}", b"") for number in range(1000)]
    assert kept_headers([("other", b"v"), *many]) == tuple(many[:256])  # a flood of them takes no memory
    types = _SCHEMAS["answerHeaders"]["allOf"][1]["properties"]["content-type"]["enum"]
    assert types == [JSON, ARROW_STREAM, CLOUD_EVENT]


def test_the_answer_to_an_event_is_the_documents():
    """The examples of an event and of its answer are what the connector makes, with the attributes that are named."""
    (asked,) = [example for example in _examples("JsonQuery").values() if "ce_id" in example["headers"]]
    (answered,) = [example for example in _examples("JsonAnswer").values() if "ce_id" in example["headers"]]
    kept = kept_headers(_headers(asked))
    assert is_event(kept)
    own = answered["headers"]["ce_id"].encode()
    assert reply_headers(JSON, (*kept, (ANSWER_ID, own)), _PLAN.name) == _headers(answered)
    named = _SCHEMAS["answerHeaders"]["allOf"][1]["properties"]
    assert set(named) == set(answered["headers"])
    assert all(re.fullmatch(named["ce_id"]["pattern"], AnswerIds(b"s", "q", 0).of(n).decode()) for n in range(9))
