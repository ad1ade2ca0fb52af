"""Where answers, error answers, dead letters and ledger events go on a real broker, and what goes with them."""

import asyncio
import base64
import re

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from connectors.base import ARROW_STREAM
from connectors.kafka.source import KafkaSource
from oracle.accounting.ledger import PhaseStarted, ShardStarted, ShardStopped, SideRearmed, decode
from oracle.codec.rejections import Reason
from oracle.errors import RefusedError
from tests.support.kafka_here import serve_here
from tests.support.kafka_records import batch, produce, record, sealed
from tests.support.shards import arrow_body, bodies
from tests.support.waiting import TIMEOUT, eventually

_ID = b"a correlation id \0\xff"


def serve_until(model, config, *counts):
    """Serve until topics hold so many records each: pairs of a topic and a count."""
    return serve_here(config, lambda _log: all(len(model.read(topic)) >= count for topic, count in counts))


@pytest.fixture
def team(model):
    """A reply topic that is in the allow-list, and one that is not; the configuration."""
    for name in ("team", "other"):
        model.broker.create_topic(f"{model.name}.{name}", 1, {"max.message.bytes": "20000000"})
    return f"{model.name}.team", f"{model.name}.other"


def allowing(model, topic, more=""):
    """Return a configuration with this topic in the allow-list."""
    return model.config(sink=f'reply_topics = ["{topic}"]\n{more}')


def test_answers_go_where_the_allow_list_lets_them(model, team):
    """An allowed topic gets the answers that ask for it; other names, however written, lead to the answer topic."""
    allowed, other = team
    elsewhere = [
        [("reply-topic", other.encode())],
        [("reply-topic", model.queries.encode())],
        [("reply-topic", f"{model.name}.ledger".encode())],
        [("reply-topic", b"__consumer_offsets")],
        [("reply-topic", b"a-topic-that-nobody-made")],
        [("reply-topic", b"")],
        [("reply-topic", b"\xff\xfe")],
        [("reply-topic", allowed.encode("utf-16"))],
        [("reply-topic", allowed.encode() + b"\0")],
        [("reply-topic", allowed.upper().encode())],
        [("reply-topic", None)],
        [("Reply-Topic", allowed.encode())],
        [("reply-topic", other.encode()), ("reply-topic", allowed.encode())],
        [("content-type", None)],
        [("correlation-id", None), ("ce_id", None)],
    ]
    for headers in elsewhere:
        model.ask(bodies(1), headers=headers)
    wanted = [[("reply-topic", allowed.encode())], [("kafka_replyTopic", allowed.encode()), ("reply-topic", b"x")]]
    for headers in wanted:
        model.ask(bodies(1), headers=headers)
    before = _topics(model)
    serve_until(model, allowing(model, allowed), (model.answers, len(elsewhere)), (allowed, len(wanted)))
    assert [answer.body["round"] for answer in model.read()] == list(range(len(elsewhere)))
    assert [answer.body["round"] for answer in model.read(allowed)] == [15, 16]
    assert model.read(other) == []
    assert len(model.read(model.queries)) == len(elsewhere) + len(wanted)
    assert _topics(model) == before


def _topics(model):
    """All but those of tests that run beside this one."""
    return {name for name in model.broker.topics() if name.startswith(model.name) or not name.startswith("test-")}


def test_key_and_headers_come_back_and_the_content_type_is_set(model):
    """Key, correlation id and headers that are no event's come back byte for byte, the rest stays, of errors too."""
    kept = [("ce_a", b"7"), ("correlation-id", _ID), ("ce_source", b"/s"), ("ce_a", b"8"), ("traceparent", b"00-x")]
    asked = [("x-own", b"1"), *kept, ("content-type", b"Application/JSON; charset=utf-8"), ("reply-topic", b"no")]
    key = b"k\0\xff"
    model.ask([bodies(1)[0], b"{", None], headers=[*asked, ("answer-id", b"forged")], key=key)
    model.ask([bodies(1)[0]])
    serve_until(model, model.config(), (model.answers, 4))
    *full, bare = model.read()
    for answer in full:
        assert answer.headers == (("content-type", b"application/json"), *kept)
        assert answer.key == key
    assert (bare.headers, bare.key) == ((("content-type", b"application/json"),), None)
    assert full[1].body["error"] == "malformed"
    assert full[2].body["label"] is None


