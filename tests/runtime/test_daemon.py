import asyncio
import io
import itertools
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import Commit, Delivery
from oracle.errors import PlanExhaustedError, StorageError
from oracle.runtime.daemon import Daemon, DaemonSettings
from oracle.runtime.marks import CommitMark
from oracle.telemetry.log import PublicLog
from oracle.telemetry.reporter import Reporter
from tests.support.memory_bus import Abort, CrashError, Failure, MemoryLog, MemorySink, MemorySource
from tests.support.shards import (
    MASTER_KEY,
    CountingSource,
    bodies,
    daemon_over,
    deliveries_of,
    mixed_bodies,
    new_shard,
    new_store,
    process,
    process_in_batches,
    run_daemon,
    same_state,
    small_plan,
    state_of,
)
from tests.support.stores import MemoryStore
from tests.support.waiting import limits_of, until

_COUNT = 900  # two phases end within


def _contents(count=_COUNT, seed=1):
    return mixed_bodies(count, seed)


def _with_aborts(deliveries, places):
    items: list[Delivery | Abort] = []
    for delivery in deliveries:
        items += [Abort() for place in places if place == delivery.position]
        items.append(delivery)
    return items


class _MonitoredStore(MemoryStore):
    """A store that checks each snapshot, and may fail.

    It is not ahead of the last commit, and holds what one shard holds there that answered all deliveries before it.
    """

    def __init__(self, log, failing=()):
        super().__init__(MASTER_KEY)
        self.monitored = None
        self.reference = new_shard()
        self.save(new_shard().snapshot())
        self.monitored = log
        self.calls = 0
        self.saved = []
        self.failing = set(failing)

    def save(self, snapshot):
        if self.monitored is not None:
            assert self.monitored.committed is not None
            assert snapshot.position <= self.monitored.committed.position
            self.check(snapshot)
            self.calls += 1
            if self.calls - 1 in self.failing:
                raise StorageError("memory store: no space left on device")
            self.saved.append(snapshot.round)
        super().save(snapshot)

    def check(self, snapshot):
        assert self.monitored is not None
        if snapshot.position < self.reference.position:
            self.reference = new_shard()
        first, last = self.reference.position, snapshot.position
        items = [item for item in self.monitored.items if isinstance(item, Delivery) and first < item.position <= last]
        if items:
            process(self.reference, items)
        assert self.reference.mark == CommitMark(snapshot.round, snapshot.tag)
        assert self.reference.position == snapshot.position
        assert same_state(state_of(self.reference), snapshot.arrays)


def _assert_uninterrupted(log, contents):
    """The sink shows what one shard without a daemon gives, reply by reply, event by event."""
    expected = process_in_batches(new_shard(), deliveries_of(contents))
    assert [reply.body for reply in log.replies] == expected.replies
    assert log.ledger == expected.ledger
    assert log.commits[-1].metadata == expected.mark.pack()
    assert log.commits[-1].position == len(contents)
    positions = [commit.position for commit in log.commits]
    assert positions == sorted(set(positions))


def _run_until_done(log, store, failures, **options):
    """Run daemons one after the other over one log and store, each with its sink failures; count the crashes."""
    for crashes in itertools.count():
        sink = MemorySink(log, failures[crashes] if crashes < len(failures) else {})
        try:
            run_daemon(daemon_over(log, store, sink, **options))
        except (CrashError, StorageError):
            continue
        return crashes
    raise AssertionError


_BEFORE, _AFTER, _REFUSED = Failure.CRASH_BEFORE, Failure.CRASH_AFTER, Failure.REFUSED


