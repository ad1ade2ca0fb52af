import asyncio
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.base import METADATA_LIMIT, Commit, Committed, Deliveries, Delivery, Replies
from oracle.errors import LogDivergedError, MovedError, PlanExhaustedError, SourceError, StateError
from oracle.runtime.marks import CommitMark, Passed
from oracle.runtime.recovery import _Repeating, catch_up, repeat_in_doubt
from oracle.runtime.shard import Shard
from oracle.state.format import encode
from tests.support.memory_bus import MemoryLog, MemorySink, MemorySource
from tests.support.shards import (
    MASTER_KEY,
    bodies,
    daemon_over,
    deliveries_of,
    first_snapshot,
    new_shard,
    new_store,
    process_in_batches,
    run_daemon,
    same_state,
    small_plan,
    state_of,
)
from tests.support.waiting import TIMEOUT

_SNAPSHOT, _COMMIT, _END = 100, 500, 600  # a phase ends in between


def _history():
    """Return the log, a snapshot early in it, and the commit later in it with the state that made it."""
    deliveries = deliveries_of([*bodies(250), b"?", None, *bodies(_END - 252, seed=2)])
    shard = new_shard()
    process_in_batches(shard, deliveries[:_SNAPSHOT])
    snapshot = shard.snapshot()
    process_in_batches(shard, deliveries[_SNAPSHOT:_COMMIT])
    return deliveries, snapshot, Committed(_COMMIT, shard.mark.pack()), shard


def _recover(deliveries, snapshot, committed):
    shard = Shard(small_plan(), snapshot)
    source = MemorySource(deliveries)

    async def run():
        rounds, behind = await catch_up(shard, source, committed)
        return rounds, [*behind.rows(), *(await source.fetch(10_000, 0)).rows()]

    return shard, *asyncio.run(run())


def test_state_comes_back():
    """Re-execution gives the very state that made the commit, and hands over what is behind it, once."""
    deliveries, snapshot, committed, original = _history()
    shard, rounds, behind = _recover(deliveries, snapshot, committed)
    assert rounds == _COMMIT - _SNAPSHOT - 1  # one was rejected
    assert (shard.mark, shard.position) == (original.mark, _COMMIT)
    assert same_state(state_of(shard), state_of(original))
    assert behind == deliveries[_COMMIT:]


def test_progress_goes_up_to_the_commit():
    """The last position told is the commit's."""
    deliveries, snapshot, committed, _ = _history()
    told: list[int] = []
    asyncio.run(catch_up(Shard(small_plan(), snapshot), MemorySource(deliveries), committed, told.append))
    assert told == sorted(told)
    assert told[-1] == _COMMIT


class _SlowShard(Shard):
    """One whose work takes until the event loop has gone on for a while."""

    went_on = threading.Event()

    def _fitting(self, batch):
        assert self.went_on.wait(TIMEOUT)
        return super()._fitting(batch)


class _DoubtfulSink(MemorySink):
    """One that may have let answers out."""

    def __init__(self, log, doubt):
        super().__init__(log)
        self._doubt = doubt

    @property
    def in_doubt(self):
        return self._doubt


@pytest.mark.parametrize("doubtful", [False, True])
async def test_the_event_loop_goes_on_while_it_is_re_executed(doubtful):
    """Probes are answered and the bus gets its signs of life during the shard's work, also for answers in doubt."""
    deliveries, snapshot, committed, original = _history()
    shard, source = _SlowShard(small_plan(), snapshot), MemorySource(deliveries)
    shard.went_on.clear()

    async def tick():
        for _ in range(5):
            await asyncio.sleep(0.01)
        shard.went_on.set()

    ticking = asyncio.create_task(tick())
    if doubtful:
        sink = _DoubtfulSink(MemoryLog(deliveries), committed)
        await sink.open()
        await source.open(_SNAPSHOT)
        await repeat_in_doubt(shard, source, sink, Deliveries())
    else:
        await catch_up(shard, source, committed)
    await ticking
    assert shard.mark == original.mark


def _changed(deliveries):
    return [d._replace(body=b'{"x":[0.5,0.5]}') if d.position == 300 else d for d in deliveries]


def _last_bit(deliveries):
    return [d._replace(body=d.body.replace(b"0.", b"0.0", 1)) if d.position == 300 else d for d in deliveries]


def _dropped(deliveries):
    return [delivery for delivery in deliveries if delivery.position != 300]


