"""`perpetua ask` on a real broker: one question, one answer, whoever else asks."""

import json

import pytest

from tests.support.folders import perpetua
from tests.support.kafka import KafkaModelUnderTest
from tests.support.shards import bodies

_QUERY = '{"id": "mine",\n "x": [0.5, 0.5]}'


def test_asks_among_others(model: KafkaModelUnderTest):
    """It prints the answer to its own query, with the round that it took, though others have asked with its id."""
    config = model.config()
    model.serve(config)
    model.ask([*bodies(20), b'{"id":"mine","x":[0.5,0.5]}'])
    model.wait_for_answers(21)
    asked = perpetua("ask", config, _QUERY)
    assert asked.returncode == 0, asked.stderr
    answer = json.loads(asked.stdout)
    assert (answer["id"], answer["round"]) == ("mine", 21)
    assert model.values()[21] == asked.stdout.rstrip(b"\n")


def test_reply_topics(model: KafkaModelUnderTest, topic):
    """The answer goes to an allowed reply topic and nowhere else; any other is refused before anything is written."""
    replies = topic(3, {"max.message.bytes": "20000000"}, word="replies")
    config = model.config(sink=f'reply_topics = ["{replies}"]')
    model.serve(config)
    asked = perpetua("ask", config, "-", "--reply-topic", replies, "--partition", "0", data=_QUERY.encode())
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout)["round"] == 0
    assert model.count() == 0
    refused = perpetua("ask", config, _QUERY, "--reply-topic", model.queries)
    assert (refused.returncode, b"must be one of sink.reply_topics" in refused.stderr) == (2, True)


def test_rejections_and_silence(model: KafkaModelUnderTest):
    """A rejection is printed, and exits 2; without a daemon it says so in time, and the query is answered later."""
    config = model.config()
    late = perpetua("ask", config, _QUERY, "--timeout", "4")
    assert (late.returncode, late.stdout) == (5, b"")
    assert b"no answer within 4 s" in late.stderr
    model.serve(config)
    rejected = perpetua("ask", config, '{"id": "mine", "x": [0.5]}')
    assert (rejected.returncode, json.loads(rejected.stdout)["error"]) == (2, "wrong-dimension")
    first, _ = (json.loads(answer.value) for answer in model.wait_for_answers(2))
    assert (first["id"], first["round"]) == ("mine", 0)


@pytest.mark.parametrize("query", ["[1]", "{", '"x"', ""])
def test_what_is_no_object_is_not_sent(model: KafkaModelUnderTest, query: str):
    """It is refused here."""
    refused = perpetua("ask", model.config(), query)
    assert (refused.returncode, b"QUERY" in refused.stderr) == (2, True)
    assert model.written() == 0