@pytest.mark.parametrize(
    ("aborts", "failures", "crashes"),
    [
        ([], [], 0),
        ([1], [], 1),
        ([_COUNT], [], 1),
        ([450], [], 1),
        ([450, 450, 450], [], 3),
        (list(range(1, _COUNT, 60)), [], 15),
        ([], [{0: _BEFORE}], 1),
        ([], [{0: _AFTER}], 1),
        ([], [{0: _REFUSED}], 1),
        ([], [{3: _AFTER}, {0: _BEFORE}, {0: _BEFORE}, {2: _AFTER}], 4),
        ([], [{number: kind} for number, kind in enumerate([_BEFORE, _AFTER, _REFUSED] * 2)], 5),
        ([200, 640], [{1: _AFTER}, {2: _BEFORE}, {}, {0: _AFTER}], 4),
    ],
)
@pytest.mark.parametrize("snapshot_rounds", [1, 150, 10**9])
def test_crashes_do_not_show(aborts, failures, crashes, snapshot_rounds):
    """After any crashes of source and sink, replies, ledger and mark are those of an uninterrupted run."""
    contents = _contents()
    log = MemoryLog(_with_aborts(deliveries_of(contents), aborts))
    store = _MonitoredStore(log)
    assert _run_until_done(log, store, failures, snapshot_rounds=snapshot_rounds) == crashes
    _assert_uninterrupted(log, contents)
    header = store.peek()
    assert header is not None
    assert (header.position, header.round) == (_COUNT, sum(body != b"?" for body in contents))


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    aborts=st.lists(st.integers(1, _COUNT), max_size=6),
    failures=st.lists(st.dictionaries(st.integers(0, 12), st.sampled_from(Failure), max_size=2), max_size=5),
    failing=st.sets(st.integers(0, 10), max_size=4),
    batch_rows=st.sampled_from([9, 64, 1000]),
    snapshot_rounds=st.sampled_from([1, 97, 10**9]),
)
def test_any_script_of_crashes_does_not_show(aborts, failures, failing, batch_rows, snapshot_rounds):
    """The same for scripts that Hypothesis writes, in which snapshots fail as well."""
    contents = _contents()
    log = MemoryLog(_with_aborts(deliveries_of(contents), aborts))
    store = _MonitoredStore(log, failing)
    _run_until_done(log, store, failures, batch_rows=batch_rows, snapshot_rounds=snapshot_rounds)
    _assert_uninterrupted(log, contents)


def test_batches_are_no_larger_than_asked_for():
    """Not even those that were fetched while catching up."""
    contents = _contents()
    log = MemoryLog.of(contents)
    store = _MonitoredStore(log)
    with pytest.raises(CrashError):
        run_daemon(daemon_over(log, store, MemorySink(log, {3: _AFTER}), batch_rows=7))
    run_daemon(daemon_over(log, store, MemorySink(log), batch_rows=7))
    assert {len(commit.replies) for commit in log.commits[:-1]} == {7}
    _assert_uninterrupted(log, contents)


def test_run_without_new_messages_writes_nothing():
    """A restart at the end of the stream commits and saves nothing."""
    log = MemoryLog.of(_contents())
    store = _MonitoredStore(log)
    first = run_daemon(daemon_over(log, store, MemorySink(log)))
    commits, data = len(log.commits), store.latest_bytes()
    assert run_daemon(daemon_over(log, store, MemorySink(log))) == first
    assert len(log.commits) == commits
    assert store.latest_bytes() == data


def test_snapshot_follows_each_phase():
    """The first commit brings a snapshot, and each phase's end one, so that its key can go, even if none is due."""
    contents = _contents()
    log = MemoryLog.of(contents)
    store = _MonitoredStore(log)
    run_daemon(daemon_over(log, store, MemorySink(log), snapshot_rounds=10**9, batch_rows=50))
    first, second = itertools.accumulate(phase.rounds for phase in small_plan().phases[:2])
    assert len(store.saved) == 3 + (len(contents) - contents.count(b"?") > store.saved[2])
    assert 0 < store.saved[0] <= 50
    assert first <= store.saved[1] < first + 50
    assert second <= store.saved[2] < second + 50


def test_time_brings_a_snapshot_when_there_is_a_new_round():
    """After so many seconds an idle daemon saves once; nothing new, nothing saved."""
    now = 0.0
    log = MemoryLog.of(bodies(5), live=True)
    store, source = _MonitoredStore(log), CountingSource(log)

    async def run():
        nonlocal now
        daemon = Daemon(
            plan=small_plan(),
            store=store,
            source=source,
            sink=MemorySink(log),
            reporter=Reporter(small_plan(), PublicLog(io.StringIO())),
            settings=DaemonSettings(snapshot_seconds=30.0),
            clock=lambda: now,
        )
        task = asyncio.ensure_future(daemon.run())
        await until(lambda: store.saved == [5])  # the first commit brings one at once
        log.append(bodies(1)[0])
        await until(lambda: len(log.commits) == 2)
        await source.asked_again()
        assert store.saved == [5]
        for seconds in (31.0, 62.0, 93.0):
            now = seconds
            await source.asked_again()
        daemon.stop()
        await task

    asyncio.run(run())
    assert store.saved == [5, 6]


async def _first_commit(log):
    await until(lambda: log.commits)


def _lines(output):
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_failed_snapshots_do_not_stop_the_service():
    """With a full disk the answers go on and the log says so; the older snapshot and the log suffice for a restart."""
    contents = _contents()
    log = MemoryLog.of(contents)
    store = _MonitoredStore(log, failing=range(5))
    output = io.StringIO()
    hours = itertools.count(step=3600)
    run_daemon(daemon_over(log, store, MemorySink(log), output=output, clock=lambda: next(hours)))
    _assert_uninterrupted(log, contents)
    failed = [line for line in _lines(output) if line["event"] == "snapshot.failed"]
    assert len(failed) == 5
    assert all(line["level"] == "error" and "no space left" in line["error"] for line in failed)
    assert store.saved


