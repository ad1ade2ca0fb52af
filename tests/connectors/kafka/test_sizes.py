"""How much the topics take: batches fit the smallest of them, and what never could is found at the start."""

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from connectors.kafka.settings import KafkaSettings
from connectors.kafka.topics import TopicFacts, fitted, problems
from tests.connectors.kafka.conftest import unique_name
from tests.support.broker import Broker
from tests.support.folders import long_plan
from tests.support.kafka import KafkaModelUnderTest
from tests.support.kafka_here import serve_here
from tests.support.shards import bodies

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


@pytest.mark.parametrize("smallest", ["answers", "ledger", "dead"])
def test_batches_are_no_larger_than_any_written_topic_takes(smallest):
    """The smallest topic that is written to decides; larger ones, and the topic that is only read, do not."""
    assert fitted(_SETTINGS, _FACTS) == _SETTINGS
    facts = {**_FACTS, smallest: TopicFacts(1, {**_FACTS[smallest].configs, "max.message.bytes": "5000"})}
    assert fitted(_SETTINGS, facts) == replace(_SETTINGS, batch_bytes=5000)


def test_a_ledger_topic_needs_room_for_an_event():
    """One that takes less than any event could have is found at the start."""
    small = TopicFacts(1, {"cleanup.policy": "compact", "max.message.bytes": "4095"})
    (problem,) = problems(_SETTINGS, {**_FACTS, "ledger": small}, 1, 5000)
    assert "topic ledger: max.message.bytes = 4095: must be at least 4096" in problem


@pytest.mark.parametrize("name", ["answers", "team"])
@pytest.mark.parametrize(
    ("codec", "fine"), [("lz4", False), ("gzip", False), ("producer", True), ("uncompressed", True)]
)
def test_answers_are_not_compressed_by_the_brokers(name, codec, fine):
    """Their size would follow the labels; we send them as they are."""
    found = problems(_SETTINGS, {**_FACTS, name: TopicFacts(1, {"compression.type": codec})}, 1, 5000)
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
