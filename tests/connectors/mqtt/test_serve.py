"""The daemon on a real Mosquitto, from query to answer."""

import base64
import time

import msgspec
import pyarrow as pa
import pytest

from connectors.base import ARROW_STREAM
from tests.connectors.mqtt.conftest import ask, unique_name, wait_for
from tests.predictors.examples import example
from tests.support.arrow_types import unjoinable
from tests.support.mqtt import MqttModelUnderTest
from tests.support.shards import arrow_body, bodies
from tests.support.tables import paying_plan, questions
from tests.support.waiting import eventually


def test_queries_are_answered_in_order_as_in_one_run(served):
    """Queries of one asker are answered in their order, with the answers of a run in memory, and it stops cleanly."""
    asker = served.asker()
    contents = bodies(400)
    heard = ask(served, asker, contents)
    assert [one.body for one in heard] == served.expected(contents)
    assert served.stop(served.processes[0]) == 0
    assert "daemon.stopped" in served.events()


def test_what_an_answer_carries(served):
    """Correlation data and user properties come back as they were, the content type is JSON, the expiry is kept."""
    asker = served.asker()
    user = [("b", "1"), ("a", "\u00e9"), ("b", "")]
    asker.ask(served.queries, bodies(1)[0], correlation=b"\0\xffx", user=user, expiry=50_000)
    asker.ask(served.queries, bodies(1)[0])
    full, plain = wait_for(served, asker, 2)
    assert (full.correlation, full.user, full.content_type) == (b"\0\xffx", tuple(user), "application/json")
    assert full.expiry in range(40_000, 50_001)
    assert (plain.correlation, plain.user, plain.expiry) == (None, (), None)
    assert not full.retained


def test_answers_to_events_are_events_of_their_own(served):
    """In binary mode attributes are user properties; each answer has an id of its own, and names its query."""
    asker = served.asker()
    event = [("specversion", "1.0"), ("id", "7"), ("source", "/asker"), ("type", "t"), ("time", "2026-01-01T00:00:00Z")]
    for body in bodies(2):
        asker.ask(served.queries, body, user=[*event, ("correlationid", "c"), ("b", "")])
    answers = wait_for(served, asker, 2)
    ids = {dict(answer.user)["id"] for answer in answers}
    assert len(ids) == 2
    for answer in answers:
        assert dict(answer.user)["id"] in ids - {"7"}
        made = [("specversion", "1.0"), ("id", dict(answer.user)["id"]), ("source", f"/perpetua/{served.plan.name}")]
        causes = [("type", "perpetua.answer"), ("causationid", "7"), ("correlationid", "c"), ("b", "")]
        assert answer.user == (*made, *causes)


def test_events_in_structured_mode(served):
    """An envelope as payload is answered by one, at its response topic, under its correlation data; batches are not."""
    asker = served.asker()
    event = {"specversion": "1.0", "id": "7", "source": "/asker", "type": "t", "data": {"x": [0.5, 0.5]}}
    for number, kind in enumerate(("application/cloudevents+json", "application/cloudevents-batch+json")):
        asker.ask(served.queries, msgspec.json.encode(event), content_type=kind, correlation=b"c%d" % number)
    answer, refused = wait_for(served, asker, 2)
    assert (answer.content_type, answer.correlation) == ("application/cloudevents+json", b"c0")
    told = msgspec.json.decode(answer.body)
    assert (told["causationid"], told["source"]) == ("7", f"/perpetua/{served.plan.name}")
    assert (told["data"]["round"], told["id"] != "7") == (0, True)
    assert msgspec.json.decode(refused.body)["error"] == "unsupported-content"


def test_response_topics_are_honoured_under_the_allow_list_only(served):
    """A topic that a filter matches gets the answer; any other, and the model's own topics, are passed over."""
    allowed = f"{served.name}/replies/a/b"
    others = [
        f"{served.name}/elsewhere",
        served.queries,
        f"{served.name}/ledger",
        f"{served.name}/status",
        f"{served.name}/dead",
        "$SYS/x",
    ]
    asker = served.asker(f"{served.name}/#")
    for reply in [allowed, *others]:
        asker.ask(served.queries, bodies(1)[0], reply=reply, correlation=reply.encode())
    eventually(lambda: len(asker.on(served.answers)) >= len(others) and asker.on(allowed), what=served.log)
    assert [one.correlation for one in asker.on(allowed)] == [allowed.encode()]
    assert [one.correlation for one in asker.on(served.answers)] == [other.encode() for other in others]
    assert not asker.on(others[0])


