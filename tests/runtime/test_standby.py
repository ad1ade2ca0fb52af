"""A shard that was followed is taken over where its owner had committed, or else its snapshot is as good as ever."""

import asyncio

import pytest

from connectors.base import Committed
from oracle.errors import BusError, LogDivergedError, MovedError, RetiredError, SourceError
from oracle.runtime.marks import CommitMark
from oracle.runtime.standby import Follower, Standby
from tests.support.memory_bus import MemoryLog, MemorySink, MemorySource
from tests.support.shards import (
    bodies,
    daemon_over,
    deliveries_of,
    first_snapshot,
    mixed_bodies,
    new_shard,
    new_store,
    process_in_batches,
    run_daemon,
    same_state,
    small_plan,
    state_of,
)
from tests.support.stores import MemoryStore
from tests.support.waiting import until

_FIRST, _ALL = 400, 600  # a phase ends within the first


def _follower(log, committed=None):
    async def find():
        found = committed() if committed is not None else log.committed
        return None if found is None else (found, MemorySource(log))

    return Follower(small_plan(), first_snapshot, find)


def _served(contents):
    """Return a log whose contents were answered, and the store as it was before."""
    log = MemoryLog.of(contents)
    run_daemon(daemon_over(log, new_store(), MemorySink(log)))
    return log


class _Unread(MemoryStore):
    """A store whose snapshot nobody may read."""

    def load_latest(self, _digest):
        raise AssertionError("the snapshot was read")


def _taken_over(log, shard, store):
    """Serve to the end with a shard that was followed, and return the answers."""

    async def warm():
        return shard

    daemon = daemon_over(log, store, MemorySink(log), warm=warm)
    run_daemon(daemon)
    return [reply.body for reply in log.replies]


def _new(kind):
    store = kind(new_store()._master_key)
    store.save(first_snapshot())
    return store


@pytest.mark.parametrize("followed", [100, _FIRST])
def test_it_goes_on_from_what_was_followed(followed):
    """At the last commit or short of it, no snapshot is read; the answers are those of one run."""
    contents = mixed_bodies(_ALL)
    log = _served(contents[:_FIRST])
    shard = new_shard()
    process_in_batches(shard, deliveries_of(contents[:followed]))
    for body in contents[_FIRST:]:
        log.append(body)
    answers = _taken_over(log, shard, _new(_Unread))
    assert answers == process_in_batches(new_shard(), deliveries_of(contents)).replies


@pytest.mark.parametrize("what", ["other queries", "ahead", "behind the snapshot", "none"])
def test_otherwise_it_begins_with_the_snapshot(what):
    """A shard that is not what was answered, or older than the snapshot, decides nothing."""
    contents = mixed_bodies(_ALL)
    log, store = _served(contents[:_FIRST]), _new(MemoryStore)
    shard = new_shard()
    if what == "other queries":
        process_in_batches(shard, deliveries_of(mixed_bodies(_FIRST, seed=5)))
    elif what == "ahead":
        process_in_batches(shard, deliveries_of(contents))
    elif what == "behind the snapshot":
        later = new_shard()
        process_in_batches(later, deliveries_of(contents[:300]))
        store.save(later.snapshot())
    for body in contents[_FIRST:]:
        log.append(body)
    answers = _taken_over(log, None if what == "none" else shard, store)
    assert answers == process_in_batches(new_shard(), deliveries_of(contents)).replies


async def test_it_is_followed_step_by_step():
    """From commit to commit it has the very state of its owner; nothing is committed, and no step goes beyond one."""
    contents = mixed_bodies(_ALL)
    owner, log = new_shard(), MemoryLog.of(contents)
    committed: list[Committed | None] = [None]
    follower = _follower(log, lambda: committed[0])
    await follower.follow()
    assert follower.shard is None
    for stop in (50, 51, 400, 400, _ALL):
        part = deliveries_of(contents)[owner.position : stop]
        if part:
            process_in_batches(owner, part)
        committed[0] = Committed(owner.position, owner.mark.pack())
        await follower.follow()
        assert follower.shard is not None
        assert (follower.shard.mark, follower.shard.position) == (owner.mark, stop)
        assert same_state(state_of(follower.shard), state_of(owner))
    assert log.commits == []


