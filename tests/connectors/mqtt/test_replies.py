"""Where an answer goes: to a topic that the allow-list lets a query name, or to the answer topic, and nowhere else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.base import Commit, Replies, Reply
from connectors.mqtt.messages import pack_pairs, unpack_pairs
from connectors.mqtt.replies import outgoing, reply_topic
from connectors.mqtt.settings import MqttSettings

_SETTINGS = MqttSettings(
    host="h",
    port=1,
    client_id="c",
    model="m",
    topic="m/queries",
    answers="m/answers",
    ledger="m/ledger",
    dead_letter="m/dead",
    status="m/status",
    reply_topics=("m/#", "askers/+/in"),
)
_LEVELS = ["m", "askers", "a", "in", "", "+", "#", "$SYS", "queries", "answers", "ledger", "dead", "status", "\0", "a#"]


@pytest.mark.parametrize(
    "topic",
    [
        "m/replies/a",
        "m",
        "m/",
        "m//x",
        "m/queries/x",
        "askers/a/in",
        "askers//in",
        "m/" + "a" * 1022,
        "m/" + "/" * 126,
        "m/\ufeff",
        "m/\ufffd",
        "m/é\U0001f600",
    ],
)
def test_allowed_topics_are_honoured(topic):
    """A topic that a filter matches, level by level, is where the answer goes."""
    assert reply_topic(topic, _SETTINGS) == topic


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "m/queries",
        "m/answers",
        "m/ledger",
        "m/dead",
        "m/status",
        "m/#",
        "m/+",
        "m/a#b",
        "m/a\0",
        "M/a",
        "mm/a",
        "/m/a",
        "askers/a/in/more",
        "askers/in",
        "$SYS/broker",
        "$share/g/m/a",
        "m/" + "a" * 65_534,
        "m/" + "a" * 1023,
        "m/" + "/" * 127,
        "m/" + "/".join("x" * 250),
        "m/\x01",
        "m/\x1f",
        "m/\x7f",
        "m/\x80",
        "m/\x9f",
        "m/\ufdd0",
        "m/\ufffe",
        "m/\uffff",
        "m/\U0001fffe",
        "m/\U0010ffff",
        "m/" + "\u00e9" * 32_767,
    ],
)
def test_all_else_is_answered_on_the_answer_topic(topic):
    """The model's own topics, wildcards, the broker's own, too long ones, and what no filter matches: no."""
    assert reply_topic(topic, _SETTINGS) == _SETTINGS.answers


@given(levels=st.lists(st.sampled_from(_LEVELS), max_size=5))
def test_no_topic_leads_elsewhere(levels):
    """Whatever a query names, the answer goes there or to the answer topic; never to a wildcard or a topic of ours."""
    named = "/".join(levels)
    topic = reply_topic(named, _SETTINGS)
    assert topic in {named, _SETTINGS.answers}
    assert topic == _SETTINGS.answers or topic not in _SETTINGS.own_topics
    assert not set(topic) & set("+#\0")
    assert not topic.startswith("$")
    assert topic == _SETTINGS.answers or levels[0] == "m" or (levels[0], levels[2:]) == ("askers", ["in"])


def test_bounds_are_the_operators():
    """A broker with lower limits, or higher ones, is met by the settings."""
    strict = replace(_SETTINGS, reply_levels=2, reply_bytes=5)
    assert [reply_topic(topic, strict) for topic in ("m/abc", "m/abcd", "m/a/b")] == ["m/abc", "m/answers", "m/answers"]
    wide = replace(_SETTINGS, reply_levels=65_535, reply_bytes=65_535)
    deep = "m/" + "/".join("x" * 250)
    assert reply_topic(deep, wide) == deep


@pytest.mark.parametrize(("named", "kept"), [("", (("b", "2"),)), ("m/mine", (("a", "\ufeff1"), ("b", "2")))])
def test_byte_order_marks_come_back_to_their_asker_only(named, kept):
    """On the answer topic, which others read, properties that end their connections are left out."""
    user = bytes(pack_pairs([("a", "\ufeff1"), ("b", "2")]))
    headers = [("user", user), ("response-topic", named.encode())]
    (answer,) = outgoing(Commit(Replies.of([Reply(b"{}", headers=tuple(headers))]), [], 1, b""), _SETTINGS)
    assert unpack_pairs(answer.user) == kept


def test_without_a_list_no_topic_is_honoured():
    """No filters, no response topics."""
    bare = MqttSettings(host="h", port=1, client_id="c", model="m", topic="q", answers="a")
    assert reply_topic("x", bare) == "a"
