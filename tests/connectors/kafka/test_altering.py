"""`perpetua topics --alter`: what differs from new topics is shown, then set, and nothing else is."""

import json

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]  # as documented
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka.altering import changes
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.topics import TopicFacts, notes, problems
from tests.connectors.kafka.conftest import unique_name
from tests.support.broker import Broker
from tests.support.folders import long_plan, make_state, perpetua
from tests.support.kafka import KafkaModelUnderTest
from tests.support.kafka_here import serve_here
from tests.support.shards import bodies

_SETTINGS = KafkaSettings(
    servers=("b:9092",),
    topic="queries",
    answers="answers",
    group="g",
    model="m",
    reply_topics=frozenset({"team"}),
    ledger="ledger",
    dead_letter="dead",
    dead_letter_bodies=True,
    marks="marks",
)
_CONFIGS = st.fixed_dictionaries(
    {
        "compression.type": st.sampled_from(["producer", "uncompressed", "gzip", "zstd"]),
        "cleanup.policy": st.sampled_from(["delete", "compact", "compact,delete"]),
        "max.message.bytes": st.sampled_from(["1000", "5000", "1048588", "90000000"]),
        "retention.ms": st.sampled_from(["-1", "1000", "604800000"]),
        "retention.bytes": st.sampled_from(["-1", "1000000"]),
        "message.timestamp.type": st.sampled_from(["CreateTime", "LogAppendTime"]),
        "min.insync.replicas": st.sampled_from(["1", "2", "3"]),
        "segment.bytes": st.just("1000000"),
    }
)
_NAMES = ("queries", "answers", "team", "ledger", "dead", "marks")


@given(
    st.fixed_dictionaries({name: st.builds(TopicFacts, st.just(1), _CONFIGS, st.integers(1, 5)) for name in _NAMES}),
    st.sampled_from([1500, 2_000_000]),
)
def test_what_was_altered_has_no_problem_and_keeps_all_that_was_kept(facts, largest):
    """Whatever topics are set to: then nothing is wrong, nothing differs, and no query is deleted sooner."""
    after = dict(facts)
    for topic, name, value, before in changes(_SETTINGS, facts, 1, largest):
        assert after[topic].configs[name] == before != value
        after[topic] = TopicFacts(1, {**after[topic].configs, name: value}, after[topic].copies)
    assert (problems(_SETTINGS, after, 1), notes(_SETTINGS, after, largest), changes(_SETTINGS, after, 1, largest)) == (
        [],
        [],
        [],
    )
    before, now = facts["queries"].configs, after["queries"].configs
    assert now["retention.ms"] == "-1"
    assert now["retention.bytes"] == "-1" or before["cleanup.policy"] != "compact"
    assert now["cleanup.policy"] == "delete"
    for name in _NAMES:
        for limit in ("max.message.bytes", "min.insync.replicas"):
            assert int(after[name].configs[limit]) >= int(facts[name].configs[limit])
        assert int(after[name].configs["min.insync.replicas"]) >= min(2, max(facts[name].copies - 1, 1))


@pytest.fixture
def misfits(broker: Broker, request, tmp_path):
    """A model whose topics were made by somebody who did not know what for, some of them."""
    made = KafkaModelUnderTest(broker, unique_name(request), tmp_path)
    kept = {"segment.ms": "7654321"}
    broker.create_topic(made.queries, 1, {"compression.type": "lz4", "retention.ms": "3600000", **kept})
    broker.create_topic(made.answers, 1, {"compression.type": "gzip", "max.message.bytes": "2048", **kept})
    broker.create_topic(f"{made.name}.ledger", 1, {"cleanup.policy": "delete", "max.message.bytes": "2000"})
    broker.create_topic(f"{made.name}.dead", 1)
    broker.create_topic(made.marks, 1, {"cleanup.policy": "delete"})
    make_state(tmp_path / "state", long_plan())
    yield made
    made.end()


def _set_to(model, topic):
    """Return what a topic is set to, by another client."""
    (future,) = model.broker.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {entry.name: entry.value for entry in future.result().values()}


@pytest.mark.slow
def test_topics_are_shown_then_altered_then_served(misfits):
    """It ends with 1 while something would stop `serve`, changes nothing unasked, and then serves."""
    config = misfits.config()
    shown = perpetua("topics", config)
    assert shown.returncode == 1
    lines = shown.stdout.decode().splitlines()
    assert f"differs {misfits.queries}: retention.ms = 3600000; --alter sets -1" in lines
    assert f"differs {misfits.queries}: compression.type = lz4; --alter sets uncompressed" in lines
    assert _set_to(misfits, misfits.queries)["retention.ms"] == "3600000"

    done = perpetua("topics", config, "--alter", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["problems"], found["differs"], found["notes"]) == (0, [], [], [])
    altered = {(one["topic"], one["name"]): (one["before"], one["value"]) for one in found["altered"]}
    assert altered[misfits.answers, "compression.type"] == ("gzip", "producer")
    assert altered[f"{misfits.name}.ledger", "cleanup.policy"] == ("delete", "compact")
    queries, answers = (_set_to(misfits, name) for name in (misfits.queries, misfits.answers))
    assert (queries["retention.ms"], queries["compression.type"]) == ("-1", "uncompressed")
    assert (queries["segment.ms"], answers["segment.ms"]) == ("7654321", "7654321")
    assert int(answers["max.message.bytes"]) > 1_000_000

    again = json.loads(perpetua("topics", config, "--alter", "--json").stdout)
    assert (again["altered"], again["differs"]) == ([], [])
    contents = bodies(10)
    misfits.ask(contents)
    serve_here(config, lambda _log: misfits.count() >= 10)
