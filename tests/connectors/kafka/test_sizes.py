"""How much the topics take: batches fit the smallest of them, and what never could is found at the start."""

from collections.abc import Iterator

import msgspec
import pytest
from confluent_kafka import Producer

from connectors.kafka.settings import KafkaSettings
from connectors.kafka.topics import TopicFacts, problems
from oracle.errors import RefusedError
from tests.connectors.kafka.conftest import unique_name
from tests.support.broker import Broker
from tests.support.folders import long_plan
from tests.support.kafka import KafkaModelUnderTest
from tests.support.kafka_here import serve_here
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT

_WAITING = 4000
_SETTINGS = KafkaSettings(
    servers=("b:9092",),
    topic="queries",
    answers="answers",
    group="g",
    model="m",
    reply_topics=frozenset({"team"}),
    ledger="ledger",
    dead_letter="dead",
)
_FACTS = {
    "queries": TopicFacts(1, {"compression.type": "uncompressed", "max.message.bytes": "1000"}),
    "answers": TopicFacts(1),
    "team": TopicFacts(1),
    "ledger": TopicFacts(1, {"cleanup.policy": "compact"}),
    "dead": TopicFacts(1),
}


def test_a_ledger_topic_needs_room_for_an_event():
    """One that takes less than any event could have is found at the start."""
    small = TopicFacts(1, {"cleanup.policy": "compact", "max.message.bytes": "4095"})
    (problem,) = problems(_SETTINGS, {**_FACTS, "ledger": small}, 1)
    assert "topic ledger: max.message.bytes = 4095: must be at least 4096" in problem


@pytest.mark.parametrize("name", ["answers", "team"])
@pytest.mark.parametrize(
    ("codec", "fine"), [("lz4", False), ("gzip", False), ("producer", True), ("uncompressed", True)]
)
def test_answers_are_not_compressed_by_the_brokers(name, codec, fine):
    """Their size would follow the labels; we send them as they are."""
    found = problems(_SETTINGS, {**_FACTS, name: TopicFacts(1, {"compression.type": codec})}, 1)
    assert (found == []) == fine
    assert all(f"topic {name}: compression.type = {codec}: must be producer or uncompressed" in text for text in found)


@pytest.fixture
def narrow(broker: Broker, request: pytest.FixtureRequest, tmp_path) -> Iterator[KafkaModelUnderTest]:
    """A model that takes few rows a message, so that its answers' topic may take little more than one query."""
    plan = long_plan()
    plan = msgspec.structs.replace(plan, limits=msgspec.structs.replace(plan.limits, rows=1000))
    made = KafkaModelUnderTest(broker, unique_name(request), tmp_path, plan=plan)
    made.create(**{"max.message.bytes": "400000"})
    broker.configure_topic(made.answers, {"max.message.bytes": "520000"})
    yield made
    made.end()


def test_more_waiting_answers_than_their_topic_takes_at_once(narrow):
    """Four thousand queries with long ids wait: their answers go out in as many batches as the topic takes."""
    contents = [
        msgspec.json.encode({**msgspec.json.decode(body), "id": f"{number:0250}"})
        for number, body in enumerate(bodies(_WAITING))
    ]
    for start in range(0, _WAITING, 1000):
        narrow.ask(contents[start : start + 1000])
    serve_here(narrow.config(), lambda _log: narrow.count() >= _WAITING)
    assert narrow.values() == narrow.expected(contents)


def test_more_dead_letters_than_their_topic_takes_at_once(model):
    """Two hundred junk messages in a row, and a topic for notes that takes 4096 bytes."""
    model.broker.configure_topic(f"{model.name}.dead", {"max.message.bytes": "4096"})
    contents = [b"?"] * 200
    model.ask(contents)
    serve_here(model.config(), lambda _log: model.count() >= len(contents))
    assert model.values() == model.expected(contents)
    assert len(model.read(f"{model.name}.dead")) == len(contents)