def test_answers_to_events_are_events_of_their_own(model):
    """Each has an id of its own, also where queries have one id, and names its query."""
    event = {
        "specversion": "1.0",
        "id": "q-é",
        "source": "/asker",
        "type": "com.example.query",
        "time": "2026-01-01T00:00:00Z",
    }
    more = {"correlationid": "c7", "subject": "flight 5", "tenant": "t"}
    asked = [(f"ce_{name}", value.encode()) for name, value in (event | more).items()]
    model.ask([*bodies(2), b"{"], headers=[*asked, ("correlation-id", _ID)])
    serve_until(model, model.config(), (model.answers, 3))
    answers = model.read()
    ids = [dict(answer.headers)["ce_id"] for answer in answers]
    assert len({*ids, event["id"].encode()}) == 4
    for answer, own in zip(answers, ids, strict=True):
        assert re.fullmatch(rb"[0-9a-f]{32}", own)
        made = {
            "specversion": "1.0",
            "id": own.decode(),
            "source": f"/perpetua/{model.plan.name}",
            "type": "perpetua.answer",
        }
        made |= {"causationid": event["id"]} | more
        assert dict(answer.headers) == {
            "content-type": b"application/json",
            "correlation-id": _ID,
            **{f"ce_{name}": value.encode() for name, value in made.items()},
        }
    assert answers[2].body["error"] == "malformed"


def test_events_in_structured_mode(model):
    """An envelope as the record's value: answered by one as value, no attribute in its headers; malformed ones too."""
    query = {"x": [0.5, 0.5]}
    event = {"specversion": "1.0", "id": "7", "source": "/asker", "type": "t", "correlationid": "c", "data": query}
    arrow = arrow_body(pa.table({"a": [0.5, 0.25], "b": [0.5, 0.25], "id": [1, 2]}))
    packed = {"data": None, "data_base64": base64.b64encode(arrow).decode(), "datacontenttype": ARROW_STREAM}
    events = [event, {name: value for name, value in (event | packed).items() if value}, {**event, "id": ""}]
    kind = ("content-type", b"Application/CloudEvents+JSON; charset=utf-8")
    model.ask(map(msgspec.json.encode, events), headers=[kind, ("ce_id", b"no"), ("correlation-id", _ID)], key=b"k")
    serve_until(model, model.config(), (model.answers, 3))
    answers = model.read()
    for answer in answers:
        assert answer.headers == (("content-type", b"application/cloudevents+json"), ("correlation-id", _ID))
        assert (answer.key, answer.body["type"], answer.body["correlationid"]) == (b"k", "perpetua.answer", "c")
    assert len({answer.body["id"] for answer in answers} | {"7"}) == 4
    first, rows, refused = (answer.body for answer in answers)
    assert (first["causationid"], first["data"]["round"], rows["causationid"]) == ("7", 0, "7")
    with pa.ipc.open_stream(base64.b64decode(rows["data_base64"])) as reader:
        assert reader.read_all()["round"].to_pylist() == [1, 2]
    assert refused["data"]["field"] == "id"
    (note,) = model.read(f"{model.name}.dead")
    assert (note.body["reason"], note.body["size"]) == ("malformed", len(msgspec.json.encode(events[2])))


_REJECTED = {
    Reason.OVERSIZED: b'{"x":[1,2],"pad":"' + b"p" * 65_536 + b'"}',
    Reason.NOT_UTF8: b'{"x":[1,2],"n":"\xff"}',
    Reason.MALFORMED: b"{",
    Reason.WRONG_TYPE: b'{"x":["1",2]}',
    Reason.MISSING_FEATURE: b'{"a":1}',
    Reason.UNKNOWN_FEATURE: b'{"x":{"a":1,"b":2,"c":3}}',
    Reason.WRONG_DIMENSION: b'{"x":[1]}',
    Reason.NOT_FINITE: b'{"x":[1,NaN]}',
    Reason.BAD_ID: b'{"id":1.5,"x":[1,2]}',
}


