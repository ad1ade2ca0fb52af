"""The MQTT part of the AsyncAPI document says what the connector does."""

import base64
import itertools
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import yaml
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from connectors.base import ARROW_STREAM, JSON, Commit, Deliveries, Rejected, Replies, Reply
from connectors.events import CLOUD_EVENT, AnswerIds
from connectors.journal.segment import Found
from connectors.mqtt.messages import NO_PAIRS, Incoming, delivery, pack, pack_pairs, stored
from connectors.mqtt.packets import publish_of
from connectors.mqtt.replies import dead_letter, outgoing, status, undelivered
from connectors.mqtt.settings import MqttSettings
from oracle.codec.events import EventCodec
from oracle.codec.kinds import codec_of
from oracle.codec.rejections import Reason
from oracle.config.mqtt import MqttConfig, MqttSourceConfig
from oracle.planning.attributes import Attribute
from oracle.predictors.base import Answers
from tests.predictors.plans import feature, tiny_plan
from tests.support.distributions import distribution_plan
from tests.support.tables import share_answers, sparse_plan, statistics_plan

_FILE = Path(__file__).resolve().parents[3] / "deploy" / "asyncapi.yaml"
_DOCUMENT = yaml.safe_load(_FILE.read_text())
_PLAN = msgspec.structs.replace(tiny_plan([feature("visib"), feature("wind")]), name="vfr")
_CHANNELS = {
    name: channel
    for name, channel in _DOCUMENT["channels"].items()
    if channel["servers"] == [{"$ref": "#/servers/mqtt"}]
}
_SETTINGS = MqttSettings(
    host="h",
    port=1,
    client_id="perpetua-vfr",
    model="vfr",
    topic=_CHANNELS["mqttQueries"]["address"],
    answers=_CHANNELS["mqttAnswers"]["address"],
    reply_topics=(_CHANNELS["mqttReplies"]["address"].replace("{asker}", "+"),),
    ledger=_CHANNELS["mqttLedger"]["address"],
    dead_letter=_CHANNELS["mqttDeadLetters"]["address"],
    status=_CHANNELS["status"]["address"],
)


def _example(message, name):
    examples = _DOCUMENT["components"]["messages"][message]["examples"]
    return next(example["payload"] for example in examples if example["name"] == name)


def test_server_binding_is_what_the_client_says():
    """Session, keep-alive, packet size and will are the defaults of the settings."""
    binding = _DOCUMENT["servers"]["mqtt"]["bindings"]["mqtt"]
    table, source = MqttConfig(server="h:1"), MqttSourceConfig(kind="mqtt", topic="q")
    assert (binding["keepAlive"], binding["sessionExpiryInterval"]) == (table.keepalive_seconds, table.session_seconds)
    assert binding["maximumPacketSize"] == source.message_bytes
    assert binding["cleanSession"] is False
    will = binding["lastWill"]
    assert (will["topic"], will["qos"], will["retain"]) == (_SETTINGS.status, 1, True)
    assert will["message"].encode() == status(_SETTINGS, online=False)


@pytest.mark.parametrize("online", [True, False])
def test_status_is_what_the_connector_writes(online):
    """Both examples of a status are."""
    assert msgspec.json.decode(status(_SETTINGS, online=online)) == _example(
        "Status", "online" if online else "offline"
    )


@pytest.mark.parametrize("bodies", [False, True])
def test_dead_letters_are_what_the_connector_writes(bodies):
    """Both forms of a dead letter are."""
    note = msgspec.json.decode(dead_letter(Rejected(Reason.MALFORMED, 42, b"{"), _SETTINGS.topic, bodies=bodies))
    assert note == _example("MqttDeadLetter", "with-the-body" if bodies else "note")


def test_note_on_an_answer_is_what_the_connector_writes():
    """So is the one on an answer that was given up."""
    assert msgspec.json.decode(undelivered(60, 42, _SETTINGS.topic)) == _example("MqttDeadLetter", "undelivered")


def test_everything_goes_where_the_document_says():
    """A query's answer, its note and an event go to the channels' addresses; properties come back as promised."""
    query = Incoming(
        body=b"{",
        response_topic="vfr/replies/a",
        correlation=b"7f3a",
        user=pack_pairs([("traceparent", "00")]),
        expiry=60,
    )
    came = delivery(Found(1, pack(stored(query, _SETTINGS)), 0), AnswerIds(b""))
    assert came is not None
    reply = Reply(b"answer", headers=came.headers, key=came.key, rejected=Rejected(Reason.MALFORMED, 1, b"{"))
    plain = Reply(b"plain")
    answer, note, other, event = outgoing(Commit(Replies.of([reply, plain]), [b"event"], 1, b""), _SETTINGS)
    assert (answer.topic, note.topic) == ("vfr/replies/a", _SETTINGS.dead_letter)
    assert (other.topic, event.topic) == (_SETTINGS.answers, _SETTINGS.ledger)
    assert (answer.correlation, answer.user, answer.expiry) == (b"7f3a", query.user, 60)
    assert (answer.ours, other.ours) == (False, True)


