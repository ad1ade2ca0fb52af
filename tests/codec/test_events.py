"""CloudEvents in structured mode: what is in them is answered as it is without envelopes, by events of their own."""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from connectors.base import ARROW_STREAM, JSON, Deliveries, Delivery
from connectors.events import ANSWER_ID, CLOUD_EVENT, AnswerIds
from oracle.codec.cuts import Cuts
from oracle.codec.events import EventCodec
from oracle.codec.guarded import GuardedCodec
from oracle.codec.kinds import codec_of
from oracle.codec.rejections import Reason
from tests.support.shards import arrow_body, new_shard, process, same_state, small_plan, state_of

_ARROW = arrow_body(pa.table({"a": [0.5, 0.25, None], "b": [0.25, 0.5, None], "id": ["x", "y", "z"]}))
_BATCH = "application/cloudevents-batch+json"
_IDS = AnswerIds(b"s", "q")


def _event(**attributes: object) -> bytes:
    whole = {"specversion": "1.0", "id": "e1", "source": "/asker", "type": "com.example.query"} | attributes
    return msgspec.json.encode({name: value for name, value in whole.items() if value is not None})


def _delivery(body: bytes | None, kind: str = CLOUD_EVENT, position: int = 1) -> Delivery:
    headers = (("correlation-id", b"c"), (ANSWER_ID, _IDS.of(position)))
    return Delivery(position, body, kind, headers, b"key")


def _told(*bodies: bytes) -> list[dict[str, Any]]:
    """Return the answers of a new shard; each is checked to be an event of its own."""
    outcome = process(new_shard(), [_delivery(body, position=place) for place, body in enumerate(bodies, 1)])
    told = []
    for place, reply in enumerate(outcome.commit.replies.rows(), 1):
        event = msgspec.json.decode(reply.body)
        assert (reply.content_type, reply.headers, reply.key) == (CLOUD_EVENT, (("correlation-id", b"c"),), b"key")
        own = {
            "specversion": "1.0",
            "id": _IDS.of(place).decode(),
            "source": "/perpetua/tiny",
            "type": "perpetua.answer",
        }
        assert {name: event.pop(name) for name in own} == own
        told.append(event)
    return told


def test_data_is_answered_as_without_an_envelope():
    """JSON as it is, or in base64; and Arrow, whose answer is Arrow in base64: the same answers and the same state."""
    query = {"id": "q", "x": [0.5, 0.25]}
    body = msgspec.json.encode(query)
    plain, packed = new_shard(), new_shard()
    kinds = [JSON, JSON, JSON, ARROW_STREAM]
    bodies = [body, body, body, _ARROW]
    wanted = process(
        plain, [Delivery(n, one, kind) for n, (one, kind) in enumerate(zip(bodies, kinds, strict=True), 1)]
    )
    arrow = base64.b64encode(_ARROW).decode()
    events = [
        _event(data=query),
        _event(data=query, datacontenttype="Application/JSON; charset=utf-8"),
        _event(data_base64=base64.b64encode(body).decode()),
        _event(data_base64=arrow, datacontenttype=ARROW_STREAM),
    ]
    found = process(packed, [_delivery(one, position=number) for number, one in enumerate(events, 1)])
    for reply, kind, expected in zip(found.commit.replies.rows(), kinds, wanted.commit.replies.bodies, strict=True):
        event = msgspec.json.decode(reply.body, type=dict[str, msgspec.Raw])
        assert msgspec.json.decode(event["datacontenttype"]) == kind
        data = base64.b64decode(event["data_base64"]) if kind == ARROW_STREAM else bytes(event["data"])
        assert data == expected
    assert found.rounds == wanted.rounds == 6
    assert same_state(state_of(packed), state_of(plain))


def test_an_answer_names_its_query_and_gives_back_what_is_the_askers():
    """Correlation and tracing come back as they were, times and schemas do not."""
    more = {
        "subject": "flight 5",
        "correlationid": "c\u0000\u00e9",
        "partitionkey": "k",
        "traceparent": "00-1",
        "tracestate": "a=b",
    }
    (told,) = _told(
        _event(data={"x": [1, 2]}, time="2026-01-01T00:00:00Z", dataschema="/s", other=1, causationid="e0", **more)
    )
    assert told.pop("data")["label"] in {0, 1}
    assert told == {"causationid": "e1", "datacontenttype": JSON} | more


