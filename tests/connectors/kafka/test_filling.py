"""The client's private builder is filled as its public one would be, and our own builder makes the same bytes."""

from itertools import islice
from types import SimpleNamespace
from typing import Any

from aiokafka.producer.message_accumulator import BatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from connectors.base import Commit, Reply
from connectors.kafka.commit_batches import CommitBatches
from connectors.kafka.filling import fill
from connectors.kafka.large_batches import LargeBatch
from connectors.kafka.settings import KafkaSettings

_RECORDS = st.lists(st.tuples(st.none() | st.binary(max_size=9), st.binary(max_size=90)), max_size=40)
_HEADERS = st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=9)), max_size=2)


def _appended(builder, records, headers):
    """Append records in the public way until one does not fit; return how many did."""
    for count, (key, value) in enumerate(records):
        if builder.append(timestamp=17, key=key, value=value, headers=headers) is None:
            return count
    return len(records)


@given(records=_RECORDS, headers=_HEADERS, size=st.integers(100, 2000), cut=st.integers(0, 40))
def test_batches_are_those_of_the_public_way(records, headers, size, cut):
    """The same bytes, the same count, full at the same record; also in two goes."""
    mine, theirs = (BatchBuilder(size, 0, is_transactional=1) for _ in range(2))
    done = fill(mine, islice(records, cut), 17, headers)
    assert done == mine.record_count()
    if done == min(cut, len(records)):
        done += fill(mine, records[cut:], 17, headers)
    appended = _appended(theirs, records, headers)
    assert (done, mine.record_count(), mine.closed()) == (appended, theirs.record_count(), theirs.closed())
    assert bytes(mine._build()) == bytes(theirs._build())


@given(
    records=_RECORDS,
    headers=st.lists(_HEADERS, min_size=1, max_size=3),
    size=st.integers(100, 4000),
    long=st.integers(0, 70_000),
    producer=st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1)),
)
def test_large_batches_are_those_of_the_public_way(records, headers, size, long, producer):
    """The same bytes, the same count, full at the same record; also with other headers behind, and another producer."""
    records.insert(len(records) // 2, (b"k", bytes(long)))
    mine, theirs = LargeBatch(size, 17), BatchBuilder(size, 0, is_transactional=1)
    for some in headers:
        done = fill(mine, records, 17, some)
        appended = _appended(theirs, records, some)
        assert (done, mine.size(), mine.closed()) == (appended, theirs.size(), theirs.closed())
    mine._set_producer_state(*producer)
    theirs._set_producer_state(*producer)
    assert mine.record_count() == theirs.record_count()
    assert mine._build() == mine._build() == bytes(theirs._build())
    assert mine.size() == theirs.size() == len(mine._build())
    assert fill(mine, records, 17, []) == 0


def test_a_batch_takes_in_large_and_small_answers():
    """However they alternate: else each would wait for the one before it to be taken in by the broker."""
    settings = KafkaSettings(servers=("b:9092",), topic="q", answers="a", group="g", model="m", dead_letter="d")
    outgoing = CommitBatches(settings, 0, {"a": 1, "d": 1}, {})
    producer: Any = SimpleNamespace(create_batch=lambda: BatchBuilder(settings.batch_bytes, 0, is_transactional=1))
    large, small = Reply(bytes(5000), "x/large"), Reply(b"{}")
    for replies, most in (([large, small] * 500, 4), ([small, large] * 500, 4), ([small] * 1000, 1)):
        batches = list(outgoing.batches(producer, Commit(replies, [], 1, b""), 1000, (), ()))
        assert sum(batch.record_count() for _, _, batch in batches) == 1000
        assert len(batches) <= most
