"""Shards that come and go: what an old one leaves behind does not reach the new one."""

import asyncio
import io
import time

import pytest

from oracle.errors import ResourceError, SourceError
from oracle.runtime.fleet import Fleet
from oracle.telemetry.log import PublicLog
from oracle.telemetry.registry import Registry
from tests.support.shards import small_plan


class _Stubborn:
    """A shard that is told to stop and does not, until it is let go or cut off for the second time."""

    def __init__(self, told=None):
        self.told = [] if told is None else told
        self.stopped = asyncio.Event()
        self.let_go = asyncio.Event()
        self.cuts = 0
        self.error = None

    @property
    def serving(self):
        return True

    def stop(self):
        self.told.append("stop")
        self.stopped.set()

    async def run(self):
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.told.append("cut")
                self.cuts += 1
                if self.cuts > 1 or not self.stopped.is_set():
                    raise
        if self.error is not None:
            raise self.error
        return 0


def _fleet(shards, drain_seconds=0.1):
    made = iter(shards)
    return Fleet(
        lambda _partition: next(made),
        Registry(small_plan(), PublicLog(io.StringIO()), version="test", grouped=True),
        drain_seconds=drain_seconds,
        retry_seconds=0.0,
        clock=time.monotonic,
    )


async def _turns():
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("error", [None, SourceError("the old one's")])
async def test_a_shard_that_ends_late_does_not_take_the_new_one_with_it(error):
    """Cut off in vain, revoked and given back: the new one is still told to stop when its turn comes."""
    old, new, third = _Stubborn(), _Stubborn(), _Stubborn()
    fleet = _fleet([old, new, third])
    fleet.assigned(frozenset({0}))
    await _turns()
    await fleet.revoked(frozenset({0}))
    assert old.cuts == 1
    fleet.assigned(frozenset({0}))
    await _turns()
    old.error = error
    old.let_go.set()
    await _turns()
    for shard in (new, third):  # the third: what the old one ended with does not keep the partition from us
        fleet.assigned(frozenset({0}))
        await _turns()
        stopping = asyncio.create_task(fleet.revoked(frozenset({0})))
        await _turns()
        assert shard.stopped.is_set()
        shard.let_go.set()
        await stopping
        assert shard.cuts == 0


async def test_many_shards_that_do_not_stop_take_no_longer_than_one():
    """Each has `drain_seconds` to stop and as long to let go, all at once: none waits for what another one does."""
    told: list[str] = []
    shards = [_Stubborn(told) for _ in range(10)]
    fleet = _fleet(shards)
    fleet.assigned(frozenset(range(10)))
    await _turns()
    await fleet.revoked(frozenset(range(10)))
    assert told == ["stop"] * 10 + ["cut"] * 10
    assert all(shard.cuts == 1 for shard in shards)
    for shard in shards:
        shard.let_go.set()
    await _turns()


class _Group:
    """A membership that gives no partition and waits."""

    async def run(self, _on_failure):
        await asyncio.Event().wait()


async def test_want_of_resources_ends_the_daemon():
    """A restart mends it; a shard that needs an operator does not end the others, this one does."""
    ending, going_on = _Stubborn(), _Stubborn()
    ending.error = ResourceError("no memory")
    fleet = _fleet([ending, going_on])
    running = asyncio.create_task(fleet.run(_Group()))
    await _turns()
    fleet.assigned(frozenset({0, 1}))
    await _turns()
    ending.let_go.set()
    await going_on.stopped.wait()
    going_on.let_go.set()
    with pytest.raises(ResourceError):
        await running