def _dropped_and_renumbered(deliveries):
    return [delivery._replace(position=number) for number, delivery in enumerate(_dropped(deliveries), 1)]


def _inserted(deliveries):
    bodies_ = [delivery.body for delivery in deliveries]
    return deliveries_of([*bodies_[:300], b'{"x":[0.5,0.5]}', *bodies_[300:]])


def _swapped(deliveries):
    contents = [delivery.body for delivery in deliveries]
    contents[300], contents[301] = contents[301], contents[300]
    return deliveries_of(contents)


def _tombstone(deliveries):
    return [d._replace(body=None) if d.position == 300 else d for d in deliveries]


def _now_rejected(deliveries):
    return [d._replace(body=b"?") if d.position == 300 else d for d in deliveries]


def _no_longer_rejected(deliveries):
    return [d._replace(body=b'{"x":[0.5,0.5]}') if d.position == 251 else d for d in deliveries]


def _commit_gone(deliveries):
    return [delivery for delivery in deliveries if delivery.position != _COMMIT]


_DIVERGED = [
    _changed,
    _last_bit,
    _dropped,
    _dropped_and_renumbered,
    _inserted,
    _swapped,
    _tombstone,
    _now_rejected,
    _no_longer_rejected,
    _commit_gone,
]


@pytest.mark.parametrize("change", _DIVERGED, ids=lambda change: change.__name__.strip("_"))
def test_diverged_log_is_found(change):
    """A log that differs between snapshot and commit stops the daemon; sink and store stand as they were."""
    deliveries, snapshot, committed, _ = _history()
    with pytest.raises(LogDivergedError, match="log diverged"):
        _recover(change(deliveries), snapshot, committed)
    log, store = MemoryLog(change(deliveries)), new_store()
    store.save(snapshot)
    before = store.latest_bytes()
    sink = MemorySink(log)
    asyncio.run(_commit_only(sink, committed))
    commits = list(log.commits)
    with pytest.raises(LogDivergedError):
        run_daemon(daemon_over(log, store, MemorySink(log)))
    assert log.commits == commits
    assert store.latest_bytes() == before


async def _commit_only(sink, committed):
    await sink.open()
    await sink.commit(Commit(Replies(), [], committed.position, committed.metadata))


def test_change_before_the_snapshot_or_in_an_id_is_no_divergence():
    """The tag covers what the noise depends on, from the snapshot on: not ids, not older queries."""
    deliveries, snapshot, committed, original = _history()
    changed = [
        d._replace(body=b"?")
        if d.position == 50
        else d._replace(body=(d.body or b"").replace(b"q", b"Q"))
        if d.body
        else d
        for d in deliveries
    ]
    shard, _, _ = _recover(changed, snapshot, committed)
    assert shard.mark == original.mark


def test_commit_of_another_history_at_the_same_position():
    """Snapshot and commit at one position, but of different queries: diverged."""
    deliveries, snapshot, _, _ = _history()
    other = new_shard()
    process_in_batches(other, deliveries_of(bodies(_SNAPSHOT, seed=9)))
    with pytest.raises(LogDivergedError):
        _recover(deliveries, snapshot, Committed(_SNAPSHOT, other.mark.pack()))


@pytest.mark.parametrize("metadata", [b"", b"somebody else's"])
def test_foreign_commit_is_refused(metadata):
    """A sink of something else is not written to."""
    deliveries, snapshot, _, _ = _history()
    with pytest.raises(LogDivergedError, match="not written by Perpetua"):
        _recover(deliveries, snapshot, Committed(_COMMIT, metadata))


@pytest.mark.parametrize("committed", [None, Committed(_SNAPSHOT - 1, b"")])
def test_snapshot_ahead_of_the_commits_is_refused(committed):
    """Answers would be missing, so an operator has to look; the message names both positions and what to do."""
    deliveries, snapshot, _, _ = _history()
    with pytest.raises(StateError, match=f"{_SNAPSHOT}.*restore the sink's files"):
        _recover(deliveries, snapshot, committed)


@pytest.mark.parametrize("end", [_SNAPSHOT, _SNAPSHOT + 1, _COMMIT - 1])
def test_truncated_log_is_a_source_error(end):
    """A log that ends before the commit cannot be re-executed."""
    deliveries, snapshot, committed, _ = _history()
    with pytest.raises(SourceError, match=f"position {_COMMIT}"):
        _recover(deliveries[:end], snapshot, committed)