_GOOD: Mapping[str, object] = {"x": [0.5, 0.5]}
_MALFORMED = [
    (b"", "malformed", "body"),
    (b"[]", "malformed", "body"),
    (b"null", "malformed", "body"),
    (b'{"x":[1,2]}', "malformed", "body"),
    (_event(data=_GOOD)[:-1], "malformed", "body"),
    (b"[" * 65 + b"]" * 65, "malformed", "body"),
    (_event(data=_GOOD, deep=msgspec.Raw(b"[" * 64 + b"]" * 64)), "malformed", "body"),
    (b"[" * 40_000, "malformed", "body"),
    (_event(data=_GOOD, other=msgspec.Raw(b'"\xff"')), "not-utf8", "body"),
    (_event(data=_GOOD, id=None), "malformed", "body"),
    (_event(data=_GOOD, id=""), "malformed", "id"),
    (_event(data=_GOOD, id=7), "malformed", "id"),
    (_event(data=_GOOD, source=None), "malformed", "body"),
    (_event(data=_GOOD, type=None), "malformed", "body"),
    (_event(data=_GOOD, specversion=None), "malformed", "body"),
    (_event(data=_GOOD, specversion="0.3"), "malformed", "specversion"),
    (_event(data=_GOOD, subject=[[]]), "malformed", "subject"),
    (_event(), "malformed", "data"),
    (_event(data=_GOOD, data_base64=""), "malformed", "data"),
    (_event(data_base64="?"), "malformed", "body"),
    (_event(data_base64=7), "malformed", "body"),
    (_event(data=_GOOD, datacontenttype=7), "malformed", "body"),
    (_event(data=_GOOD, datacontenttype=CLOUD_EVENT), "unsupported-content", "content type"),
    (_event(data=_GOOD, datacontenttype=_BATCH), "unsupported-content", "content type"),
    (_event(data=_GOOD, datacontenttype="text/xml"), "unsupported-content", "content type"),
    (_event(data=_GOOD, datacontenttype="refused"), "unsupported-content", "content type"),
    (_event(data={"x": [1]}), "wrong-dimension", "x"),
    (_event(data=_GOOD, pad="p" * 65_536), "oversized", "body"),
    (_event(data_base64="AAAA" * 20_000), "oversized", "body"),
    (_event(data_base64="AAAA", datacontenttype=ARROW_STREAM), "malformed", "body"),
]


@pytest.mark.parametrize(("body", "reason", "field"), _MALFORMED)
def test_what_is_no_event_or_no_query_costs_nothing(body, reason, field):
    """It is told so in an event, takes no round, and its neighbours are answered; the note has the envelope's size."""
    good = _event(data=_GOOD)
    shard = new_shard()
    outcome = process(shard, [_delivery(one, position=place) for place, one in enumerate((good, body, good), 1)])
    first, bad, last = outcome.commit.replies.rows()
    assert outcome.rounds == 2
    assert [msgspec.json.decode(one.body)["data"]["round"] for one in (first, last)] == [0, 1]
    told = msgspec.json.decode(bad.body)
    assert (told["data"]["error"], told["data"]["field"], told["type"]) == (reason, field, "perpetua.answer")
    assert bad.rejected == (Reason(reason), 2, body)


def test_a_batch_of_events_is_refused():
    """Each message has one answer, so it is one event."""
    outcome = process(new_shard(), [_delivery(b"[]", _BATCH)])
    (reply,) = outcome.commit.replies.rows()
    data = msgspec.json.decode(reply.body)
    assert reply.content_type == JSON
    assert (data["error"], data["bound"]) == ("unsupported-content", f"{CLOUD_EVENT}, one event a message")


def test_no_answer_depends_on_batches():
    """Alone, together, and as the same messages come again: byte for byte."""
    bodies = [_event(data=_GOOD, id=str(number)) for number in range(300)] + [row[0] for row in _MALFORMED]
    deliveries = [_delivery(body, position=place) for place, body in enumerate(bodies, 1)]
    together = list(process(new_shard(), deliveries).commit.replies.rows())
    one = new_shard()
    assert [row for each in deliveries for row in process(one, [each]).commit.replies.rows()] == together
    assert list(process(new_shard(), deliveries).commit.replies.rows()) == together


def test_rows_within_events_are_counted():
    """A batch ends where its rows would be too many, whatever they come in."""
    plan = small_plan()
    arrow = base64.b64encode(arrow_body(pa.table({"a": [0.5] * 100_000, "b": [0.5] * 100_000}))).decode()
    body = _event(data_base64=arrow, datacontenttype=ARROW_STREAM)
    packed = Deliveries.of([_delivery(body, position=place) for place in range(1, 9)])
    raw = Deliveries.of([_delivery(base64.b64decode(arrow), ARROW_STREAM, place) for place in range(1, 9)])
    assert Cuts(plan).leading(packed) == Cuts(plan).leading(raw) < 8


def test_a_codec_that_fails_on_one_event_answers_the_others(monkeypatch):
    """What nobody foresaw of one event is told its asker as an error of ours."""
    plan = small_plan()
    codec = EventCodec(codec_of(plan), plan)
    whole = codec.decode

    def decode(deliveries):
        if any(b"poison" in (body or b"") for body in deliveries.bodies):
            raise TypeError
        return whole(deliveries)

    monkeypatch.setattr(codec, "decode", decode)
    bodies = [_event(data=_GOOD), _event(data=_GOOD, id="poison"), _event(data=_GOOD)]
    batch = GuardedCodec(codec).decode(Deliveries.of([_delivery(one, position=n) for n, one in enumerate(bodies, 1)]))
    assert batch.rejections == [Reason.INTERNAL]
    assert len(batch.features) == 2
