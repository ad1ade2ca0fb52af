import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import ARROW_STREAM, JSON, Delivery
from oracle.accounting.ledger import PhaseEnded, SideRearmed, decode
from tests.support.shards import (
    arrow_body,
    bodies,
    new_shard,
    process,
    process_in_batches,
    same_state,
    state_of,
)

_BAD = [b"", b"{", b'{"id":"r","x":[1]}', b'{"id":"r","x":[1e999,2]}', b'{"id":1.5,"x":[1,2]}', b"\xff", b"x" * 70_000]


def _arrow(rng, rows):
    features = rng.uniform(-0.1, 1.1, (rows, 2))
    features[rng.random((rows, 2)) < 0.03] = np.nan
    nulls = rng.random(rows) < 0.1
    columns = [pa.array(features[:, index], mask=nulls, from_pandas=False) for index in (0, 1)]
    return arrow_body(pa.table({"id": [f"r{row}" for row in range(rows)], "a": columns[0], "b": columns[1]}))


def mixed(seed, count):
    """Return deliveries of all kinds in random order: queries, tombstones, rejects, Arrow messages good and bad."""
    rng = np.random.default_rng(seed)
    queries = bodies(count, seed)
    deliveries = []
    for position in range(1, count + 1):
        draw = rng.random()
        if draw < 0.55:
            deliveries.append(Delivery(position, queries[position - 1]))
        elif draw < 0.7:
            deliveries.append(Delivery(position, None, (JSON, ARROW_STREAM)[position % 2]))
        elif draw < 0.8:
            deliveries.append(Delivery(position, _BAD[int(rng.integers(len(_BAD)))]))
        elif draw < 0.95:
            deliveries.append(Delivery(position, _arrow(rng, int(rng.integers(0, 12))), ARROW_STREAM))
        else:
            deliveries.append(Delivery(position, b"junk", ("text/plain", ARROW_STREAM)[position % 2]))
    return deliveries


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 3), cuts=st.lists(st.integers(1, 599), max_size=60))
def test_cuts_do_not_show(seed, cuts):
    """A stream of all kinds of messages cut anywhere gives the same replies, ledger, mark and state, byte for byte."""
    deliveries = mixed(seed, 600)
    whole, parts = new_shard(), new_shard()
    expected = process_in_batches(whole, deliveries)
    events = [decode(event) for event in expected.ledger]
    assert any(isinstance(event, PhaseEnded) for event in events)
    assert any(isinstance(event, SideRearmed) for event in events)
    assert process_in_batches(parts, deliveries, cuts) == expected
    assert same_state(state_of(parts), state_of(whole))


def test_rejected_deliveries_do_not_shift_rounds():
    """The stream without its wholly rejected deliveries gives the same other replies, ledger, mark and state."""
    deliveries = mixed(5, 400)
    with_bad, without = new_shard(), new_shard()
    outcome = process(with_bad, deliveries)
    replies = list(outcome.commit.replies.rows())
    kept = [delivery for delivery, reply in zip(deliveries, replies, strict=True) if not reply.rejected]
    assert 20 < len(kept) < 390
    expected = process(without, kept)
    assert [reply for reply in replies if not reply.rejected] == list(expected.commit.replies.rows())
    assert (outcome.commit.ledger, with_bad.mark) == (expected.commit.ledger, without.mark)
    assert same_state(state_of(with_bad), state_of(without))


def test_headers_go_back_to_their_asker():
    """Replies of every kind carry the headers of their delivery."""
    deliveries = [delivery._replace(headers=(("reply-to", b"%d" % delivery.position),)) for delivery in mixed(2, 100)]
    replies = process(new_shard(), deliveries).commit.replies
    assert list(replies.headers) == [delivery.headers for delivery in deliveries]
