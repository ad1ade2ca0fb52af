"""Answers become durable in order, and what is answered during a commit goes into the next one together."""

import asyncio

import pytest

from connectors.base import Commit, Replies
from oracle.codec import cuts
from oracle.errors import MessageError, StorageError
from oracle.predictors.base import PublicFacts
from oracle.predictors.kinds import restore_predictor
from oracle.runtime.pipeline import Answered, OutcomeQueue
from oracle.runtime.shard import Outcome
from tests.support.memory_bus import MemoryLog, MemorySink
from tests.support.poisoned import FAILING, body, restore_poisoned
from tests.support.shards import bodies, daemon_over, new_store
from tests.support.waiting import until

_ROWS = 16


class _Gate(MemorySink):
    """A sink whose commits wait until it is open, and may fail then."""

    def __init__(self, log, error=None):
        super().__init__(log)
        self.begun = []
        self.open_to_all = asyncio.Event()
        self.error = error

    async def commit(self, commit):
        self.begun.append(commit.position)
        await self.open_to_all.wait()
        if self.error is not None:
            raise self.error
        await super().commit(commit)


async def test_what_is_answered_meanwhile_is_committed_together():
    """The first batch goes at once, the next three in one commit, with the last one's position and mark."""
    log = MemoryLog.of(bodies(20 * _ROWS))
    sink = _Gate(log)
    task = asyncio.create_task(daemon_over(log, new_store(), sink, batch_rows=_ROWS).run())
    await until(lambda: sink.begun)
    await asyncio.sleep(0.2)
    assert sink.begun == [_ROWS]
    sink.open_to_all.set()
    await task
    assert sink.begun[:2] == [_ROWS, 4 * _ROWS]
    assert [commit.position for commit in log.commits] == sink.begun
    assert [len(commit.replies) for commit in log.commits[:2]] == [_ROWS, 3 * _ROWS]


async def test_nothing_follows_a_commit_that_failed():
    """Not what waits behind it either."""
    log = MemoryLog.of(bodies(20 * _ROWS))
    sink = _Gate(log, StorageError("the disk is full"))
    task = asyncio.create_task(daemon_over(log, new_store(), sink, batch_rows=_ROWS).run())
    await until(lambda: sink.begun)
    sink.open_to_all.set()
    with pytest.raises(StorageError, match="the disk is full"):
        await task
    assert sink.begun == [_ROWS]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_was_answered_before_an_error_is_durable_when_it_is_raised():
    """So an operator can pass the message over: the shard stands right before it."""
    log = MemoryLog.of([*bodies(4), body(FAILING, 0.5)])
    sink = _Gate(log)
    task = asyncio.create_task(daemon_over(log, new_store(), sink, batch_rows=1, restore=restore_poisoned).run())
    await until(lambda: sink.begun)
    await asyncio.sleep(0.2)
    sink.open_to_all.set()
    with pytest.raises(MessageError, match="position 5"):
        await task
    assert log.committed is not None
    assert log.committed.position == 4


async def test_what_a_batch_leaves_of_what_was_fetched_comes_next(monkeypatch):
    """A batch may end before the rows that it may have: no delivery is lost, and none comes twice."""
    monkeypatch.setattr(cuts, "BATCH_BYTES", 1)
    log = MemoryLog.of(bodies(7))
    await daemon_over(log, new_store(), MemorySink(log), batch_rows=3).run()
    assert sum(len(commit.replies) for commit in log.commits) == 7
    assert log.committed is not None
    assert log.committed.position == 7


def _answered(rounds):
    return Answered(Outcome(Commit(Replies(), [], 1, b""), rounds, (), phase_ended=False), PublicFacts(1, 1, 1, 100, 0))


@pytest.mark.parametrize(("rounds", "most"), [(1, 3), (1 << 16, 2), (1 << 17, 1), (1 << 20, 1)])
async def test_large_batches_wait_in_smaller_numbers(rounds, most):
    """Three batches, or what has 131,072 rounds; all are taken out at once."""
    queue = OutcomeQueue()
    for _ in range(2):
        taken = 0
        while not queue.full():
            queue.put_nowait(_answered(rounds))
            taken += 1
        assert taken == most
        assert len(await queue.get_all()) == most
        assert queue.empty()


async def test_one_message_a_batch_is_durable_before_the_next_is_answered():
    """So the last commit says at which message a process was killed."""
    answered = []

    class Counting:
        """Counts the rows that it answers."""

        def __init__(self, inner):
            self._inner = inner

        def __getattr__(self, name):
            return getattr(self._inner, name)

        def answer(self, features, present):
            answered.append(len(features))
            return self._inner.answer(features, present)

    log = MemoryLog.of(bodies(4))
    sink = _Gate(log)
    daemon = daemon_over(
        log, new_store(), sink, batch_rows=1, restore=lambda plan, arrays: Counting(restore_predictor(plan, arrays))
    )
    task = asyncio.create_task(daemon.run())
    await until(lambda: sink.begun)
    await asyncio.sleep(0.2)
    assert answered == [1]
    sink.open_to_all.set()
    await task
    assert sink.begun == [1, 2, 3, 4]
