"""What a commit writes, as the client's batches."""

from hypothesis import given
from hypothesis import strategies as st

from connectors.base import Commit, Replies, Reply
from connectors.kafka.commit_batches import CommitBatches
from connectors.kafka.settings import KafkaSettings

_SETTINGS = KafkaSettings(servers=("b:9092",), topic="q", answers="a", group="g", model="m", dead_letter="d")
_REPLY = st.builds(
    Reply,
    st.binary(max_size=90),
    st.sampled_from(["x/one", "x/other"]),
    key=st.none() | st.binary(),
    rejected=st.none(),
)


def _batches(replies, batch_bytes):
    made = CommitBatches(_SETTINGS, 0, {"a": 1, "d": 1}, batch_bytes)
    return [batch for _, _, batch in made.batches(Commit(Replies.of(replies), [], 1, b""), 1000, (), ())]


@given(replies=st.lists(_REPLY, min_size=1, max_size=60), batch_bytes=st.integers(200, 2000))
def test_no_batch_is_larger_than_its_topic_takes(replies, batch_bytes):
    """All answers are in some batch; only one that is too large by itself is beyond the room there is."""
    batches = _batches(replies, {"a": batch_bytes})
    assert sum(batch.record_count() for batch in batches) == len(replies)
    assert all(batch.size() <= batch_bytes or batch.record_count() == 1 for batch in batches)


def test_a_batch_takes_in_large_and_small_answers():
    """However they alternate: else each would wait for the one before it to be taken in by the broker."""
    large, small = Reply(bytes(5000), "x/large"), Reply(b"{}")
    for replies, most in (([large, small] * 500, 4), ([small, large] * 500, 4), ([small] * 1000, 1)):
        batches = _batches(replies, {})
        assert sum(batch.record_count() for batch in batches) == 1000
        assert len(batches) <= most