def test_a_full_disk_is_not_tried_again_at_every_commit():
    """While the clock stands still there is one try, one at each phase's end (an old key must go), and the last."""
    log = MemoryLog.of(_contents())
    store = _MonitoredStore(log, failing=range(1000))
    output = io.StringIO()
    with pytest.raises(StorageError):
        run_daemon(
            daemon_over(log, store, MemorySink(log), batch_rows=2, snapshot_rounds=2, output=output, clock=lambda: 1.0)
        )
    events = [line["event"] for line in _lines(output)]
    assert 2 <= events.count("snapshot.failed") <= 2 + events.count("phase.started")


def test_a_snapshot_that_failed_is_soon_tried_again():
    """Also where none would be due for hours: it may have been a phase's end, whose old key shall not stay."""
    log = MemoryLog.of(_contents())
    store = _MonitoredStore(log, failing={1})
    seconds = itertools.count(step=6)
    output = io.StringIO()
    run_daemon(
        daemon_over(
            log, store, MemorySink(log), batch_rows=8, snapshot_rounds=10**9, output=output, clock=lambda: next(seconds)
        )
    )
    lines = _lines(output)
    failed = next(number for number, line in enumerate(lines) if line["event"] == "snapshot.failed")
    again = next(line for line in lines[failed:] if line["event"] == "snapshot.written")
    assert again["round"] <= lines[failed]["round"] + 2 * 8  # one batch was being answered when it failed


def test_disk_full_to_the_end():
    """Every answer is there, the run ends with the storage error, and the next one needs nothing but the log."""
    contents = _contents()
    log = MemoryLog.of(contents)
    store = _MonitoredStore(log, failing=range(1000))
    with pytest.raises(StorageError, match="no space left"):
        run_daemon(daemon_over(log, store, MemorySink(log)))
    _assert_uninterrupted(log, contents)
    store.failing.clear()
    commits = len(log.commits)
    run_daemon(daemon_over(log, store, MemorySink(log)))
    assert len(log.commits) == commits
    assert store.saved[-1] == sum(body != b"?" for body in contents)


@pytest.mark.parametrize("batch_rows", [1, 64, 5_000])
@pytest.mark.parametrize("behind", [b"?", b'{"x":[0.5,0.5]}'])
def test_exhausted_plan_answers_all_its_rounds_and_then_stops(batch_rows, behind):
    """Whatever the batches: all rounds are answered, a query behind them stops the daemon, also after a restart."""
    plan = small_plan()
    contents = [*bodies(plan.rounds), b"?", *bodies(3, seed=2), behind, behind]
    log, store = MemoryLog.of(contents), new_store()
    output = io.StringIO()
    for _ in range(2):
        with pytest.raises(PlanExhaustedError, match="make a new plan"):
            run_daemon(daemon_over(log, store, MemorySink(log), batch_rows=batch_rows, output=output))
        assert len(log.replies) == plan.rounds + 1
        assert log.commits[-1].position == plan.rounds + 1
    expected = process_in_batches(new_shard(), deliveries_of(contents[: plan.rounds + 1]))
    assert [reply.body for reply in log.replies] == expected.replies
    assert log.ledger == expected.ledger
    header = store.peek()
    assert header is not None
    assert header.round == plan.rounds
    assert not any(line["event"] == "source.ended" for line in _lines(output))


def test_plan_that_ends_with_the_stream_is_no_error():
    """As many queries as rounds: the stream has ended, and that is all."""
    log = MemoryLog.of(bodies(small_plan().rounds))
    assert run_daemon(daemon_over(log, new_store(), MemorySink(log))) == small_plan().rounds


def test_store_without_a_snapshot():
    """The error says what makes one."""
    log = MemoryLog.of([])
    with pytest.raises(StorageError, match="perpetua init"):
        run_daemon(daemon_over(log, MemoryStore(MASTER_KEY), MemorySink(log)))


