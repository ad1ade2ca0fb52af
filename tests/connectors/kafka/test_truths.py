"""`perpetua truth` on a real broker: joined by id and round, released once, whatever is killed."""

import json
import signal

import msgspec
import pytest
from confluent_kafka import Producer

from oracle.codec.json.truths import TruthCodec
from oracle.planning.model import Truth
from oracle.state.keys import read_key_file
from oracle.state.truths import truth_secret
from tests.connectors.kafka.conftest import unique_name
from tests.support.folders import command, long_plan, perpetua
from tests.support.kafka import KafkaModelUnderTest
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT, eventually
from tests.truths.logs import counted

_TRUTH = Truth(epsilon=0.5, rounds=30, lag=10)


@pytest.fixture
def model(broker, request, tmp_path):
    """A model whose plan pays for true labels, with a topic for them."""
    plan = msgspec.structs.replace(long_plan(), truth=_TRUTH)
    made = KafkaModelUnderTest(broker, unique_name(request), tmp_path, plan=plan).create()
    broker.create_topic(f"{made.name}.truth", 1, {"compression.type": "uncompressed"})
    yield made
    made.end()


def _send(model, values):
    producer = Producer({"bootstrap.servers": model.broker.servers})
    for value in values:
        producer.produce(f"{model.name}.truth", value, partition=0)
    assert producer.flush(TIMEOUT) == 0


def _released(model, log):
    return [
        (line["period"], line["right"], line["wrong"])
        for line in model.log(log)
        if line.get("event") == "truth.released"
    ]


@pytest.mark.slow
def test_labels_are_counted_once_whatever_is_killed(model):
    """SIGKILL while it counts: the releases of all processes are those of one, and a topic of no use is refused."""
    table = f'[truth]\nfolder = "{model.folder / "kept"}"\ntopic = "{model.name}.truth"\n'
    config = model.config(extra=table)
    missing = model.config("missing.toml", extra=table.replace(".truth", ".nowhere"))
    model.serve(config)
    model.ask(bodies(600))
    answers = [msgspec.json.decode(one.value) for one in model.wait_for_answers(600)]
    truths = [
        json.dumps({"id": one["id"], "round": one["round"], "label": one["label"] ^ (one["round"] % 5 == 0)}).encode()
        for one in answers
        if one.get("label") is not None
    ]
    _send(model, [*truths[:450], b"not JSON"])
    first = model.start(command("truth", config), "truth.log")
    eventually(lambda: len(_released(model, "truth.log")) >= 2)
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = model.start(command("truth", config), "truth.log")
    plan, key = model.plan, read_key_file(model.folder / "state" / "key")
    lines = model.values(), truths[:450]
    found = counted(TruthCodec(plan), _TRUTH, truth_secret(key, plan.digest, 0), lines)
    expected = [tuple(one) for one in found.released]
    assert len(expected) == 19
    eventually(lambda: len(set(_released(model, "truth.log"))) >= len(expected))
    second.send_signal(signal.SIGTERM)
    assert second.wait(TIMEOUT) == 0
    assert list(dict.fromkeys(_released(model, "truth.log"))) == expected
    assert "truth.rejected" in model.events("truth.log")
    refused = perpetua("truth", missing)
    assert refused.returncode == 2
    assert b"has 0 partitions, must have 1: one for each shard" in refused.stderr
