"""Every kind of predictor is served by the same shard and daemon: these know none of them by name."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.planning.kinds import KINDS
from oracle.planning.questions import QuestionPlan
from oracle.runtime.shard import Shard
from oracle.state.format import decode, encode
from oracle.state.shard_id import ShardId
from tests.predictors.examples import example
from tests.support.memory_bus import Abort, CrashError, MemoryLog, MemorySink
from tests.support.shards import (
    MASTER_KEY,
    daemon_over,
    deliveries_of,
    first_snapshot,
    mixed_bodies,
    new_shard,
    new_store,
    process_in_batches,
    run_daemon,
    same_state,
    state_of,
)

_COUNT = 900
_ONLY = ShardId(0, 1)
_KINDS = pytest.mark.parametrize("predictor", KINDS)


@_KINDS
def test_replies_do_not_depend_on_the_batches(predictor):
    """Queries, tombstones and rejects in any batches: replies, ledger, mark and state are the same bytes."""
    plan = example(predictor)
    deliveries = deliveries_of(mixed_bodies(_COUNT, plan=plan))
    whole = new_shard(plan)
    expected = process_in_batches(whole, deliveries)

    @settings(max_examples=8, deadline=None, derandomize=True, database=None)
    @given(cuts=st.lists(st.integers(1, _COUNT - 1), max_size=30))
    def check(cuts: list[int]) -> None:
        shard = new_shard(plan)
        assert process_in_batches(shard, deliveries, cuts) == expected
        assert same_state(state_of(shard), state_of(whole))

    check()
    replies = [json.loads(reply) for reply in expected.replies]
    if plan.answers == "label":
        assert {reply.get("label") for reply in replies} == {0, 1, None}
    elif isinstance(plan, QuestionPlan):
        assert max(reply.get("paid", 0) for reply in replies) > plan.paid // 2
        assert len({reply.get("value") for reply in replies}) > plan.paid // 2
    else:
        values = [reply.get("value") for reply in replies]
        assert None in values
        assert len(set(values)) > _COUNT / 2


@_KINDS
def test_snapshots_restore_the_shard(predictor):
    """From any snapshot, encrypted and read back, the rest is answered as it was."""
    plan = example(predictor)
    deliveries = deliveries_of(mixed_bodies(_COUNT, plan=plan))
    expected = process_in_batches(new_shard(plan), deliveries)
    for point in (1, 17, 300, 555, 880):
        shard = new_shard(plan)
        process_in_batches(shard, deliveries[:point])
        data = encode(shard.snapshot().bound(_ONLY), MASTER_KEY)
        rest = process_in_batches(Shard(plan, decode(data, MASTER_KEY, plan.digest)), deliveries[point:])
        assert rest.replies == expected.replies[point:]
        assert rest.mark == expected.mark


def _with_aborts(deliveries, positions):
    items = [*deliveries]
    for position in sorted(positions, reverse=True):
        items.insert(position - 1, Abort())
    return items


@_KINDS
def test_crashes_change_no_answer(predictor):
    """A daemon that dies again and again: replies, ledger and mark are those of one that never did."""
    plan = example(predictor)
    deliveries = deliveries_of(mixed_bodies(_COUNT, plan=plan))
    expected = process_in_batches(new_shard(plan), deliveries)
    items = _with_aborts(deliveries, {1, 2, 150, 151, 333, 600, 899})
    log, store, crashes = MemoryLog(items), new_store(plan), 0
    while crashes < 20:
        try:
            run_daemon(daemon_over(log, store, MemorySink(log), plan=plan))
            break
        except CrashError:
            crashes += 1
    assert crashes == 7
    assert [reply.body for reply in log.replies] == expected.replies
    assert log.ledger == expected.ledger
    assert log.committed is not None
    assert log.committed.metadata == expected.mark.pack()


@_KINDS
def test_snapshots_have_one_size(predictor):
    """The encrypted snapshot's length says nothing of the data: it is that of any other queries' at the round."""
    plan = example(predictor)
    sizes = set()
    for seed in (1, 2, 3):
        shard = Shard(plan, first_snapshot(plan))
        process_in_batches(shard, deliveries_of(mixed_bodies(500, seed, plan)))
        sizes.add(len(encode(shard.snapshot().bound(_ONLY), MASTER_KEY)))
    assert len(sizes) == 1