@pytest.mark.parametrize("with_bodies", [False, True])
def test_rejections_are_told_to_the_asker_and_to_the_dead_letters(model, team, with_bodies):
    """An error answer goes where the answer would; a note with reason, place and size to the dead letters.

    The message and its key, which may be private, go there only if the configuration says so.
    """
    allowed, _ = team
    dead = f"{model.name}.dead"
    if with_bodies:
        model.broker.configure_topic(dead, {"max.message.bytes": "2000000"})
    model.ask(_REJECTED.values(), headers=[("reply-topic", allowed.encode())], key=b"private key")
    model.ask(bodies(1))
    config = allowing(model, allowed, f"dead_letter_bodies = {str(with_bodies).lower()}")
    serve_until(model, config, (allowed, len(_REJECTED)), (model.answers, 1))
    assert [answer.body["error"] for answer in model.read(allowed)] == [str(reason) for reason in _REJECTED]
    assert [answer.body["round"] for answer in model.read()] == [0]
    letters = model.read(dead)
    for offset, ((reason, body), letter) in enumerate(zip(_REJECTED.items(), letters, strict=True)):
        note = {"reason": str(reason), "topic": model.queries, "partition": 0, "offset": offset, "size": len(body)}
        assert letter.body == (note | {"body": base64.b64encode(body).decode()} if with_bodies else note)
        assert letter.key == (b"private key" if with_bodies else None)
        assert letter.headers == (("content-type", b"application/json"),)


def test_reply_topic_that_does_not_exist_is_refused_at_the_start(model):
    """An allow-list with a topic that nobody made: a clear refusal, and nobody makes it by accident."""
    missing = f"{model.name}.missing"
    with pytest.raises(RefusedError, match=rf"topic {missing}: does not exist; create it"):
        serve_here(allowing(model, missing), lambda _log: False)
    assert missing not in model.broker.topics()


def test_topics_that_would_stop_a_shard_later_are_refused_at_the_start(model):
    """Queries that may unpack to large ones."""
    model.broker.configure_topic(model.queries, {"compression.type": "producer"})
    with pytest.raises(RefusedError, match=r"queries: compression\.type = producer: must be uncompressed"):
        serve_here(model.config(), lambda _log: False)


def _write_raw(model, batches):
    """Give batches to the broker, and return how many it takes; their old times must not have them deleted."""
    model.broker.configure_topic(model.queries, {"retention.ms": "-1"})
    return asyncio.run(produce(model.broker.servers, model.queries, batches)).count(0)


def test_header_names_that_are_no_utf8_do_not_stop_a_shard(model):
    """A record that the client cannot read by itself is answered like its neighbours."""
    first, middle, last = bodies(3)
    model.ask([first])
    headers = [(b"ce_id", b"1"), (b"\xff\xfe\xfd", b"v"), (b"ce_\xff", b"w")]
    assert _write_raw(model, [batch([record(0, middle, headers=headers)])]) == 1
    model.ask([last])
    serve_until(model, model.config(), (model.answers, 3))
    found = model.read()
    assert [answer.value for answer in found] == model.expected([first, middle, last])
    assert [name for name, _ in found[1].headers if name.startswith("ce_\ufffd")] == []
    assert dict(found[1].headers)["ce_causationid"] == b"1"


def test_records_that_only_a_broker_can_read_do_not_stop_a_shard(model):
    """Attributes above 127, numbers with more bits than count, and false offsets: each is answered in its turn."""
    contents = bodies(20)
    (first, *hostile, last) = contents
    model.ask([first])
    values = iter(hostile)
    batches = [
        *(batch([record(0, next(values), attributes=attributes)]) for attributes in (1, 0x80, 0xFF)),
        *(batch([record(0, next(values), size=5, beyond=beyond)]) for beyond in (0, 1, 7)),
        *(batch([record(delta, next(values))]) for delta in (-1, 1, 2**31 - 1, -(2**31))),
        batch([record(1, next(values)), record(0, next(values)), record(0, next(values))]),
        batch([record(0, next(values)), record(5, next(values), key=b"\xff")]),
        *(batch([record(0, next(values))], time=time) for time in (-1, -2, -(2**62))),
    ]
    assert list(values) == []
    assert _write_raw(model, batches) == len(batches)
    model.ask([last])
    serve_until(model, model.config(), (model.answers, len(contents)))
    assert [answer.value for answer in model.read()] == model.expected(contents)


