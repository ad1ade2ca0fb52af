"""`perpetua ask` on a real Mosquitto: one question, one answer, whoever else asks."""

import json

from tests.connectors.mqtt.conftest import ask
from tests.support.folders import perpetua
from tests.support.mqtt import MqttModelUnderTest
from tests.support.shards import bodies

_QUERY = '{"id": "mine", "x": [0.5, 0.5]}'


def test_asks_among_others(served: MqttModelUnderTest):
    """The answer comes on a topic of its own, which the allow-list has room for; others hear nothing of it."""
    config = served.folder / "serve.toml"
    asker = served.asker()
    ask(served, asker, bodies(5))
    asked = perpetua("ask", config, _QUERY)
    assert asked.returncode == 0, asked.stderr
    assert (json.loads(asked.stdout)["id"], json.loads(asked.stdout)["round"]) == ("mine", 5)
    named = perpetua("ask", config, _QUERY, "--reply-topic", f"{served.name}/replies/a")
    assert json.loads(named.stdout)["round"] == 6
    assert [one.json["round"] for one in ask(served, asker, bodies(1), 6)] == [0, 1, 2, 3, 4, 7]
    refused = perpetua("ask", config, _QUERY, "--reply-topic", served.answers)
    assert (refused.returncode, b"must match a filter of sink.reply_topics" in refused.stderr) == (2, True)


def test_answers_on_the_answer_topic_are_known_by_their_correlation(model: MqttModelUnderTest):
    """Without reply topics it reads what all read, and rejections exit 2."""
    config = model.config()
    config.write_text(config.read_text().replace(f'reply_topics = ["{model.name}/replies/#"]', ""))
    model.serve(config)
    model.wait_for_event("bus.connected")
    asked = perpetua("ask", config, _QUERY)
    assert (asked.returncode, json.loads(asked.stdout)["round"]) == (0, 0)
    rejected = perpetua("ask", config, '{"x": 5}')
    assert (rejected.returncode, json.loads(rejected.stdout)["error"]) == (2, "wrong-type")


def test_nobody_answers(model: MqttModelUnderTest):
    """Where no daemon has ever subscribed the query is lost, and it says so at once; else it waits in vain."""
    config = model.config()
    lost = perpetua("ask", config, _QUERY)
    assert (lost.returncode, b"nobody is subscribed" in lost.stderr) == (5, True)
    daemon = model.serve(config)
    model.wait_for_event("bus.connected")
    assert model.stop(daemon) == 0
    late = perpetua("ask", config, _QUERY, "--timeout", "2")
    assert (late.returncode, b"no answer within 2 s" in late.stderr) == (5, True)
