"""Where a reply goes and what goes with it, as pure functions of what an asker may have written."""

import base64
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.base import ARROW_STREAM, JSON, Reply
from connectors.events import ANSWER_ID
from connectors.kafka.reply_headers import (
    content_type,
    dead_letter,
    is_event,
    kept_headers,
    reply_headers,
    reply_topic,
)
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.topics import TopicFacts, notes, problems
from oracle.codec.rejections import Reason

_ALLOWED = frozenset({"team-a", "team-b"})
_NAMES = ["reply-topic", "kafka_replyTopic", "correlation-id", "ce_id", "content-type", "Reply-Topic", "x", "ce_", ""]
_VALUES = [None, b"", b"team-a", b"team-b", b"team-a\0", b" team-a", b"TEAM-A", "téam".encode(), b"\xff", b"queries"]
_headers = st.lists(
    st.tuples(
        st.sampled_from(_NAMES) | st.text(max_size=8),
        st.sampled_from(_VALUES) | st.none() | st.binary(max_size=12),
    ),
    max_size=8,
)


def _sent_back(headers):
    """Return the topic and the headers of the reply to a query with these headers."""
    kept = kept_headers(headers)
    reply = Reply(b"{}", content_type(headers), kept)
    return reply_topic(kept, _ALLOWED, "answers"), reply_headers(reply.content_type, reply.headers)


@given(_headers)
def test_no_header_leads_out_of_the_allow_list(headers):
    """Whatever headers there are, a reply goes to an allowed topic that its asker named first, or to the default."""
    topic, _ = _sent_back(headers)
    named = [value or b"" for name, value in headers if name in {"reply-topic", "kafka_replyTopic"}]
    assert topic == (named[0].decode() if named and named[0] in {b"team-a", b"team-b"} else "answers")


@given(_headers)
def test_replies_keep_correlation_and_cloud_events_and_nothing_else(headers):
    """A reply has one content type, then what its asker knows it by, in order, as often as it stood there."""
    _, sent = _sent_back(headers)
    assert [name for name, _ in sent].count("content-type") == 1
    assert sent[0][0] == "content-type"
    kept = {"correlation-id", "kafka_correlationId", "traceparent", "tracestate"}
    expected = [(name, value or b"") for name, value in headers if name in kept or name.startswith("ce_")]
    assert sent[1:] == expected
    assert all(isinstance(value, bytes) for _, value in sent)


_EVENT = [
    "ce_id",
    "ce_source",
    "ce_type",
    "ce_specversion",
    "ce_time",
    "ce_dataschema",
    "ce_causationid",
    "ce_subject",
    "ce_correlationid",
    "ce_x",
]


@given(st.lists(st.tuples(st.sampled_from([*_EVENT, "correlation-id"]), st.sampled_from(_VALUES)), max_size=12))
def test_the_answer_to_an_event_is_one_of_its_own(headers):
    """What is an answer's own is there once; the query's first id is its cause; what is of the asker comes back."""
    kept = kept_headers(headers)
    ids = [value or b"" for name, value in headers if name == "ce_id"]
    assert is_event(kept) == bool(ids)
    sent = reply_headers(JSON, (*kept, (ANSWER_ID, b"own")), "m m")[1:]
    names = [name for name, _ in sent]
    own = {"ce_specversion": b"1.0", "ce_id": b"own", "ce_source": b"/perpetua/m%20m", "ce_type": b"perpetua.answer"}
    assert {name: dict(sent)[name] for name in own} == own
    assert all(names.count(name) == 1 for name in own)
    assert [value for name, value in sent if name == "ce_causationid"] == ids[:1]
    back = {"ce_subject", "ce_correlationid", "ce_x", "correlation-id"}
    assert [pair for pair in sent if pair[0] in back] == [pair for pair in kept if pair[0] in back]
    assert not {"ce_time", "ce_dataschema"} & set(names)


@pytest.mark.parametrize(
    ("declared", "meant"),
    [
        (None, JSON),
        (b"", JSON),
        (b"  ", JSON),
        (b"; charset=utf-8", JSON),
        (b"application/json", JSON),
        (b"Application/JSON; charset=utf-8", JSON),
        (b"\tAPPLICATION/JSON ;charset=x", JSON),
        (b"application/vnd.apache.arrow.stream", ARROW_STREAM),
        (b"Application/Vnd.Apache.Arrow.Stream;x=y", ARROW_STREAM),
        (b"text/plain", "text/plain"),
        (b"\xff\xfe", "ÿþ"),
    ],
)
def test_content_types(declared, meant):
    """The case and the parameters of a content type do not matter; none means JSON; the first one counts."""
    assert content_type([("other", b"x"), ("Content-TYPE", declared), ("content-type", b"text/xml")]) == meant
    assert content_type([]) == JSON


