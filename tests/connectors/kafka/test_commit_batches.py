"""What a commit writes, as the client's batches."""

from dataclasses import replace

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from connectors.base import JSON, Commit, Rejected, Replies, Reply
from connectors.kafka.commit_batches import CommitBatches
from connectors.kafka.record_batches import FetchedBatches
from connectors.kafka.reply_headers import reply_headers, reply_topic
from connectors.kafka.settings import KafkaSettings

_SETTINGS = KafkaSettings(servers=("b:9092",), topic="q", answers="a", group="g", model="m", dead_letter="d")
_REPLY = st.builds(
    Reply,
    st.binary(max_size=90),
    st.sampled_from(["x/one", "x/other"]),
    key=st.none() | st.binary(),
    rejected=st.none(),
)


def _made(replies, batch_bytes, **settings):
    """Return the maker, and topic and batch of all that it makes for some replies."""
    made = CommitBatches(replace(_SETTINGS, **settings), 0, {"a": 1, "d": 1}, batch_bytes)
    asked = [(number, b"") for number in range(len(replies))]
    commit = Commit(Replies.of(replies), [], 1, b"")
    return made, [(topic, batch) for topic, _, batch in made.batches(commit, 1000, (), lambda: asked)]


def _batches(replies, batch_bytes):
    return [batch for _, batch in _made(replies, batch_bytes)[1]]


def _alone(reply):
    """Return the bytes of a batch with one reply."""
    batch = BatchBuilder(1, 0, is_transactional=1)
    batch.append(timestamp=0, key=reply.key, value=reply.body, headers=reply_headers(reply.content_type, reply.headers))
    return batch.size()


@given(replies=st.lists(_REPLY, min_size=1, max_size=60), batch_bytes=st.integers(150, 2000))
def test_no_batch_is_larger_than_its_topic_takes(replies, batch_bytes):
    """Each answer is in some batch, or is given up and noted, if its topic does not take it even alone."""
    made, batches = _made(replies, {"a": batch_bytes, "d": 10_000})
    assert all(batch.size() <= batch_bytes for topic, batch in batches if topic == "a")
    gone = sum(_alone(reply) > batch_bytes for reply in replies)
    assert sum(batch.record_count() for topic, batch in batches if topic == "a") == len(replies) - gone
    assert sum(batch.record_count() for topic, batch in batches if topic == "d") == made.given_up == gone


@pytest.mark.parametrize(("codec", "number"), [("none", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)])
def test_batches_are_compressed_as_is_asked(codec, number):
    """What is in them is what it was; whatever reads Kafka reads it."""
    replies = [Reply(b"x" * 500 + b"%d" % index) for index in range(100)]
    data = bytearray()
    for _, batch in _made(replies, {}, compression=codec)[1]:
        batch._set_producer_state(1, 0, 0)
        data += batch._build()
    assert data[22] & 7 == number
    assert (len(data) < 50_000) == (codec != "none")
    read = FetchedBatches(bytes(data))
    found = []
    while read.has_next():
        batch = read.next_batch()
        assert batch is not None
        found += [record.value for one in batch for record in one.records]
    assert found == [reply.body for reply in replies]


def test_a_batch_takes_in_large_and_small_answers():
    """However they alternate: else each would wait for the one before it to be taken in by the broker."""
    large, small = Reply(bytes(5000), "x/large"), Reply(b"{}")
    for replies, most in (([large, small] * 500, 4), ([small, large] * 500, 4), ([small] * 1000, 1)):
        batches = _batches(replies, {})
        assert sum(batch.record_count() for batch in batches) == 1000
        assert len(batches) <= most


def _only(run):
    topic, headers, (key,), (body,) = run
    return topic, headers, key, body


def _one_by_one(commit, made, settings, unavailable, asked):
    """Return topic, headers, key and body of all that is written for the replies, each looked at by itself."""
    for number, reply in enumerate(commit.replies.rows()):
        topic = reply_topic(reply.headers, settings.reply_topics, settings.answers)
        noted = reply.key if settings.dead_letter_bodies else None
        if topic not in unavailable:
            yield topic, reply_headers(reply.content_type, reply.headers), reply.key, reply.body
        elif settings.dead_letter:
            offset, query = asked[number]
            yield _only(made._note(noted, "undelivered", offset, query or b"", reply_topic=topic))
        if reply.rejected and settings.dead_letter:
            yield _only(made._note(noted, reply.rejected.reason, reply.rejected.position - 1, reply.rejected.body))


_NAMED = st.sampled_from([(), (("reply-topic", b"r"),), (("reply-topic", b"s"), ("x", b"1")), (("x", b""),)])
_ANY = st.builds(
    Reply,
    st.binary(max_size=9),
    st.sampled_from([JSON, "x/other"]),
    _NAMED,
    key=st.none() | st.binary(max_size=3),
    rejected=st.none() | st.builds(Rejected, st.just("why"), st.integers(1, 9), st.binary(max_size=3)),
)


@given(
    replies=st.lists(_ANY, max_size=40),
    unavailable=st.sets(st.sampled_from(["r", "s"])),
    dead_letter=st.none() | st.just("d"),
    bodies=st.booleans(),
)
def test_runs_write_what_one_by_one_would_be_written(replies, unavailable, dead_letter, bodies):
    """No reply is lost, doubled, moved to another topic or key, or written before an earlier one of its topic."""
    settings = replace(
        _SETTINGS, reply_topics=frozenset({"r", "s"}), dead_letter=dead_letter, dead_letter_bodies=bodies
    )
    made = CommitBatches(settings, 0, {}, {})
    commit = Commit(Replies.of(replies), [], 1, b"")
    asked = [(number, b"%d" % number if number % 3 else None) for number in range(len(replies))]
    expected = list(_one_by_one(commit, made, settings, unavailable, asked))
    found = [
        (topic, headers, key, body)
        for topic, headers, keys, values in made._runs(commit, 0, unavailable, lambda: asked)
        for key, body in zip(keys, values, strict=True)
    ]
    assert found == expected