def _mutants(count):
    """Return batches of three records with a few bytes of theirs changed, and the checksum that goes with them."""
    random = np.random.default_rng(5)
    headers = [(b"ce_a", b"1"), (b"n\xc3\xa9", None)]
    valid = batch([record(index, b"v" * index, key=b"k", headers=headers, time=index) for index in range(3)])
    begin = len(batch([]))
    for _ in range(count):
        data = bytearray(valid)
        for start in random.integers(begin, len(data), random.integers(1, 4)):
            values = [data[start] ^ 1 << int(random.integers(8)), random.integers(256), 0x80, 0xFF, data[start] ^ 0x80]
            data[start] = values[random.integers(len(values))]
        yield sealed(data)


async def _offsets(model, count):
    """Return the offsets of so many records, as a shard's consumer reads them, and of what comes behind."""
    source, found = KafkaSource(model.settings, 0), list[int]()
    await source.open(None)
    try:
        while (part := await source.fetch(1000, 1.0)) or len(found) < count:
            found += [position - 1 for position in part.positions]
        return found
    finally:
        await source.close()


def test_whatever_a_broker_takes_is_read(model):
    """Of batches with a few bytes changed, those that the broker takes are read, every record at its offset."""
    taken = _write_raw(model, _mutants(400))
    assert 100 < taken < 300
    assert asyncio.run(_offsets(model, 3 * taken)) == list(range(3 * taken))


def _write(model, topic, key, value):
    producer = Producer({"bootstrap.servers": model.broker.servers})
    producer.produce(topic, value, key=key)
    assert producer.flush(TIMEOUT) == 0


def _compacted(model, topic):
    """Close the topic's segment and return its records once the cleaner has seen them."""
    model.broker.configure_topic(
        topic, {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.0", "max.compaction.lag.ms": "100"}
    )
    _write(model, topic, b"marker", b"first")

    def cleaned():
        _write(model, topic, b"marker", b"later")  # closes the segment when it has grown old
        return all(record.value != b"first" for record in model.read(topic))

    eventually(cleaned)
    return [record for record in model.read(topic) if record.key != b"marker"]


def test_ledger_tells_every_event_and_survives_compaction(model):
    """Starts, stops, phases and re-arms each have a key of their own; two runs without a query between them too."""
    ledger = f"{model.name}.ledger"
    contents = bodies(700)
    config = model.config()
    serve_until(model, config, (ledger, 1))
    serve_until(model, config, (ledger, 3))
    model.ask(contents)
    serve_until(model, config, (model.answers, len(contents)))
    written = model.read(ledger)
    events = [decode(record.value) for record in written]
    assert [type(event) for event in events].count(ShardStarted) == 3
    assert [type(event) for event in events].count(ShardStopped) == 3
    phases = [event for event in events if isinstance(event, PhaseStarted)]
    assert [event.phase for event in phases] == list(range(1, len(phases) + 1))
    assert len(phases) > 1
    assert any(isinstance(event, SideRearmed) for event in events)
    assert isinstance(events[0], ShardStarted)
    assert isinstance(events[-1], ShardStopped)
    assert (events[-1].round, events[-1].phase) == (len(contents), phases[-1].phase)
    assert events[-1].delta_spent > phases[-1].delta_spent > 0
    assert all(record.key is not None for record in written)
    assert len({record.key for record in written}) == len(written)
    about = {"content-type": b"application/json", "model": model.plan.name.encode(), "partition": b"0"}
    assert all(dict(record.headers) == about for record in written)
    assert [record.value for record in _compacted(model, ledger)] == [record.value for record in written]
    assert all(msgspec.json.decode(record.value)["kind"] for record in written)