class _SlowSink(MemorySink):
    """A sink whose commit waits for an event, before or after it commits."""

    def __init__(self, log, *, after=False):
        super().__init__(log)
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        self._after = after

    async def commit(self, commit: Commit) -> None:
        if self._after:
            await super().commit(commit)
        self.reached.set()
        await self.go_on.wait()
        if not self._after:
            await super().commit(commit)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signal_drains(number):
    """What is being committed and what is answered already is committed, and saved; a restart gives the rest."""
    contents = _contents()
    log = MemoryLog.of(contents)
    store = _MonitoredStore(log)
    sink = _SlowSink(log)
    output = io.StringIO()
    exits: list[int] = []
    daemon = daemon_over(log, store, sink, output=output)
    daemon.install_signals(exits.append)
    task = asyncio.ensure_future(daemon.run())
    await sink.reached.wait()
    os.kill(os.getpid(), number)
    await asyncio.sleep(0.05)
    assert not task.done()
    sink.go_on.set()
    rounds = await task
    assert exits == []
    assert len(log.commits) == 2
    assert store.saved[-1] == rounds
    assert {"event": "daemon.draining", "signal": number.name}.items() <= _lines(output)[2].items()
    await daemon_over(log, store, MemorySink(log)).run()
    _assert_uninterrupted(log, contents)


async def test_signal_ends_an_idle_daemon():
    """A daemon that waits for messages asks for none any more: it stops within the 0.2 seconds of its last wait."""
    log = MemoryLog.of(bodies(3), live=True)
    source = CountingSource(log)
    daemon = daemon_over(log, new_store(), MemorySink(log), source=source)
    daemon.install_signals(lambda _: None)
    task = asyncio.ensure_future(daemon.run())
    await _first_commit(log)
    await source.asked_again()
    before = source.fetches
    os.kill(os.getpid(), signal.SIGTERM)
    assert await task == 3
    assert source.fetches <= before + 1


async def test_second_signal_exits_at_once():
    """It exits with 128 and the signal's number, without waiting for the sink."""
    log = MemoryLog.of(_contents())
    sink = _SlowSink(log)
    exits: list[int] = []
    daemon = daemon_over(log, new_store(), sink)
    daemon.install_signals(exits.append)
    task = asyncio.ensure_future(daemon.run())
    await sink.reached.wait()
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(0.05)
    assert exits == []
    os.kill(os.getpid(), signal.SIGTERM)
    await until(lambda: exits)
    assert exits == [128 + signal.SIGTERM]
    task.cancel()
    await asyncio.wait({task})


async def test_drain_has_a_limit():
    """A sink that hangs cannot hold the process: after `drain_seconds` it exits with 124."""
    log = MemoryLog.of(_contents())
    sink = _SlowSink(log)
    exits: list[int] = []
    daemon = Daemon(
        plan=small_plan(),
        store=new_store(),
        source=MemorySource(log),
        sink=sink,
        reporter=Reporter(small_plan(), PublicLog(io.StringIO())),
        settings=DaemonSettings(drain_seconds=0.1),
        clock=lambda: 0.0,
    )
    daemon.install_signals(exits.append)
    task = asyncio.ensure_future(daemon.run())
    await sink.reached.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await until(lambda: exits)
    assert exits == [124]
    task.cancel()
    await asyncio.wait({task})


async def test_the_limit_ends_with_the_stop(monkeypatch):
    """What a process does after a clean stop, as to close its web server, cannot make it exit with 124."""
    log = MemoryLog.of(bodies(3), live=True)
    limits = limits_of(monkeypatch)
    daemon = daemon_over(log, new_store(), MemorySink(log))
    daemon.install_signals(lambda _code: None)
    task = asyncio.ensure_future(daemon.run())
    await _first_commit(log)
    os.kill(os.getpid(), signal.SIGTERM)
    await task
    (limit,) = limits
    assert limit.cancelled()


@pytest.mark.parametrize("after", [False, True])
async def test_cancelled_commit_leaves_things_consistent(after):
    """Cancelled in a hanging commit, before or after it became durable: a restart gives the uninterrupted output."""
    contents = _contents()
    log = MemoryLog.of(contents)
    store = _MonitoredStore(log)
    sink = _SlowSink(log, after=after)
    task = asyncio.ensure_future(daemon_over(log, store, sink).run())
    await sink.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(log.commits) == int(after)
    await daemon_over(log, store, MemorySink(log)).run()
    _assert_uninterrupted(log, contents)


async def test_cancelled_at_any_moment():
    """Cancelled after ever longer times, over and over, until one run gets to the end."""
    contents = _contents()
    log = MemoryLog.of(contents)
    store = _MonitoredStore(log)
    cancelled = 0
    for number in itertools.count():
        with ThreadPoolExecutor() as threads:  # what they were doing for the cancelled run ends, as with the process
            asyncio.get_running_loop().set_default_executor(threads)
            run = daemon_over(log, store, MemorySink(log), batch_rows=9, snapshot_rounds=40).run()
            task = asyncio.ensure_future(run)
            await asyncio.wait({task}, timeout=0.001 * (1.1**number - 1))
            if task.done():
                assert task.exception() is None
                break
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        cancelled += 1
    assert cancelled > 3
    _assert_uninterrupted(log, contents)