def test_arrow_messages_are_answered_as_such(served):
    """The content type picks the codec; upper case and parameters do not matter."""
    asker = served.asker()
    table = pa.table({"id": ["p", "q"], "a": [0.5, 0.1], "b": [0.5, 0.2]})
    asker.ask(served.queries, arrow_body(table), content_type=ARROW_STREAM.upper() + "; x=1")
    asker.ask(served.queries, b"x", content_type="text/plain")
    answer, rejection = wait_for(served, asker, 2)
    assert answer.content_type == ARROW_STREAM
    rows = pa.ipc.open_stream(answer.body).read_all()
    assert rows["id"].to_pylist() == ["p", "q"]
    assert set(rows["label"].to_pylist()) <= {0, 1}
    assert (rejection.json["error"], rejection.content_type) == ("unsupported-content", "application/json")


def test_columns_of_any_type_do_not_stop_the_daemon(served):
    """Each is told what is wrong with it, also after a restart, and what comes behind them is answered."""
    asker = served.asker()
    hostile, good = [*unjoinable().values()] * 2, bodies(30)
    for body in hostile:
        asker.ask(served.queries, body, content_type=ARROW_STREAM)
    ask(served, asker, good[:20], 20 + len(hostile))
    assert served.stop(served.processes[0]) == 0
    for body in hostile:
        asker.ask(served.queries, body, content_type=ARROW_STREAM)
    for body in good[20:]:
        asker.ask(served.queries, body)
    served.serve(served.config())
    heard = wait_for(served, asker, 30 + 2 * len(hostile))
    rejected = [one.json for one in heard if b'"error"' in one.body]
    assert [one.body for one in heard if b'"error"' not in one.body] == served.expected(good)
    assert [(one["error"], one["field"]) for one in rejected] == [("wrong-type", "a")] * (2 * len(hostile))


def test_no_query_oversized_and_malformed(served):
    """An empty body is a round with no query; what is too long or no JSON is rejected; notes go to the dead letters."""
    asker = served.asker(served.answers, f"{served.name}/dead")
    large = b" " * 70_000
    for body in (b"", large, b"{"):
        asker.ask(served.queries, body)
    eventually(lambda: len(asker.heard) >= 5, what=served.log)
    blank, oversized, malformed = (one.json for one in asker.on(served.answers))
    assert (blank["id"], blank["label"], blank["round"]) == (None, None, 0)
    assert (oversized["error"], malformed["error"]) == ("oversized", "malformed")
    notes = [one.json for one in asker.on(f"{served.name}/dead")]
    assert [note["reason"] for note in notes] == ["oversized", "malformed"]
    assert all(note["topic"] == served.queries and "body" not in note for note in notes)
    assert "queries.rejected" in served.events()


def test_packet_above_the_limit_is_dropped_by_the_broker(model):
    """Above source.message_bytes nothing comes, and nobody is told; what comes behind is answered. It is a limit."""
    model.serve(model.config(source="message_bytes = 100000"))
    model.wait_for_event("bus.connected")
    asker = model.asker()
    (answer,) = ask(model, asker, [bytes(120_000), b'{"id":"after","x":[0.5,0.5]}'], 1)
    assert answer.json["id"] == "after"
    eventually(lambda: len(asker.taken) == 2)


def test_retained_query_is_rejected_by_name(served):
    """A query with the retain flag takes no round and is told why; the daemon gets none that was retained before."""
    asker = served.asker()
    asker.ask(served.queries, b'{"id":"r","x":[0.5,0.5]}', retain=True)
    asker.ask(served.queries, b'{"id":"s","x":[0.5,0.5]}')
    retained, plain = wait_for(served, asker, 2)
    assert (retained.json["error"], retained.json["id"]) == ("retained", "r")
    assert (plain.json["id"], plain.json["round"]) == ("s", 0)
    served.stop(served.processes[0])
    served.serve(served.config())
    served.wait_for_event("bus.connected", 2)
    asker.ask(served.queries, b'{"id":"t","x":[0.5,0.5]}')
    assert [one.json["id"] for one in wait_for(served, asker, 3)] == ["r", "s", "t"]
    asker.ask(served.queries, b"", retain=True)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_every_quality_of_service_is_answered(served, qos):
    """Publishers may use any QoS; it is the broker's business to bring it to us once."""
    asker = served.asker()
    asker.ask(served.queries, bodies(1)[0], qos=qos)
    assert [one.body for one in wait_for(served, asker, 1)] == served.expected(bodies(1))


