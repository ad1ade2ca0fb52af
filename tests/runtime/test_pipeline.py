"""Answers become durable in order, and what is answered during a commit goes into the next one together."""

import asyncio
from threading import Event

import pytest

from connectors.base import JSON, Commit, Deliveries, Replies
from oracle.codec import cuts
from oracle.errors import MessageError, StorageError
from oracle.predictors.base import PublicFacts
from oracle.predictors.kinds import restore_predictor
from oracle.runtime import daemon, pipeline
from oracle.runtime.courses import Course
from oracle.runtime.pipeline import Answered, OutcomeQueue, weight
from oracle.runtime.shard import Outcome, Shard
from oracle.runtime.together import Together
from tests.support.memory_bus import MemoryLog, MemorySink, MemorySource
from tests.support.poisoned import FAILING, body, restore_poisoned
from tests.support.shards import bodies, daemon_over, new_store, small_plan
from tests.support.tables import paying_plan, questions
from tests.support.waiting import TIMEOUT, until

_ROWS = 8


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


class _Counting:
    """A predictor that notes how many rows it answers each time."""

    def __init__(self, inner, answered):
        self._inner = inner
        self._answered = answered

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def answer(self, features, present):
        self._answered.append(len(features))
        return self._inner.answer(features, present)


def _counting(answered):
    return lambda plan, arrays: _Counting(restore_predictor(plan, arrays), answered)


async def test_what_is_answered_meanwhile_is_committed_together():
    """The first batch goes at once, the next twelve in one commit, with the last one's position and mark."""
    log = MemoryLog.of(bodies(20 * _ROWS))
    sink = _Gate(log)
    answered: list[int] = []
    task = asyncio.create_task(daemon_over(log, new_store(), sink, batch_rows=_ROWS, restore=_counting(answered)).run())
    await until(lambda: len(answered) == 1 + 12 + 1)  # the last one finds no room
    assert sink.begun == [_ROWS]
    sink.open_to_all.set()
    await task
    assert sink.begun[:2] == [_ROWS, 13 * _ROWS]
    assert [commit.position for commit in log.commits] == sink.begun
    assert [len(commit.replies) for commit in log.commits[:2]] == [_ROWS, 12 * _ROWS]


@pytest.mark.parametrize("small", [1, 1_000])
async def test_a_batch_is_in_flight_until_its_commit(small, monkeypatch):
    """A small one and a large one, from when it was fetched."""
    rows = 100
    monkeypatch.setattr(pipeline, "_MESSAGES", small)
    monkeypatch.setattr("oracle.runtime.together._LATE", 10 * TIMEOUT)
    monkeypatch.setattr("oracle.runtime.together._LONG", 10 * TIMEOUT)
    log, together, answering, may_answer = MemoryLog.of(bodies(3 * rows)), Together(), Event(), Event()
    sink, process = _Gate(log), Shard.process

    def wait(*arguments):
        answering.set()
        may_answer.wait(TIMEOUT)
        return process(*arguments)

    monkeypatch.setattr(Shard, "process", wait)
    task = asyncio.create_task(daemon_over(log, new_store(), sink, batch_rows=rows, together=together).run())
    await until(answering.is_set)
    quiet = asyncio.create_task(together.quiet())
    await asyncio.sleep(0.05)
    assert not quiet.done()
    may_answer.set()
    await until(lambda: sink.begun)
    await asyncio.sleep(0.05)
    assert not quiet.done()
    sink.open_to_all.set()
    await asyncio.wait_for(quiet, TIMEOUT)
    await task
    assert sink.begun[-1] == 3 * rows


async def test_the_source_is_asked_for_more_before_the_bookkeeping_which_waits_for_no_pause(monkeypatch):
    """Behind a commit, with 64 rounds or more; the source never says that it has nothing."""
    told, settle = [], Shard.settle

    class _Silent(MemorySource):
        async def fetch(self, limit, wait):  # noqa: ARG002 -- the seam's
            return await super().fetch(limit, 10 * TIMEOUT)

    def settled(shard):
        told.append("settled")
        settle(shard)

    async def asks():
        """Stand for a source that is asked some rounds of the event loop behind a commit."""
        for _ in range(pipeline._ASKING - 2):
            await asyncio.sleep(0)
        told.append("may ask")

    class _Telling(MemorySink):
        async def commit(self, commit):
            await super().commit(commit)
            told.clear()
            asking.append(asyncio.ensure_future(asks()))

    asking: list[asyncio.Future[None]] = []
    monkeypatch.setattr(Shard, "settle", settled)
    log = MemoryLog.of(bodies(64))
    log.live = True
    running = daemon_over(log, new_store(), _Telling(log), source=_Silent(log))
    task = asyncio.create_task(running.run())
    await until(lambda: log.commits and "settled" in told)
    assert told[:2] == ["may ask", "settled"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_nobody_waits_for_answers_that_may_each_take_long(monkeypatch):
    """As those of paid questions."""
    monkeypatch.setattr("oracle.runtime.together._LATE", 10 * TIMEOUT)
    log, together, plan = MemoryLog.of(questions("statistics", 3)), Together(), paying_plan("statistics")
    sink = _Gate(log)
    task = asyncio.create_task(daemon_over(log, new_store(plan), sink, plan=plan, together=together).run())
    await until(lambda: sink.begun)
    await asyncio.wait_for(together.quiet(), TIMEOUT)
    assert not log.commits
    sink.open_to_all.set()
    await task


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
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})  # a thread that answers does so to its end


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


