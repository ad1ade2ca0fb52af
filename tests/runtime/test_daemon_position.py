"""What a daemon does about its place in the stream where no round comes with it, and about a save that is cut short."""

import asyncio
import io
import threading

import pytest

from oracle.accounting.ledger import LedgerEvent
from oracle.runtime.daemon import Daemon, DaemonSettings
from oracle.telemetry.ledger_event import shard_event
from oracle.telemetry.log import PublicLog
from oracle.telemetry.records import ShardTelemetry
from oracle.telemetry.reporter import Reporter
from tests.support.memory_bus import MemoryLog, MemorySink, MemorySource
from tests.support.shards import MASTER_KEY, CountingSource, bodies, first_snapshot, new_store, small_plan
from tests.support.stores import MemoryStore
from tests.support.waiting import TIMEOUT, until

_JUNK = 3


class _Clock:
    """Stands still until it is set."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def _announce(record: ShardTelemetry, *, started: bool) -> LedgerEvent:
    return shard_event("test", record, started=started)


def _daemon(source, store, clock, announce=None, sink=None):
    return Daemon(
        plan=small_plan(),
        store=store,
        source=source,
        sink=sink or MemorySink(source.log),
        reporter=Reporter(small_plan(), PublicLog(io.StringIO())),
        settings=DaemonSettings(snapshot_seconds=30.0),
        clock=clock,
        announce=announce,
    )


async def _position(log, position):
    await until(lambda: log.committed is not None and log.committed.position >= position)


async def _saved(store, position):
    await until(lambda: _saved_at(store) >= position)


def _saved_at(store):
    header = store.peek()
    assert header is not None
    return header.position


async def test_rejected_messages_are_behind_the_snapshot_of_a_clean_stop():
    """The log may be deleted up to there: nothing of it is missed at the next start."""
    log, store = MemoryLog.of(bodies(5), live=True), new_store()
    daemon = _daemon(MemorySource(log), store, _Clock())
    task = asyncio.create_task(daemon.run())
    await _saved(store, 5)
    for _ in range(_JUNK):
        log.append(b"?")
    await _position(log, 5 + _JUNK)
    assert _saved_at(store) == 5
    daemon.stop()
    assert await task == 5
    assert _saved_at(store) == 5 + _JUNK


async def test_rejected_messages_bring_a_snapshot_when_it_is_time():
    """Also where no query ever comes: after so many seconds, once; and at once where there was none yet."""
    log, store, clock = MemoryLog.of([b"?"], live=True), new_store(), _Clock()
    source = CountingSource(log)
    daemon = _daemon(source, store, clock)
    task = asyncio.create_task(daemon.run())
    await _saved(store, 1)
    log.append(b"?")
    await _position(log, 2)
    await source.asked_again()
    assert _saved_at(store) == 1
    clock.now = 31.0
    await _saved(store, 2)
    data = store.latest_bytes()
    clock.now = 62.0
    await source.asked_again()
    assert store.latest_bytes() == data
    daemon.stop()
    await task


@pytest.mark.parametrize("announced", [False, True])
async def test_an_idle_daemon_commits_its_place_again_where_the_ledger_tells_of_starts(announced):
    """The sink of a bus keeps with it how far the source has looked; files depend on the queries only."""
    log, clock = MemoryLog.of(bodies(5), live=True), _Clock()
    source = CountingSource(log)
    daemon = _daemon(source, new_store(), clock, _announce if announced else None)
    task = asyncio.create_task(daemon.run())
    await _position(log, 5)
    await source.asked_again()
    before = len(log.commits)
    clock.now = 31.0
    await source.asked_again()
    again = log.commits[before:]
    assert len(again) == int(announced)
    assert all((commit.position, len(commit.replies), commit.ledger) == (5, 0, ()) for commit in again)
    assert all(commit.metadata == log.commits[before - 1].metadata for commit in again)
    daemon.stop()
    await task


class _SlowSink(MemorySink):
    """Takes its time over the first commit with answers, and notes every commit that is begun."""

    def __init__(self, log):
        super().__init__(log)
        self.begun, self.go_on = [], asyncio.Event()

    async def commit(self, commit):
        self.begun.append(commit)
        if commit.replies:
            await self.go_on.wait()
        await super().commit(commit)


async def test_an_idle_daemon_commits_no_place_ahead_of_its_answers():
    """While a commit is under way there is none of the position alone, however long nothing has come."""
    log, clock = MemoryLog.of(bodies(5), live=True), _Clock()
    source, sink = CountingSource(log), _SlowSink(log)
    daemon = _daemon(source, new_store(), clock, _announce, sink)
    task = asyncio.create_task(daemon.run())
    await until(lambda: any(commit.replies for commit in sink.begun))
    clock.now = 31.0
    await source.asked_again()
    assert sink.begun[-1].replies
    sink.go_on.set()
    await _position(log, 5)
    daemon.stop()
    await task


class _SlowStore(MemoryStore):
    """A store on a slow disk."""

    def __init__(self):
        super().__init__(MASTER_KEY)
        super().save(first_snapshot())
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.ended = False

    def save(self, snapshot):
        self.begun.set()
        assert self.go_on.wait(TIMEOUT)
        super().save(snapshot)
        self.ended = True


async def test_a_cancelled_daemon_ends_when_its_save_has_ended():
    """A thread goes on whatever becomes of its task; who closes the store must come after it."""
    store = _SlowStore()
    task = asyncio.create_task(_daemon(MemorySource(MemoryLog.of(bodies(5), live=True)), store, _Clock()).run())
    assert await asyncio.to_thread(store.begun.wait, TIMEOUT)
    for _ in range(2):
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)
        assert not task.done()
    store.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.ended
