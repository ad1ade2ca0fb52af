"""What goes wrong around the daemon on MQTT, one thing at a time; storms of it are in `tests.storms.mqtt`."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.mqtt.conftest import answer_one, ask, wait_for
from tests.support.folders import perpetua
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt import MqttModelUnderTest
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT, eventually


def test_clean_restart_publishes_nothing_again(model):
    """After a clean stop the outbox is known to be empty: no answer is repeated."""
    asker = model.asker()
    for part in range(2):
        model.serve(model.config())
        model.wait_for_event("bus.connected", part + 1)
        ask(model, asker, bodies(20, seed=part))
        assert model.stop(model.processes[part]) == 0
    assert len(asker.heard) == 40


def test_session_that_the_broker_has_lost_is_told(own_model):
    """A broker without its store has no session of ours: the log says so, and new queries are answered."""
    answer_one(own_model)
    own_model.broker.stop()
    shutil.rmtree(own_model.broker.folder / "store")
    own_model.broker.start()
    own_model.wait_for_event("bus.connected", 2)
    noted = [line["reason"] for line in own_model.log() if line.get("event") == "bus.noted"]
    assert noted == ["the broker had no session of ours"]
    ask(own_model, own_model.asker(), bodies(1))


def test_journal_stays_within_its_bound(model):
    """Six times the journal's bound goes through it: snapshots let it shrink, nothing is lost, all in order."""
    config = model.config(
        state="snapshot_rounds = 1000000000\nsnapshot_seconds = 3600", source="journal_bytes = 1048576"
    )
    model.serve(config)
    model.wait_for_event("bus.connected")
    asker = model.asker()
    contents = [body + b" " * 50_000 for body in bodies(120)]
    largest = 0
    ask(model, asker, contents, 0)
    deadline = time.monotonic() + TIMEOUT
    while len(asker.heard) < len(contents):
        largest = max(largest, _bytes(model.folder / "state" / "journal" / "queries"))
        assert time.monotonic() < deadline, model.log()[-3:]
    assert [one.body for one in asker.heard] == model.expected(contents)
    assert 500_000 < largest < 3 << 20
    assert model.events().count("snapshot.written") > 3
    assert _bytes(model.folder / "state" / "journal" / "queries") < 2 << 20