def _answered(rounds, heavy):
    outcome = Outcome(Commit(Replies(), [], 1, b""), rounds, (), phase_ended=False)
    return Answered(outcome, PublicFacts(1, 1, 1, 100, 0), Course(0, [], 0.0, 0.0), heavy)


@pytest.mark.parametrize(
    ("rounds", "heavy", "most"),
    [(1, 4, 3), (1, 3, 4), (1, 2, 6), (1, 1, 12), (1 << 16, 4, 2), (1 << 16, 1, 2), (1 << 17, 1, 1), (1 << 20, 4, 1)],
)
async def test_large_batches_wait_in_smaller_numbers(rounds, heavy, most):
    """Three batches, twelve small ones, or what has 131,072 rounds; all are taken out at once."""
    queue = OutcomeQueue()
    for _ in range(2):
        taken = 0
        while not queue.full():
            queue.put_nowait(_answered(rounds, heavy))
            taken += 1
        assert taken == most
        assert len(await queue.get_all()) == most
        assert queue.empty()


def _deliveries(count, body, headers=(), key=None):
    return Deliveries(range(1, count + 1), [body] * count, [JSON] * count, [headers] * count, [key] * count)


@pytest.mark.parametrize(
    ("deliveries", "expected"),
    [
        (_deliveries(4096, b"x" * 64), 1),
        (_deliveries(4097, None), 2),
        (_deliveries(8193, None), 3),
        (_deliveries(12289, None), 4),
        (_deliveries(16384, b"x"), 4),
        (_deliveries(1, bytes((256 << 10) + 1)), 2),
        (_deliveries(1, bytes(4 << 20)), 4),
        (_deliveries(4097, b"x" * 128), 3),
        (_deliveries(2, bytes(128 << 10)), 1),
        (_deliveries(2, bytes(128 << 10), key=b"k"), 2),
        (_deliveries(2, bytes(128 << 10), headers=(("correlation-id", b"7"),)), 2),
    ],
)
def test_a_batch_weighs_by_messages_and_by_bytes(deliveries, expected):
    """Bodies, keys and headers count: batches that may wait together take no more memory than three large ones."""
    assert weight(deliveries) == expected


async def test_one_message_a_batch_is_durable_before_the_next_is_answered():
    """So the last commit says at which message a process was killed."""
    answered: list[int] = []
    log = MemoryLog.of(bodies(4))
    sink = _Gate(log)
    daemon = daemon_over(log, new_store(), sink, batch_rows=1, restore=_counting(answered))
    task = asyncio.create_task(daemon.run())
    await until(lambda: sink.begun)
    await asyncio.sleep(0.2)
    assert answered == [1]
    sink.open_to_all.set()
    await task
    assert sink.begun == [1, 2, 3, 4]


async def _sizes(monkeypatch, plan, messages, **settings):
    """Return how many messages each batch had, and all replies."""
    sizes = []
    real = Shard.process

    def process(self, batch):
        sizes.append(len(batch.deliveries))
        return real(self, batch)

    log = MemoryLog.of(messages)
    with monkeypatch.context() as patch:
        patch.setattr(Shard, "process", process)
        await daemon_over(log, new_store(plan), MemorySink(log), plan=plan, **settings).run()
    return sizes, [body for commit in log.commits for body in commit.replies.bodies]


async def test_batches_of_paid_answers_are_as_large_as_time_allows(monkeypatch):
    """The first is small, each has at most twice as many, and half as many behind a slow one; answers are alike."""
    plan, messages = paying_plan("statistics"), questions("statistics", 3_000)
    monkeypatch.setattr(daemon, "_PATIENCE", 1e9)
    quick, answers = await _sizes(monkeypatch, plan, messages, batch_rows=1024)
    assert quick == [256, 512, 256, 1024, 952], "no batch is of two fetches"
    monkeypatch.setattr(daemon, "_PATIENCE", 0.0)
    slow, others = await _sizes(monkeypatch, plan, messages, batch_rows=1024)
    assert sum(slow) == len(messages)
    assert slow[0] == 256
    assert max(slow) <= 512, "one is decoded before it is known how long the first takes"
    assert min(slow) < 8
    assert others == answers


async def test_batches_of_private_queries_do_not_depend_on_time(monkeypatch):
    """How long they take may tell of the rows."""
    monkeypatch.setattr(daemon, "_PATIENCE", 0.0)
    sizes, _ = await _sizes(monkeypatch, small_plan(), bodies(300), batch_rows=64)
    assert sizes == [64, 64, 64, 64, 44]
