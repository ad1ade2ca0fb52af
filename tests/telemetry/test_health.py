"""Readiness: restored, not fenced, moving, folders that can be written; and the trends that it goes by."""

import asyncio
import io
from pathlib import Path

import pytest

from connectors.base import Lag
from oracle.errors import BusError, SourceError, StorageError
from oracle.predictors.base import PublicFacts
from oracle.telemetry.log import PublicLog
from oracle.telemetry.models import Models
from oracle.telemetry.observers import Observers
from oracle.telemetry.records import Work
from oracle.telemetry.registry import Registry
from oracle.telemetry.trends import Trends
from tests.support.shards import small_plan


class _Bench:
    """A registry with one shard, its health, and clocks that stand still until they are set."""

    def __init__(self, folder, *, grouped=False, limit=60.0):
        self.now = 0.0
        self.lag: Lag | None = None
        self.registry = Registry(small_plan(), PublicLog(io.StringIO()), version="1", grouped=grouped)
        models = Models.only(self.registry, lambda _shard: folder, PublicLog(io.StringIO()))
        self.observers = Observers(models, limit, clock=lambda: self.now, now=lambda: 1e9 + self.now)
        observed = self.observers.of(small_plan().name)
        assert observed is not None
        self.health = observed.health

    def serve(self, shard=0, rounds=0):
        reporter = self.registry.shard(shard)
        reporter.restoring(lambda: self.lag)
        reporter.restored(_facts(rounds), 0, 0.1)
        reporter.serving()
        return reporter

    def checks(self):
        return [(found.shard, found.check) for found in self.health.not_ready()]

    async def look(self, seconds=0.0):
        """Let so many seconds pass, look, and let a trial of the folders end."""
        self.now += seconds
        self.health.look()
        for trial in asyncio.all_tasks() - {asyncio.current_task()}:
            await trial
        self.health.look()


def _facts(rounds):
    return PublicFacts(rounds, 1, rounds, small_plan().phases[0].rounds, 0)


@pytest.mark.parametrize(
    ("tell", "checks", "words"),
    [
        (lambda reporter: reporter.serving(), [], ""),
        (lambda reporter: reporter.restoring(lambda: None), [(0, "restored")], "shard 0 is restoring"),
        (lambda reporter: reporter.bus_failed(BusError("b")), [(0, "restored")], "shard 0 is waiting for the bus"),
        (lambda reporter: reporter.failed(SourceError("gone")), [(0, "restored")], "has failed and needs an operator"),
        (lambda reporter: reporter.stopped(), [(0, "restored")], "shard 0 has stopped"),
        (lambda reporter: reporter.fenced(), [(0, "fenced")], "taken over by another process"),
    ],
)
def test_states(tmp_path, tell, checks, words):
    """A shard is ready exactly while it serves; each other state says in words why not."""
    bench = _Bench(tmp_path)
    tell(bench.serve())
    assert bench.checks() == checks
    assert all(words in found.text for found in bench.health.not_ready())


def test_a_shard_that_has_not_begun_is_not_ready(tmp_path):
    """Not before the snapshot was opened, and re-executed up to the last commit."""
    bench = _Bench(tmp_path)
    bench.registry.shard(0)
    assert bench.checks() == [(0, "restored")]


def test_outside_the_group_and_standby(tmp_path):
    """A process without a partition is ready once the group counts it in, and says that it stands by."""
    bench = _Bench(tmp_path, grouped=True)
    assert bench.checks() == [(None, "restored")]
    bench.registry.joined()
    assert bench.checks() == []
    assert "standby" in bench.health.summary()
    bench.registry.assigned(0)
    bench.serve()
    assert bench.health.summary() == "serving 1 shard"


@pytest.mark.parametrize("moving", [False, True])
async def test_standing_still_with_queries_waiting(tmp_path, moving):
    """After `limit` seconds of it a shard is not ready; a batch, or nothing to read, sets the clock back."""
    bench = _Bench(tmp_path)
    reporter = bench.serve()
    for rounds in range(10):
        bench.lag = Lag(0, 0.0)
        await bench.look(100.0)
        assert bench.checks() == []
        bench.lag = Lag(3, 1.0)
        await bench.look(59.0)
        assert bench.checks() == []
        if moving:
            reporter.committed(_facts(rounds), [], phase_ended=False)
        await bench.look(2.0)
        assert bench.checks() == ([] if moving else [(0, "moving")])
    reporter.committed(_facts(20), [], phase_ended=False)
    await bench.look(1.0)
    assert bench.checks() == []


async def test_a_source_that_cannot_tell_stands_still_with_a_batch_under_way(tmp_path):
    """Without a lag nobody knows what there is to read, but a batch that was begun and does not end is seen."""
    bench = _Bench(tmp_path)
    reporter = bench.serve()
    await bench.look()
    await bench.look(1e6)
    assert bench.checks() == []
    reporter.begun()
    reporter.begun()
    reporter.committed(_facts(1), [], phase_ended=False)
    await bench.look(1.0)
    await bench.look(59.0)
    assert bench.checks() == []
    await bench.look(2.0)
    assert bench.checks() == [(0, "moving")]
    reporter.committed(_facts(2), [], phase_ended=False)
    await bench.look(1.0)
    await bench.look(1e6)
    assert bench.checks() == []


