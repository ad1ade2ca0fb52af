"""Snapshots under load: taken between two batches, written behind their commit, and nothing waits for them."""

import asyncio
import io
import json
import threading

import pytest

from oracle.errors import StorageError
from oracle.telemetry.log import PublicLog
from oracle.telemetry.reporter import Reporter
from tests.support.memory_bus import Failure, MemoryLog, MemorySink
from tests.support.shards import (
    MASTER_KEY,
    bodies,
    daemon_over,
    deliveries_of,
    first_snapshot,
    new_shard,
    process_in_batches,
    small_plan,
)
from tests.support.stores import MemoryStore
from tests.support.waiting import TIMEOUT, until

_ROWS = 16
_COUNT = 30 * _ROWS  # a phase ends within


class _Sink(MemorySink):
    """All its commits from the second on wait until they may go on."""

    def __init__(self, log, failures=None):
        super().__init__(log, failures or {})
        self.go_on = asyncio.Event()
        self._commits = 0

    async def commit(self, commit):
        self._commits += 1
        if self._commits > 1:
            await self.go_on.wait()
        await super().commit(commit)


class _Store(MemoryStore):
    """Keeps what it is given, and may be slow, or full, from the second save on."""

    def __init__(self, *, full=False):
        super().__init__(MASTER_KEY)
        super().save(first_snapshot())
        self.rounds: list[int] = []
        self.full = full
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def save(self, snapshot):
        if self.rounds:
            self.begun.set()
            assert self.go_on.wait(TIMEOUT)
            if self.full:
                raise StorageError("no space left on device")
        super().save(snapshot)
        self.rounds.append(snapshot.round)


class _Bench:
    def __init__(self, store, failures=None):
        self.log = MemoryLog.of(bodies(_COUNT))
        self.sink = _Sink(self.log, failures)
        self.output = io.StringIO()
        self.reporter = Reporter(small_plan(), PublicLog(self.output, "json"))
        self.task = asyncio.create_task(
            daemon_over(
                self.log,
                store,
                self.sink,
                batch_rows=_ROWS,
                snapshot_rounds=4 * _ROWS,
                reporter=self.reporter,
                clock=lambda: 0.0,
            ).run()
        )

    def events(self, name):
        return [line for line in map(json.loads, self.output.getvalue().splitlines()) if line["event"] == name]

    async def stands_at(self, batches):
        """Wait until so many batches were begun; no more are."""
        await until(lambda: self.reporter.telemetry.begun >= batches)
        await asyncio.sleep(0.3)
        assert self.reporter.telemetry.begun == batches


async def test_answering_goes_on_while_a_snapshot_waits_for_its_commit():
    """It is due behind the fifth batch; four more are answered, until the next one is due, and then it is written."""
    store = _Store()
    bench = _Bench(store)
    await bench.stands_at(9)
    assert store.rounds == [_ROWS]
    bench.sink.go_on.set()
    assert await bench.task == _COUNT
    assert store.rounds[1] == 5 * _ROWS
    written = [line["round"] for line in bench.events("snapshot.written")]
    assert written == store.rounds
    assert written == sorted(set(written))
    first, second = (phase.rounds for phase in small_plan().phases[:2])
    assert {first <= rounds < first + _ROWS for rounds in written} == {False, True}  # the phase's end has its own
    assert first + second > _COUNT
    expected = process_in_batches(new_shard(), deliveries_of(bodies(_COUNT)))
    assert [reply.body for reply in bench.log.replies] == expected.replies


@pytest.mark.parametrize("failure", [Failure.CRASH_BEFORE, Failure.REFUSED])
async def test_a_snapshot_whose_commit_fails_is_never_written(failure):
    """What it holds may never have been answered."""
    store = _Store()
    bench = _Bench(store, {1: failure})
    await bench.stands_at(9)
    bench.sink.go_on.set()
    with pytest.raises(Exception):  # noqa: B017, PT011 -- whatever the sink failed with
        await bench.task
    assert store.rounds == [_ROWS]


async def test_a_full_disk_beside_the_answering():
    """It is told, the answers go on, and of the next ones only those are tried that cannot wait.

    They are one that fell due before the first one had failed, and the one of the phase's end.
    """
    bench = _Bench(_Store(full=True))
    bench.sink.go_on.set()
    with pytest.raises(StorageError, match="no space left"):  # that of the stop: the operator is to know
        await bench.task
    assert len(bench.log.replies) == _COUNT
    assert 1 <= len(bench.events("snapshot.failed")) <= 3 < _COUNT // (4 * _ROWS)


async def test_a_slow_disk_holds_nobody_and_is_waited_for_at_the_end():
    """Two are never written at once; whoever closes the store comes after the last write."""
    store = _Store()
    store.go_on.clear()
    bench = _Bench(store)
    bench.sink.go_on.set()
    assert await asyncio.to_thread(store.begun.wait, TIMEOUT)
    await bench.stands_at(9)  # it waits when the next one is due
    assert store.rounds == [_ROWS]
    for _ in range(2):
        bench.task.cancel()
        await asyncio.wait({bench.task}, timeout=0.1)
        assert not bench.task.done()
    store.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await bench.task
    assert store.rounds == [_ROWS, 5 * _ROWS]