def _published(example, kind, plan=_PLAN):
    """Return what the connector and the codec make of an example, sent as a packet of bytes."""
    payload = example["payload"]
    body = base64.b64decode(payload) if kind == ARROW_STREAM else msgspec.json.encode(payload)
    body = body if payload is not None else b""
    properties = Properties(PacketTypes.PUBLISH)
    properties.ContentType, properties.ResponseTopic, properties.CorrelationData = kind, "vfr/replies/a", b"7f3a"
    topic = _SETTINGS.topic.encode()
    packet = len(topic).to_bytes(2, "big") + topic + b"\0\1" + properties.pack() + body
    message = publish_of({"command": 0x32, "packet": packet})
    assert message is not None
    came = delivery(Found(1, pack(stored(message, _SETTINGS)), 0), AnswerIds(b""))
    assert came is not None
    codec = EventCodec(codec_of(plan), plan)
    return codec, codec.decode(Deliveries.of([came]))


@pytest.mark.parametrize(
    ("message", "kind", "features", "present"),
    [
        ("JsonQuery", JSON, [[7.5, 12.0]], [True]),
        ("ArrowQueries", ARROW_STREAM, [[7.5, 12.0], [0.0, 0.0]], [True, False]),
        ("NoQuery", JSON, [[0.0, 0.0]], [False]),
    ],
)
def test_examples_of_queries_are_decoded_from_packets(message, kind, features, present):
    """Every example on the query channel, sent as an MQTT packet, is the query that it says; its asker is answered."""
    assert f"#/components/messages/{message}" in {one["$ref"] for one in _CHANNELS["mqttQueries"]["messages"].values()}
    for example in _DOCUMENT["components"]["messages"][message]["examples"]:
        if example["name"] == "category-and-missing-value":
            continue  # of an ensemble
        codec, batch = _published(example, kind)
        assert batch.present.tolist() == present
        assert batch.features[batch.present].tolist() == list(itertools.compress(features, present))
        rows = len(batch.features)
        labels = np.where(batch.present, 1, -1).astype(np.int8)
        answers = Answers(labels, 17, np.ones(rows, np.int64), np.zeros(2, np.uint64), ())
        (answer,) = outgoing(Commit(codec.encode(batch, answers), [], 1, b""), _SETTINGS)
        assert (answer.topic, answer.correlation, answer.content_type) == ("vfr/replies/a", b"7f3a", kind)
        if kind == JSON:
            schema = _DOCUMENT["components"]["schemas"]["jsonAnswer"]
            assert {*schema["required"], "label"} == msgspec.json.decode(answer.body).keys()


def test_an_event_is_decoded_from_a_packet():
    """The example of a query in an envelope; its answer is published as an event, with correlation data."""
    (example,) = _DOCUMENT["components"]["messages"]["CloudEvent"]["examples"]
    _, batch = _published(example, CLOUD_EVENT)
    assert batch.features.tolist() == [[7.5, 12.0]]
    answers = Answers(np.ones(1, np.int8), 17, np.ones(1, np.int64), np.zeros(2, np.uint64), ())
    (answer,) = outgoing(Commit(EventCodec(codec_of(_PLAN), _PLAN).encode(batch, answers), [], 1, b""), _SETTINGS)
    assert (answer.topic, answer.correlation, answer.content_type) == ("vfr/replies/a", b"7f3a", CLOUD_EVENT)
    assert answer.user == NO_PAIRS


def test_every_message_of_the_query_channel_is_tried():
    """A form of query that is added to the channel must be added above, too."""
    tried = {"JsonQuery", "JsonQuestion", "JsonDistribution", "ArrowQueries", "NoQuery", "CloudEvent"}
    assert set(_CHANNELS["mqttQueries"]["messages"]) == tried


@pytest.mark.parametrize("number", range(4))
def test_examples_of_questions_are_decoded_from_packets(number):
    """Every example of a question about a table is one; its asker is answered."""
    example = _DOCUMENT["components"]["messages"]["JsonQuestion"]["examples"][number]
    make = sparse_plan if "above" in example["payload"] else statistics_plan
    attributes = [
        Attribute(name="carrier", categories=("AA", "UA")),
        Attribute(name="hour", bounds=(0.0, 24.0), bins=24),
        Attribute(name="origin", categories=("EWR", "JFK")),
    ]
    _check_answered(example, make(attributes))


@pytest.mark.parametrize("number", range(4))
def test_examples_of_places_are_decoded_from_packets(number):
    """Every example of a question about a distribution is one; its asker is answered."""
    _check_answered(_DOCUMENT["components"]["messages"]["JsonDistribution"]["examples"][number], distribution_plan())


def _check_answered(example, plan):
    codec, batch = _published(example, JSON, plan)
    answers = replace(share_answers([0.5] * len(batch.features)), found=np.zeros((len(batch.features), 1)))
    (answer,) = outgoing(Commit(codec.encode(batch, answers), [], 1, b""), _SETTINGS)
    assert (answer.topic, answer.correlation, answer.content_type) == ("vfr/replies/a", b"7f3a", JSON)
    assert msgspec.json.decode(answer.body)["id"] == example["payload"]["id"]
    assert "bound" not in msgspec.json.decode(answer.body)


def test_operations_are_at_qos_1():
    """Every operation on an MQTT channel says QoS 1; only the status is retained."""
    for operation in _DOCUMENT["operations"].values():
        name = operation["channel"]["$ref"].rpartition("/")[2]
        if name not in _CHANNELS:
            continue
        binding = operation["bindings"]["mqtt"]
        assert binding["qos"] == 1
        assert binding.get("retain", False) is (name == "status")