def test_query_that_has_expired_at_the_broker_never_comes(model):
    """A query whose time is over before the daemon is there is dropped by the broker; one that has time is answered."""
    model.serve(model.config())
    model.wait_for_event("bus.connected")
    model.stop(model.processes[0])
    asker = model.asker()
    asker.ask(model.queries, b'{"id":"late","x":[0.5,0.5]}', expiry=1)
    asker.ask(model.queries, b'{"id":"fine","x":[0.5,0.5]}', expiry=60_000)
    eventually(lambda: len(asker.taken) == 2)
    time.sleep(2.2)
    model.serve(model.config())
    (answer,) = wait_for(model, asker, 1)
    assert answer.json["id"] == "fine"
    assert answer.expiry is not None
    assert answer.expiry < 60_000


def test_status_topic_says_whether_it_is_there(served):
    """Online while it is connected, offline after a clean stop and, by its will, after a kill; retained each time."""
    topic = f"{served.name}/status"

    def latest() -> object:
        asker = served.asker(topic)
        eventually(lambda: asker.heard)
        assert asker.heard[0].retained
        return asker.heard[0].json

    assert latest() == {"model": served.plan.name, "online": True}
    served.stop(served.processes[0])
    eventually(lambda: latest() == {"model": served.plan.name, "online": False})
    served.serve(served.config())
    served.wait_for_event("bus.connected", 2)
    eventually(lambda: latest() == {"model": served.plan.name, "online": True})
    served.processes[1].kill()
    eventually(lambda: latest() == {"model": served.plan.name, "online": False})


def test_ledger_events_are_published(model):
    """Start, phases and stop come on the ledger topic, in order."""
    asker = model.asker(f"{model.name}/ledger")
    model.serve(model.config())
    model.wait_for_event("bus.connected")
    ask(model, model.asker(), bodies(300))
    model.stop(model.processes[0])
    eventually(lambda: "shard-stopped" in [one.json["kind"] for one in asker.heard])
    kinds = [one.json["kind"] for one in asker.heard]
    assert (kinds[0], kinds[-1]) == ("shard-started", "shard-stopped")
    assert "phase-started" in kinds


@pytest.mark.parametrize("predictor", ["statistics", "distribution"])
def test_public_questions_are_answered_as_in_one_run(broker, request, tmp_path, predictor):
    """Byte for byte, and the ledger topic has an event for each answer that the rows paid for."""
    plan = paying_plan(predictor) if predictor == "statistics" else example(predictor)
    contents = questions(predictor, 150) if predictor == "statistics" else bodies(150, plan=plan)
    model = MqttModelUnderTest(broker, unique_name(request), tmp_path, plan=plan).create()
    try:
        ledger = model.asker(f"{model.name}/ledger")
        model.serve(model.config())
        model.wait_for_event("bus.connected")
        heard = ask(model, model.asker(), contents)
        assert [one.body for one in heard] == model.expected(contents)
        paid = heard[-1].json["paid"]
        assert paid > 0
        eventually(lambda: [one.json.get("paid") for one in ledger.heard].count(paid))
        bought = [one.json["paid"] for one in ledger.heard if one.json["kind"] == "answer-paid"]
        assert bought == list(range(1, paid + 1))
    finally:
        model.end()


def test_dead_letters_may_hold_the_message(model):
    """With dead_letter_bodies the note holds it, in base64."""
    model.serve(model.config(sink="dead_letter_bodies = true"))
    model.wait_for_event("bus.connected")
    asker = model.asker(f"{model.name}/dead")
    (note,) = ask(model, asker, [b"{?"])
    assert base64.b64decode(msgspec.json.decode(note.body)["body"]) == b"{?"