def test_one_answer_that_its_topic_does_not_take_costs_nobody_else_theirs(model):
    """Its asker's headers, which come back, are longer than all that the topic takes; it is noted, and told once."""
    for name, least in ((model.answers, 2048), (f"{model.name}.dead", 2048), (f"{model.name}.ledger", 4096)):
        model.broker.configure_topic(name, {"max.message.bytes": str(least)})
    model.broker.configure_topic(model.marks, {"max.message.bytes": "3000"})
    contents = bodies(300)
    model.ask(contents[:100])
    model.ask(contents[100:102], headers=[("correlation-id", b"c" * 2500)])
    model.ask(contents[102:103], key=b"k" * 3000)
    model.ask(contents[103:104], headers=[("correlation-id", b"c" * 1000)])
    model.ask(contents[104:])
    log = serve_here(model.config(), lambda _log: model.count() >= len(contents) - 3)
    expected = model.expected(contents)
    assert model.values() == [*expected[:100], *expected[103:]]
    assert model.read()[100].headers[1] == ("correlation-id", b"c" * 1000)
    notes = [(note.body["reason"], note.body["offset"]) for note in model.read(f"{model.name}.dead")]
    assert notes == [("undelivered", offset) for offset in (100, 101, 102)]
    told = [line["error"] for line in log if line["event"] == "answers.undelivered"]
    assert any(f"topic {model.answers}: max.message.bytes = 2048: an answer is larger" in text for text in told)


def test_notes_that_are_too_large_do_not_hold_their_query(model):
    """A long message is rejected, and its note is written without it; a short one's has it."""
    model.broker.configure_topic(f"{model.name}.dead", {"max.message.bytes": "4096"})
    contents = [b"?" * 20_000, b"?"]
    model.ask(contents[:1], key=b"k" * 5000)
    model.ask(contents[1:], key=b"k")
    serve_here(
        model.config(sink="transaction_seconds = 30\ndead_letter_bodies = true"), lambda _log: model.count() >= 2
    )
    first, second = model.read(f"{model.name}.dead")
    assert (first.key, first.body["size"], "body" in first.body) == (None, 20_000, False)
    assert (second.key, second.body["size"], "body" in second.body) == (b"k", 1, True)


def test_a_topic_that_takes_less_than_it_did_is_asked_again(model):
    """Lowered under a running daemon: what waits is written again in smaller batches, in order, and once."""
    contents = bodies(3000)
    model.ask(contents[:10])
    lowered: list[bool] = []

    def done(_log):
        if model.count() >= 10 and not lowered:
            model.broker.configure_topic(model.answers, {"max.message.bytes": "4096"})
            lowered.append(True)
            model.ask(contents[10:])
        return model.count() >= len(contents)

    serve_here(model.config(), done)
    assert model.values() == model.expected(contents)
    assert lowered


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_topics_with_a_compression_of_their_own(model, codec):
    """Queries sent and stored so, and what we write in it: the answers are the same, to the byte."""
    model.broker.configure_topic(model.queries, {"compression.type": codec})
    written = (model.answers, model.marks, f"{model.name}.ledger", f"{model.name}.dead")
    for name in written:
        model.broker.configure_topic(name, {"compression.type": codec})
    contents = [*bodies(200), b"?"]
    producer = Producer({"bootstrap.servers": model.broker.servers, "compression.type": codec, "linger.ms": 50})
    for body in contents[:100]:
        producer.produce(model.queries, body)
    assert producer.flush(TIMEOUT) == 0
    model.ask(contents[100:])
    config = model.config(
        kafka=f'request_seconds = 5\ncompression = "{codec}"', source="session_seconds = 2\ncompressed = true"
    )
    serve_here(config, lambda _log: model.count() >= 150)
    serve_here(config, lambda _log: model.count() >= len(contents))
    assert model.values() == model.expected(contents)
    assert len(model.read(f"{model.name}.dead")) == 1
    if codec == "zstd":  # others' topics may have what codec they like: what we send, brokers pack anew
        model.ask(bodies(5, seed=2))
        other = config.read_text().replace('compression = "zstd"', 'compression = "gzip"')
        config.write_text(other)
        serve_here(config, lambda _log: model.count() >= len(contents) + 5)


@pytest.mark.parametrize("kind", [("queries", "source.compressed"), ("answers", "kafka.compression")])
def test_what_is_compressed_is_refused_unless_it_is_accepted(model, kind):
    """With the setting that accepts it."""
    name, setting = kind
    model.broker.configure_topic(f"{model.name}.{name}", {"compression.type": "gzip"})
    with pytest.raises(RefusedError, match=rf"{name}: compression.type = gzip: must be .*{setting} accepts that"):
        serve_here(model.config(), lambda _log: False)