def test_log_that_lost_its_beginning_is_enough():
    """Only what is behind the snapshot is read again."""
    deliveries, snapshot, committed, original = _history()
    shard, _, _ = _recover(deliveries[_SNAPSHOT - 1 :], snapshot, committed)
    assert shard.mark == original.mark
    with pytest.raises(SourceError):
        _recover(deliveries[_SNAPSHOT:], snapshot, committed)


@pytest.mark.parametrize("extra", [1, 50])
def test_more_queries_than_the_plan_has_rounds_is_divergence(extra):
    """Queries that the plan could never have answered before a commit: diverged, not exhausted."""
    plan = small_plan()
    contents = bodies(plan.rounds)
    shard = new_shard()
    process_in_batches(shard, deliveries_of([*contents, *[b"?"] * 60]))
    committed = Committed(plan.rounds + 60, shard.mark.pack())
    changed = deliveries_of([*contents, *bodies(extra), *[b"?"] * (60 - extra)])
    for before in (0, plan.rounds):
        fresh = new_shard()
        if before:
            process_in_batches(fresh, deliveries_of(contents))
        with pytest.raises(LogDivergedError, match="more queries than the plan has rounds"):
            _recover(changed, fresh.snapshot(), committed)


def test_snapshot_of_another_plan_or_key_is_refused():
    """The daemon says so before it opens anything."""
    log = MemoryLog.of(bodies(3))
    store = new_store()
    store._data = encode(new_shard().snapshot(), bytes(reversed(MASTER_KEY)))
    with pytest.raises(StateError, match="another key"):
        run_daemon(daemon_over(log, store, MemorySink(log)))
    assert log.commits == []


def test_delivery_is_not_mutated():
    """Recovery leaves the log it was given alone."""
    deliveries, snapshot, committed, _ = _history()
    before = [Delivery(*delivery) for delivery in deliveries]
    _recover(deliveries, snapshot, committed)
    assert deliveries == before


@given(
    round_=st.integers(0, 2**64 - 1),
    tag=st.binary(min_size=16, max_size=16),
    lists=st.tuples(
        st.lists(st.integers(0, 2**64 - 1), max_size=32).map(tuple),
        st.lists(st.integers(0, 2**64 - 1), max_size=24).map(tuple),
    ),
    move=st.binary(min_size=16, max_size=16),
)
def test_the_last_mark_of_a_place_is_read_like_any_other(round_, tag, lists, move):
    """It names its move besides, and fits where others do; no other mark is taken for one of these."""
    mark = CommitMark(round_, tag, Passed(*lists))
    left = mark.pack_left(move)
    assert len(left) <= METADATA_LIMIT
    assert (CommitMark.unpack(left), CommitMark.left_by(left), CommitMark.is_last(left)) == (mark, move, False)
    for other in (mark.pack(), mark.pack_last()):
        assert CommitMark.left_by(other) is None


@pytest.mark.parametrize("cut", [4, 19, 20, 47])
def test_a_mark_of_a_place_that_was_left_is_read_whole_or_not_at_all(cut):
    """A part of one is nothing that a shard has written."""
    with pytest.raises(LogDivergedError, match="not written by Perpetua"):
        CommitMark.unpack(CommitMark(3, bytes(16)).pack_left(bytes(16))[:cut])


def test_no_copy_of_a_state_goes_on_where_it_has_left():
    """Behind the snapshot or at it: nothing is re-executed, nothing answered."""
    deliveries, snapshot, committed, original = _history()
    left = Committed(_COMMIT, CommitMark.unpack(committed.metadata).pack_left(bytes(16)))
    for copy in (snapshot, original.snapshot(), first_snapshot()):
        with pytest.raises(MovedError, match=f"position {_COMMIT}: the model left this place for another"):
            _recover(deliveries, copy, left)


class _Exhausted(Shard):
    """A shard whose plan has no round for what it is to repeat."""

    def repeat(self, _batch):
        time.sleep(0.05)
        raise PlanExhaustedError("no round left")


async def _read_on(shard):
    async with _Repeating(shard, lambda _position: None) as repeating:
        await repeating.add(shard.decode(Deliveries.of(deliveries_of([b'{"x":[0.5,0.5]}']))))
        raise SourceError("it ends")


async def test_a_diverged_log_is_told_though_reading_on_failed_meanwhile():
    """What is re-executed while the next batch is read came first, and says more than that there is no next one."""
    with pytest.raises(LogDivergedError, match="more queries than the plan has rounds"):
        await _read_on(_Exhausted(small_plan(), first_snapshot()))