def _bytes(folder: Path) -> int:
    total = 0
    for path in folder.glob("*.journal"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # dropped meanwhile
            continue
    return total


@pytest.mark.parametrize(
    ("gone", "code", "said"),
    [
        ("queries", 4, "the journal holds 0 to 0 only"),
        ("answers", 3, "sink: it has no commit, but the state is at position"),
    ],
)
def test_journal_or_outbox_that_is_gone_is_told(model, gone, code, said):
    """A state without one of them is refused with its reason, by check and by serve; nothing more is answered."""
    asker = answer_one(model)
    model.stop(model.processes[0])
    assert b"ok     journal and outbox are intact" in perpetua("check", model.config()).stdout
    shutil.rmtree(model.folder / "state" / "journal" / gone)
    checked = perpetua("check", model.config())
    assert checked.returncode == 1
    assert b"WRONG  journal and outbox are intact" in checked.stdout
    assert said.encode() in checked.stdout
    assert model.serve(model.config()).wait(TIMEOUT) == code
    assert said in str(model.log())
    assert len(asker.heard) == 1


def test_damaged_journal_is_told_by_check(model):
    """A changed byte in the journal is found by `perpetua check`, which changes nothing."""
    model.serve(model.config(state="snapshot_rounds = 1000000000\nsnapshot_seconds = 3600"))
    model.wait_for_event("bus.connected")
    asker = model.asker()
    ask(model, asker, bodies(15))
    ask(model, asker, bodies(30)[15:])  # so that what is damaged is not the last that was written, as if torn off
    model.processes[0].kill()
    model.processes[0].wait()
    (segment,) = (model.folder / "state" / "journal" / "queries").glob("*.journal")
    data = bytearray(segment.read_bytes())
    data[300] ^= 1
    segment.write_bytes(data)
    checked = perpetua("check", model.config())
    assert checked.returncode == 1
    assert b"damaged at byte" in checked.stdout
    assert segment.read_bytes() == data


def test_check_looks_at_the_web_table(model):
    """As on files and Kafka: a token that is missing is found before `serve` finds it."""
    web = '[web]\nhost = "0.0.0.0"\ntoken_file = "missing"\n'
    checked = perpetua("check", model.config(extra=web))
    assert checked.returncode == 1
    assert b"WRONG  web: token file: web.token_file" in checked.stdout


def test_check_finds_a_broker_that_is_away(model, tmp_path):
    """A broker is found by a probe that takes no session over; where there is none, that is said."""
    assert b"ok     broker accepts us and supports what is needed" in perpetua("check", model.config()).stdout
    model.broker = Mosquitto(tmp_path / "away")
    checked = perpetua("check", model.config())
    assert checked.returncode == 1
    assert b"WRONG  broker accepts us and supports what is needed" in checked.stdout


def test_second_daemon_on_one_state_is_refused(served):
    """The state's lock keeps a second daemon off, which does not disturb the first one's session."""
    assert served.serve(served.config(), "second.log").wait(TIMEOUT) == 3
    assert served.events().count("bus.connected") == 1
    assert "bus.unavailable" not in served.events()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[MqttModelUnderTest]:
    """A model on a broker whose access rules let clients write queries and read answers, and the daemon not all."""
    rules = tmp_path / "rules"
    rules.write_text("topic readwrite m/queries\ntopic readwrite m/answers\ntopic readwrite m/replies/open\n")
    broker = Mosquitto(tmp_path / "broker", [f"acl_file {rules}"]).start()
    made = MqttModelUnderTest(broker, "m", tmp_path).create()
    config = made.config()
    lines = [line for line in config.read_text().splitlines() if not line.startswith(("ledger", "dead", "status"))]
    config.write_text("\n".join(lines))
    yield made
    made.end()
    broker.stop(kill=True)


def test_reply_topic_that_the_broker_refuses_costs_that_answer_only(guarded):
    """An allowed response topic that the broker's own rules close: the log notes it, all else is answered."""
    guarded.serve(guarded.folder / "serve.toml")
    guarded.wait_for_event("bus.connected")
    asker = guarded.asker(guarded.answers, "m/replies/open")
    asker.ask(guarded.queries, bodies(1)[0], reply="m/replies/closed")
    asker.ask(guarded.queries, bodies(1)[0], reply="m/replies/open")
    asker.ask(guarded.queries, bodies(1)[0])
    wait_for(guarded, asker, 2)
    assert [one.topic for one in asker.heard] == ["m/replies/open", guarded.answers]
    noted = [line["reason"] for line in guarded.log() if line.get("event") == "bus.noted"]
    assert noted == ["answer refused: not authorized (0x87)"]


def test_own_topic_that_the_broker_refuses_stops_the_daemon(guarded):
    """An answer topic that we may not write to is for the operator: the daemon ends, says which, and loses nothing."""
    config = guarded.folder / "serve.toml"
    config.write_text(config.read_text().replace('topic = "m/answers"', 'topic = "m/closed"'))
    process = guarded.serve(config)
    guarded.wait_for_event("bus.connected")
    asker = guarded.asker()
    asker.ask(guarded.queries, bodies(1)[0])
    assert process.wait(TIMEOUT) == 2
    assert "topic m/closed: the broker refuses our messages: not authorized (0x87)" in str(guarded.log())
    rules = guarded.folder / "rules"
    rules.write_text(rules.read_text() + "topic readwrite m/closed\n")
    guarded.broker.restart()
    guarded.serve(config)
    later = guarded.asker("m/closed")
    wait_for(guarded, later, 1)
    assert later.heard[0].body == guarded.expected(bodies(1))[0]


def test_killed_broker_that_goes_back_brings_queries_anew(tmp_path):
    """A limit: what it had acknowledged since its last store it has forgotten, and brings, unmarked, as new queries."""
    with Mosquitto(tmp_path / "broker", ["autosave_interval 3600"]) as broker:
        model = MqttModelUnderTest(broker, "m", tmp_path).create()
        try:
            model.serve(model.config())
            model.wait_for_event("bus.connected")
            assert model.stop(model.processes[0]) == 0
            asker = model.asker()
            ask(model, asker, bodies(5), 0)
            eventually(lambda: len(asker.taken) == 5)
            broker.restart()  # stores what waits for the daemon
            model.serve(model.config())
            wait_for(model, asker, 5)
            broker.restart(kill=True)
            wait_for(model, asker, 10)
            assert [one.json["round"] for one in asker.heard] == list(range(10))
        finally:
            model.end()


def test_log_never_shows_what_askers_send(guarded):
    """Payloads, topics, correlation data and properties, where all goes well and where not: no line has them."""
    mark = "Zq7secret"
    guarded.serve(guarded.folder / "serve.toml")
    guarded.wait_for_event("bus.connected")
    asker = guarded.asker(guarded.answers, "m/replies/open")
    body = b'{"id":"%s","x":[0.5,0.5]}' % mark.encode()
    for reply in (None, "m/replies/open", f"m/replies/closed-{mark}", f"elsewhere/{mark}"):
        asker.ask(guarded.queries, body, reply=reply, correlation=mark.encode(), user=[(mark, mark)])
    asker.ask(guarded.queries, b"{" + mark.encode(), content_type=mark)
    asker.ask(guarded.queries, body, user=[(mark, "\ufeff")])
    asker.ask(guarded.queries, body, user=[(mark, "")] * 257)
    asker.ask(guarded.queries, body, retain=True)
    asker.ask(guarded.queries, b"", retain=True)
    asker.ask(guarded.queries, b'{"id":"last","x":[0.5,0.5]}')
    eventually(lambda: any(one.json["id"] == "last" for one in asker.heard), what=guarded.log)
    assert guarded.stop(guarded.processes[0]) == 0
    log = (guarded.folder / "serve.log").read_text()
    assert {"answer refused: not authorized (0x87)", "unreadable message"} <= {
        line.get("reason") for line in guarded.log()
    }
    assert mark not in log
