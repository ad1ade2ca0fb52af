import io
import random

import numpy as np
import pyarrow as pa
import pytest
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
    small_plan,
    state_of,
)

_BAD = [b"", b"{", b'{"id":"r","x":[1]}', b'{"id":"r","x":[1e999,2]}', b'{"id":1.5,"x":[1,2]}', b"\xff", b"x" * 70_000]
_MUTATIONS = 20_000


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


def test_single_deliveries_are_cuts_too():
    """One delivery a batch, over two phases."""
    deliveries = mixed(9, 600)
    whole, parts = new_shard(), new_shard()
    expected = process_in_batches(whole, deliveries)
    assert process_in_batches(parts, deliveries, range(600)) == expected
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


def _mutated(rng: random.Random, seeds: list[Delivery], position: int) -> Delivery:
    """Return a message with one to four bytes changed, cut, doubled or taken from elsewhere."""
    chosen = rng.choice(seeds)
    body = bytearray(chosen.body or b"")
    for _ in range(rng.randint(1, 4)):
        offset = rng.randint(0, len(body))
        kind = rng.randrange(6)
        if kind == 0:
            body[offset : offset + 1] = bytes([rng.choice([0, 1, 34, 44, 92, 123, 127, 128, 255, rng.randrange(256)])])
        elif kind == 1:
            del body[offset : offset + rng.randint(1, 9)]
        elif kind == 2:
            body[offset:offset] = rng.choice(
                [b"NaN", b"1e999", b"\\ud800", b"[[", b"}", b"null", b"-", b"9" * 30, b"\xc3"]
            )
        elif kind == 3:
            body[offset : offset + 4] = rng.choice(
                [b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff\xff\xff\xff", b"\0\0\0\0"]
            )
        elif kind == 4:
            body[offset:offset] = body[offset : offset + rng.randint(1, 40)]
        elif rng.random() < 0.2:
            del body[offset:]
    content = chosen.content_type if rng.random() < 0.97 else rng.choice([JSON, ARROW_STREAM, "text/plain"])
    return Delivery(position, bytes(body), content)


@pytest.mark.parametrize("chunk", range(4))
def test_mutated_messages_never_crash(chunk):
    """Of some 20,000 mutated messages each gets one reply; those that are no query take no round."""
    rng = random.Random(chunk)  # noqa: S311  # test data
    table = {"id": ["x", "yy"], "a": [0.1, None], "b": [0.2, 0.4], "note": [b"n", None]}
    seeds = [
        *(Delivery(1, body) for body in bodies(5)),
        Delivery(1, b'{"id":17,"x":{"a":0.25,"b":-1e-3},"note":["\\u00e9",{"k":null}]}'),
        Delivery(1, '{"id":"é","a":0.25,"b":2e2}'.encode()),
        Delivery(1, arrow_body(pa.table(table)), ARROW_STREAM),
        Delivery(
            1, arrow_body(pa.table({"id": [1, 2], "a": pa.array([1, 2], pa.int8()), "b": [0.5, 0.5]})), ARROW_STREAM
        ),
    ]
    shard = new_shard()
    position = rounds = answered = 0
    while position < _MUTATIONS // 4:
        batch = [_mutated(rng, seeds, position + number) for number in range(1, 26)]
        if shard.facts().round > small_plan().rounds - 200:
            shard = new_shard()
            rounds = 0
        outcome = process(shard, batch)
        replies = outcome.commit.replies
        assert len(replies) == len(batch)
        assert sum(rejected is not None for rejected in replies.rejected) == len(outcome.rejections)
        expected = sum(map(_rounds, replies.rows()))
        assert outcome.rounds == expected
        rounds += outcome.rounds
        assert shard.facts().round == rounds
        position += len(batch)
        answered += outcome.rounds > 0
    assert answered > _MUTATIONS / 4 / 25 / 2


def _rounds(reply):
    """Count the rounds that a reply says it took."""
    if reply.content_type == JSON:
        assert (reply.rejected is not None) == (b'"error":' in reply.body)
        assert reply.rejected or b'"label":' in reply.body
        return 0 if reply.rejected else 1
    with pa.ipc.open_stream(io.BytesIO(reply.body)) as reader:
        return sum(number >= 0 for number in reader.read_all()["round"].to_pylist())
