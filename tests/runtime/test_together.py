"""Small batches of a process's shards are answered together; nobody waits long for one that takes long."""

import asyncio
import threading
import time
from functools import partial

import pytest

from oracle.errors import ResourceError
from oracle.runtime.together import Together
from tests.support.memory_bus import MemoryLog, MemorySink
from tests.support.shards import bodies, daemon_over, new_store
from tests.support.waiting import TIMEOUT, until


class _Owner:
    pass


def begin(together, owner=None):
    """Return a batch of somebody."""
    return together.begin(owner or _Owner())


async def quiet(together):
    """Wait until nothing is in flight, however long that takes."""
    await until(lambda: not together._in_flight)


@pytest.fixture
def leave():
    """Return an event for works to wait for, which comes in the end."""
    event = threading.Event()
    yield partial(event.wait, TIMEOUT), event.set
    event.set()


async def test_works_run_in_order_in_one_thread(monkeypatch):
    """All that was handed in before a thread begins, and what comes while it runs."""
    monkeypatch.setattr("oracle.runtime.together._LONG", 1000)
    together, told = Together(), list[tuple[int, int]]()

    def work(number):
        told.append((number, threading.get_ident()))
        time.sleep(0.001)
        return -number

    async def one(number):
        await asyncio.sleep(0.001 * (number // 5))
        return await begin(together).run(lambda: work(number))

    assert await asyncio.gather(*map(one, range(20))) == [-number for number in range(20)]
    assert [number for number, _ in told] == list(range(20))
    assert {ident for _, ident in told[:5]} == {told[0][1]}
    assert threading.get_ident() not in {ident for _, ident in told}


async def test_nobody_waits_long_for_one_who_does(leave, monkeypatch):
    """Those before it get their answers, those behind it threads of their own, and it is no longer waited for."""
    monkeypatch.setattr("oracle.runtime.together._LATE", 10 * TIMEOUT)
    (wait, let_go), together = leave, Together()
    before, long, *behind = (begin(together) for _ in range(5))
    tasks = [asyncio.create_task(one) for one in (before.run(int), long.run(wait), *(one.run(int) for one in behind))]
    assert await asyncio.gather(tasks[0], *tasks[2:]) == [0] * 4
    for one in (before, *behind):
        one.end()
    await quiet(together)
    assert await asyncio.wait_for(begin(together).run(float), TIMEOUT) == 0.0
    assert not tasks[1].done()
    let_go()
    assert await tasks[1]
    await until(lambda: not together._leads)
    assert not together._is_led
    assert not together._waiting


async def test_those_who_take_long_do_not_add_up(leave, monkeypatch):
    """Behind the first one all go on side by side."""
    monkeypatch.setattr("oracle.runtime.together._LATE", 10 * TIMEOUT)
    (wait, let_go), together = leave, Together()
    slow = [asyncio.create_task(begin(together).run(wait)) for _ in range(3)]
    assert await asyncio.wait_for(begin(together).run(int), TIMEOUT) == 0
    assert not any(task.done() for task in slow)
    await until(lambda: len(together._in_flight) == 1)  # the one that was answered
    assert not any(task.done() for task in slow)
    let_go()
    assert await asyncio.gather(*slow) == [True] * 3


async def test_those_whose_answers_are_there_are_told_before_the_last_one_has_any(leave):
    """At the next look, however many others there are."""
    (wait, let_go), together = leave, Together()
    first, last = (asyncio.create_task(begin(together).run(work)) for work in (int, wait))
    await asyncio.wait_for(asyncio.shield(first), TIMEOUT)
    assert not last.done()
    let_go()
    await last


async def test_it_is_quiet_when_all_that_was_in_flight_is_durable(monkeypatch):
    """What came later is not waited for."""
    monkeypatch.setattr("oracle.runtime.together._LATE", 10 * TIMEOUT)
    together = Together()
    await together.quiet()
    first, second = begin(together), begin(together)
    waiting = asyncio.create_task(together.quiet())
    await asyncio.gather(first.run(int), second.run(int))
    first.end()
    await asyncio.sleep(0.01)
    later = begin(together)
    assert not waiting.done()
    second.end()
    await asyncio.wait_for(waiting, TIMEOUT)
    later.end()


async def test_an_owner_whose_commits_take_long_is_not_waited_for(monkeypatch):
    """Until one is quick again."""
    monkeypatch.setattr("oracle.runtime.together._LATE", 0.01)
    together, owner = Together(), _Owner()
    late = begin(together, owner)
    late.answered()
    await until(lambda: owner in together.late)
    next_one = begin(together, owner)
    assert not together._in_flight
    late.end()
    assert owner in together.late
    monkeypatch.setattr("oracle.runtime.together._LATE", 10 * TIMEOUT)
    next_one.answered()
    next_one.end()
    assert owner not in together.late
    assert begin(together, owner) in together._in_flight


async def test_nobody_waits_for_ever_for_quiet():
    """Not even where a batch is never ended."""
    together = Together()
    begin(together)
    await asyncio.wait_for(together.quiet(), TIMEOUT)
    await quiet(together)


async def test_an_error_is_its_own_batch_alone(monkeypatch):
    """It is raised where the batch is waited for, and the batch is over."""
    monkeypatch.setattr("oracle.runtime.together._LATE", 10 * TIMEOUT)
    together = Together()

    def fail():
        raise StopIteration

    failing, others = begin(together), [begin(together) for _ in range(3)]
    found = await asyncio.gather(*(one.run(int) for one in others), failing.run(fail), return_exceptions=True)
    assert found[:3] == [0, 0, 0]
    assert isinstance(found[3], RuntimeError)
    assert together._in_flight == set(others)


async def test_one_that_is_cancelled_is_left_out_and_holds_up_nobody(leave):
    """Before it is run it is not; while it is, its answer is dropped."""
    (wait, let_go), together, told = leave, Together(), list[int]()

    def work(number):
        told.append(number)
        wait()

    tasks = [asyncio.create_task(begin(together).run(partial(work, number))) for number in range(3)]
    await until(lambda: told == [0])
    tasks[0].cancel()
    tasks[1].cancel()
    await asyncio.wait(tasks[:2])
    let_go()
    await asyncio.wait_for(tasks[2], TIMEOUT)
    assert told == [0, 2]
    assert all(task.cancelled() for task in tasks[:2])


async def test_without_a_thread_everybody_is_told(monkeypatch):
    """And may try again; a work that the pool has all the same is not run by a thread that nobody looks at."""
    together, loop = Together(), asyncio.get_running_loop()
    kept = []

    def refuse(_pool, work, *arguments):
        kept.append(partial(work, *arguments))
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(loop, "run_in_executor", refuse)
        found = await asyncio.gather(*(begin(together).run(int) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in found] == [ResourceError] * 3
    assert not together._in_flight
    task = asyncio.create_task(begin(together).run(int))
    await asyncio.sleep(0)
    for one in kept:
        one()
    assert len(together._waiting) == 1
    assert await asyncio.wait_for(task, TIMEOUT) == 0


async def test_a_thread_that_was_refused_and_begins_all_the_same_is_looked_at(monkeypatch):
    """The pool puts a work in its queue before it finds that it can have no other thread."""
    loop = asyncio.get_running_loop()
    real = loop.run_in_executor

    def run(*arguments):
        real(*arguments)
        time.sleep(0.05)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(loop, "run_in_executor", run)
    together = Together()
    found = await asyncio.wait_for(asyncio.gather(*(begin(together).run(int) for _ in range(3))), TIMEOUT)
    assert found == [0] * 3


@pytest.mark.parametrize("seed", range(3))
async def test_many_shards_of_all_kinds_are_all_answered(seed):
    """Works that take some time, or none, come at any time, and some are given up."""
    together, answered, kept = Together(), list[tuple[int, int]](), list[tuple[int, int]]()

    def work(number, turn):
        time.sleep(0.0002 * ((number * 7 + turn + seed) % 5) + 0.3 * (number == seed and turn == 1))
        return number, turn

    async def shard(number):
        for turn in range(30):
            batch = begin(together)
            task = asyncio.create_task(batch.run(partial(work, number, turn)))
            if (number + turn) % 11 == seed and turn != 1:
                await asyncio.sleep(0.0001)
                task.cancel()
            await asyncio.wait({task})
            batch.end()
            if not task.cancelled():
                answered.append(await task)
                kept.append((number, turn))
            await asyncio.sleep(0.0001 * (number % 3))

    await asyncio.wait_for(asyncio.gather(*map(shard, range(40))), TIMEOUT)
    await quiet(together)
    assert not together._waiting
    assert answered == kept
    assert len(kept) > 1000


async def test_what_waits_for_others_has_the_answers_of_any_other(leave, monkeypatch):
    """What came while others were answered is answered behind it, together."""
    monkeypatch.setattr("oracle.runtime.together._LONG", 1000)
    (wait, let_go), contents = leave, bodies(12)
    log, together = MemoryLog.of(contents[:1], live=True), Together()
    task = asyncio.create_task(daemon_over(log, new_store(), MemorySink(log), together=together).run())
    await until(lambda: len(log.replies) == 1)
    other = asyncio.create_task(begin(together).run(wait))
    await asyncio.sleep(0.01)
    for body in contents[1:]:
        log.append(body)
    await until(lambda: len(together._waiting) == 1)
    assert len(log.replies) == 1
    let_go()
    await other
    log.finish()
    await task
    whole = MemoryLog.of(contents)
    await daemon_over(whole, new_store(), MemorySink(whole)).run()
    assert [reply.body for reply in log.replies] == [reply.body for reply in whole.replies]