async def test_a_batch_that_the_bus_broke_off_is_not_under_way(tmp_path):
    """What was begun before the shard was opened again is begun anew."""
    bench = _Bench(tmp_path)
    reporter = bench.serve()
    reporter.begun()
    reporter.bus_failed(BusError("gone"))
    bench.serve()
    await bench.look()
    await bench.look(1e6)
    assert bench.checks() == []


async def test_folder_that_goes_and_comes_back(tmp_path):
    """It is tried every two seconds, and nothing is left in it."""
    folder = tmp_path / "state"
    folder.mkdir()
    bench = _Bench(folder)
    bench.serve()
    await bench.look()
    assert bench.checks() == []
    assert list(folder.iterdir()) == []
    folder.rmdir()
    await bench.look(3.0)
    assert bench.checks() == [(0, "folder")]
    assert "No such file or directory" in bench.health.not_ready()[0].text
    folder.mkdir()
    await bench.look(3.0)
    assert bench.checks() == []


async def test_a_snapshot_that_fails(tmp_path):
    """A small file fits, the snapshot did not: not ready until one is written again."""
    bench = _Bench(tmp_path)
    reporter = bench.serve()
    await bench.look()
    reporter.snapshot_failed(StorageError("full"))
    assert bench.checks() == [(0, "folder")]
    assert bench.health.not_ready()[0].text == "shard 0: the last snapshot could not be written"
    reporter.snapshot_written(_facts(0), 1e9, 777, 0.1)
    assert bench.checks() == []


async def test_no_thread_for_a_trial(tmp_path, monkeypatch):
    """A folder that cannot be tried is a problem with that reason; the looking goes on, and finds it well again."""
    bench = _Bench(tmp_path)
    bench.serve()

    async def no_thread(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "to_thread", no_thread)
        task = asyncio.create_task(bench.observers.run())
        for _ in range(3):
            await asyncio.sleep(0)
        bench.health.look()
        assert [found.text for found in bench.health.not_ready()] == [
            "shard 0: the snapshot folder could not be tested: RuntimeError"
        ]
        assert not task.done()
    task.cancel()
    await asyncio.wait({task})
    await bench.look(3.0)
    assert bench.checks() == []


async def test_run_looks_until_cancelled(tmp_path):
    """It begins at once, and leaves no task behind."""
    bench = _Bench(tmp_path)
    bench.serve(rounds=7)
    task = asyncio.create_task(bench.observers.run())
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def _look(trends, bench, seconds):
    trends.observe(bench.registry.telemetry, seconds, 1e9 + seconds)


def test_rate_is_of_the_last_ten_seconds(tmp_path):
    """Rounds that a restore found are no queries answered now."""
    bench, trends = _Bench(tmp_path), Trends()
    bench.registry.shard(0)
    _look(trends, bench, 0.0)
    reporter = bench.serve(rounds=1000)
    for second in range(1, 31):
        _look(trends, bench, float(second))
        reporter.committed(_facts(1000 + 7 * second), [], phase_ended=False)
    assert trends.rate(0) == pytest.approx(7.0)
    for second in range(31, 50):
        _look(trends, bench, float(second))
    assert trends.rate(0) == 0.0
    assert trends.rate(1) == 0.0


def test_history_is_of_five_seconds_each(tmp_path):
    """Sixty entries at most, oldest first, summed over the shards; a shard counts from when it was restored."""
    bench, trends = _Bench(tmp_path), Trends()
    first, second = bench.serve(0), bench.serve(1, rounds=5000)
    bench.lag = Lag(2, None)
    _look(trends, bench, 0.0)
    first.committed(_facts(50), [], phase_ended=False)
    second.committed(_facts(5010), [], phase_ended=False)
    bench.serve(2, rounds=10**6)
    _look(trends, bench, 4.0)
    assert (trends.rates, trends.lags) == ([], [])
    _look(trends, bench, 5.0)
    assert (trends.rates, trends.lags, trends.ends) == ([12.0], [6], 1e9 + 5)
    bench.lag = None
    for entry in range(2, 100):
        _look(trends, bench, 5.0 * entry)
    assert trends.rates == [0.0] * 60
    assert trends.lags == [None] * 60


def test_of_a_model_that_is_opened_later_the_first_timing_counts():
    """Nobody has looked in between."""
    plan = small_plan()
    models = Models([plan.name], PublicLog(io.StringIO()), version="1")
    observers = Observers(models, 60.0)
    registry = Registry(plan, PublicLog(io.StringIO()), version="1")
    models.opened(plan.name, registry, lambda _shard: Path())
    registry.shard(0).took(Work.RESTORE, 0.1)
    (moment,) = observers.collector().moments
    assert set(moment.tallies) == {(Work.RESTORE, 0)}