async def test_what_goes_wrong_leaves_no_shard():
    """Neither one of another log nor one that was half brought forward."""
    contents = bodies(_FIRST)
    owner = new_shard()
    process_in_batches(owner, deliveries_of(contents))
    committed = Committed(owner.position, owner.mark.pack())
    changed = MemoryLog.of([*contents[:-1], b'{"x":[0.1,0.2]}'])
    follower = _follower(changed, lambda: committed)
    with pytest.raises(LogDivergedError):
        await follower.follow()
    assert follower.shard is None
    short = _follower(MemoryLog.of(contents[:100]), lambda: committed)
    with pytest.raises(SourceError):
        await short.follow()
    assert short.shard is None


class _Scripted(Follower):
    """Follows nothing: does what the test says, and has a shard after that."""

    def __init__(self, act):
        self.shard = None
        self.times = 0
        self._act = act

    async def follow(self):
        self.times += 1
        await self._act()
        self.shard = new_shard()


async def _nothing():
    pass


async def test_others_are_followed_until_they_are_taken():
    """Each is told once; one is handed over once; one that is ours is let be."""
    others = {0, 1, 2}
    told: list[int] = []
    made: list[tuple[int, _Scripted]] = []

    def make(number):
        made.append((number, _Scripted(_nothing)))
        return made[-1][1]

    standby = Standby(make, lambda: others, told.append)
    async with standby.running():
        await until(lambda: told == [0, 1, 2])
        others.discard(1)
        assert await standby.take(1) is not None
        assert await standby.take(1) is None
        others.discard(2)
        await until(lambda: len([one for number, one in made if number == 0 and one.times]) > 0)
    assert await standby.take(0) is None


async def test_one_that_is_just_brought_forward_is_waited_for_a_little():
    """Soon done, it is taken; else it is left, and the snapshot is read."""
    for seconds, taken in ((0.2, True), (30.0, False)):
        begun = asyncio.Event()

        async def slow(seconds=seconds, begun=begun):
            begun.set()
            await asyncio.sleep(seconds)

        scripted = _Scripted(slow)
        standby = Standby(lambda _number, scripted=scripted: scripted, lambda: {0})  # type: ignore[misc]
        async with standby.running():
            await begun.wait()
            assert (await standby.take(0) is not None) is taken


async def test_one_that_cannot_be_followed_does_not_hold_the_others():
    """For want of the bus it is tried again with the others; for any other reason it is let be for a while."""
    tries: dict[int, int] = {0: 0, 1: 0, 2: 0}
    errors = {0: LogDivergedError("other log"), 1: BusError("away")}

    def make(number):
        async def act():
            tries[number] += 1
            if number in errors:
                raise errors[number]

        return _Scripted(act)

    standby = Standby(make, lambda: {0, 1, 2})
    async with standby.running():
        await until(lambda: tries[1] >= 2)
        assert tries[0] == 1
        assert await standby.take(2) is not None
        assert await standby.take(0) is None
        assert await standby.take(1) is None


def test_a_mark_that_is_the_last_one_is_followed_no_further():
    """A retired or moved model is not answered again by a standby either."""
    contents = bodies(50)
    owner = new_shard()
    process_in_batches(owner, deliveries_of(contents))
    for last in (owner.mark.pack_last(), CommitMark.unpack(owner.mark.pack()).pack_left(bytes(16))):
        follower = _follower(MemoryLog.of(contents), lambda last=last: Committed(50, last))
        with pytest.raises((RetiredError, MovedError)):
            asyncio.run(follower.follow())
        assert follower.shard is None
