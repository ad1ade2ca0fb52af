import asyncio

import pytest

from connectors.base import Commit, Delivery, Replies
from oracle.errors import InputError, SourceError, StorageError
from tests.connectors.suite import SinkSuite, SourceSuite, drain, json_commits
from tests.support.memory_bus import Abort, CrashError, Failure, MemoryLog, MemorySink, MemorySource


class TestMemorySource(SourceSuite):
    """The source that other tests use."""

    def make(self):
        """Return a source with gaps in its positions, and a tombstone."""
        bodies = [b"a", None, b"", b"a", b"e", b"f"]
        return MemorySource([Delivery(2 * index + 1, body) for index, body in enumerate(bodies)])

    async def test_position_between_deliveries_is_an_error(self):
        """A position where no delivery ends is refused."""
        with pytest.raises(SourceError, match="position = 2"):
            await self.make().open(2)

    def test_positions_must_increase(self):
        """A log out of order is refused."""
        with pytest.raises(InputError, match="position"):
            MemoryLog([Delivery(2, b""), Delivery(2, b"")])

    async def test_live_log_wakes_its_readers(self):
        """A waiting fetch returns as soon as something is there; the end comes with `finish`."""
        log = MemoryLog.of([b"a"], live=True)
        source = MemorySource(log)
        await source.open(None)
        assert list((await source.fetch(5, 0)).bodies) == [b"a"]
        assert list((await source.fetch(5, 0)).rows()) == []
        assert list((await source.fetch(5, 0.01)).rows()) == []
        task = asyncio.ensure_future(source.fetch(5, 60))
        await asyncio.sleep(0.01)
        assert not source.exhausted
        log.append(b"b")
        assert list((await task).rows()) == [Delivery(2, b"b")]
        task = asyncio.ensure_future(source.fetch(5, 60))
        await asyncio.sleep(0.01)
        log.finish()
        assert list((await task).rows()) == []
        assert source.exhausted

    async def test_abort_crashes_once(self):
        """What stands before the abort is delivered, then one run crashes, and the next goes on."""
        log = MemoryLog([Delivery(1, b"q0"), Delivery(2, b"q1"), Abort(), Delivery(3, b"q2")])
        source = MemorySource(log)
        await source.open(None)
        assert len(await source.fetch(10, 0)) == 2
        with pytest.raises(CrashError):
            await source.fetch(10, 0)
        again = MemorySource(log)
        await again.open(2)
        assert await drain(again) == [Delivery(3, b"q2")]


class TestMemorySink(SinkSuite):
    """The sink that other tests use."""

    @pytest.fixture(autouse=True)
    def _logs(self):
        self.logs = {}

    def make(self, folder):
        """Return a sink over the folder's log."""
        return MemorySink(self.logs.setdefault(folder, MemoryLog()))

    def content(self, folder):
        """Return replies, ledger and dead letters."""
        log = self.logs[folder]
        return log.replies, log.ledger, log.dead_letters


@pytest.mark.parametrize(
    ("failure", "error", "kept"),
    [(Failure.REFUSED, StorageError, 1), (Failure.CRASH_BEFORE, CrashError, 1), (Failure.CRASH_AFTER, CrashError, 2)],
)
async def test_commits_fail_as_asked(failure, error, kept):
    """The chosen commit fails in the chosen way, and only that one."""
    log = MemoryLog()
    sink = MemorySink(log, failures={1: failure})
    await sink.open()
    first, second, third = json_commits(3)
    await sink.commit(first)
    with pytest.raises(error):
        await sink.commit(second)
    assert len(log.commits) == kept
    await sink.commit(third)
    assert [commit.position for commit in log.commits][-1] == third.position


async def test_commits_are_copied():
    """A caller that reuses its lists does not change what was committed."""
    log = MemoryLog()
    sink = MemorySink(log)
    await sink.open()
    ledger = [b"a"]
    await sink.commit(Commit(Replies(), ledger, 1, b""))
    ledger.clear()
    assert log.ledger == [b"a"]