@given(st.sampled_from(sorted(Reason)), st.integers(1, 2**62), st.binary(max_size=200), st.booleans())
def test_dead_letters_hold_reason_place_and_size(reason, position, body, bodies):
    """A dead letter says where the message is, how long and why it was rejected; the message only if it may."""
    note = msgspec.json.decode(dead_letter(reason, ("queries", 3, position), body, bodies=bodies))
    expected = {
        "reason": str(reason),
        "topic": "queries",
        "partition": 3,
        "offset": position,
        "size": len(body),
    }
    if bodies:
        expected["body"] = base64.b64encode(body).decode()
    assert note == expected


# Names of headers that are no UTF-8


@pytest.mark.parametrize(
    "raw", [b"ce_\xff", b"ce_" + b"\xff" * 1000, b"ce_\xed\xa0\x80", b"ce_ab\xc3", b"correlation-id\xff"]
)
def test_headers_with_unreadable_names_do_not_come_back(raw):
    """They could not be written as they are, and U+FFFD in their place would make the reply larger than the query."""
    name = raw.decode(errors="surrogateescape")
    kept = kept_headers([(name, b"x"), ("ce_\u00e9\ufffd", b"y")])
    assert kept == (("ce_\u00e9\ufffd", b"y"),)


# What topics must be like

_SETTINGS = KafkaSettings(
    servers=("b:9092",),
    topic="queries",
    answers="answers",
    group="g",
    model="m",
    reply_topics=_ALLOWED,
    ledger="ledger",
    dead_letter="dead",
)
_FACTS = {
    "queries": TopicFacts(1, {"compression.type": "uncompressed"}),
    "answers": TopicFacts(1, {"max.message.bytes": "5000"}),
    "team-a": TopicFacts(1, {"max.message.bytes": "5000"}),
    "team-b": TopicFacts(1, {"max.message.bytes": "5000"}),
    "ledger": TopicFacts(1, {"cleanup.policy": "compact"}),
    "dead": TopicFacts(1),
}


def test_topics_as_they_must_be_have_no_problem():
    """Enough room for replies, a compacted ledger and an uncompressed query topic."""
    assert problems(_SETTINGS, _FACTS, 1) == []


@pytest.mark.parametrize(
    ("topic", "facts", "said"),
    [
        ("queries", None, "topic queries: does not exist"),
        ("queries", TopicFacts(2, {"compression.type": "uncompressed"}), "has 2 partitions, but the state has 1 shard"),
        ("queries", TopicFacts(1, {"compression.type": "producer"}), "compression.type = producer: must be uncompr"),
        ("answers", TopicFacts(1, {"max.message.bytes": "1023"}), "topic answers: max.message.bytes = 1023"),
        ("team-b", TopicFacts(1, {"max.message.bytes": "1023"}), "topic team-b: max.message.bytes = 1023"),
        ("team-a", None, "topic team-a: does not exist"),
        ("ledger", TopicFacts(1, {"cleanup.policy": "delete"}), "topic ledger: cleanup.policy: must be compact"),
        ("dead", TopicFacts(1, {"max.message.bytes": "1000"}), "topic dead: max.message.bytes = 1000"),
    ],
)
def test_each_problem_of_a_topic_is_named(topic, facts, said):
    """What would stop the daemon later is found at its start."""
    others = {name: found for name, found in _FACTS.items() if name != topic}
    (problem,) = problems(_SETTINGS, others if facts is None else {**others, topic: facts}, 1)
    assert said in problem


def test_what_is_too_large_for_a_topic_is_told_before_it_is_given_up():
    """Replies that a topic does not take, and notes that hold the largest query in base64; a roomy one has no note."""
    assert notes(_SETTINGS, _FACTS, 5000) == []
    small, bodies = notes(replace(_SETTINGS, dead_letter_bodies=True), _FACTS, 5001)[::3]
    assert "topic answers: max.message.bytes = 5000: a reply may have up to 5001 bytes" in small
    assert "topic dead: max.message.bytes = 1048588: notes on larger queries do not hold the query" in bodies
    roomy = {**_FACTS, "dead": TopicFacts(1, {"max.message.bytes": "1400165"})}
    assert notes(replace(_SETTINGS, dead_letter_bodies=True), roomy, 5000) == []


def test_what_an_operator_accepts_is_no_problem():
    """Compressed queries where all askers are trusted, compressed answers where their sizes may be seen."""
    compressed = TopicFacts(1, {"compression.type": "zstd", "max.message.bytes": "5000"})
    facts = {**_FACTS, "queries": TopicFacts(1, {"compression.type": "zstd"}), "answers": compressed}
    said = problems(_SETTINGS, facts, 1)
    assert ["source.compressed accepts that" in said[0], "kafka.compression accepts that" in said[1]] == [True, True]
    assert problems(replace(_SETTINGS, compressed=True, compression="lz4"), facts, 1) == []
