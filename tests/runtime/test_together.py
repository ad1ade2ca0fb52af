"""Small batches of a process's shards are answered together; nobody waits long for one that takes long."""

import asyncio
import threading
import time
from functools import partial

import pytest

from oracle.runtime.together import Together
from tests.support.memory_bus import MemoryLog, MemorySink
from tests.support.shards import bodies, daemon_over, new_store
from tests.support.waiting import until


async def test_works_run_in_order_in_one_thread():
    """All that was handed in before a thread begins, and what comes while it runs."""
    together, told = Together(), list[tuple[int, int]]()

    def work(number):
        told.append((number, threading.get_ident()))
        time.sleep(0.001)
        return -number

    async def one(number):
        await asyncio.sleep(0.001 * (number // 5))
        return await together.begin().run(lambda: work(number))

    assert await asyncio.gather(*map(one, range(20))) == [-number for number in range(20)]
    assert [number for number, _ in told] == list(range(20))
    assert {ident for _, ident in told[:5]} == {told[0][1]}
    assert threading.get_ident() not in {ident for _, ident in told}


async def test_nobody_waits_long_for_one_who_does(monkeypatch):
    """Those before it get their answers, those behind it another thread, and it is no longer waited for."""
    monkeypatch.setattr("oracle.runtime.together._LONG", 0.02)
    together, leave = Together(), threading.Event()
    before, long, behind = (together.begin() for _ in range(3))
    tasks = [asyncio.create_task(one) for one in (before.run(int), long.run(leave.wait), behind.run(int))]
    assert await asyncio.wait_for(tasks[2], 5.0) == await tasks[0] == 0
    before.end()
    behind.end()
    await asyncio.wait_for(together.quiet(), 5.0)
    later = asyncio.create_task(together.begin().run(float))
    assert await asyncio.wait_for(later, 5.0) == 0.0
    assert not tasks[1].done()
    leave.set()
    assert await tasks[1]
    assert not together._waiting
    await until(lambda: not together._leads)
    assert not together._is_led


async def test_it_is_quiet_when_all_is_durable_or_takes_long(monkeypatch):
    """Until then it is not, whatever else is."""
    monkeypatch.setattr("oracle.runtime.together._COMMITTED", 60.0)
    together = Together()
    await together.quiet()
    first, second = together.begin(), together.begin()
    waiting = asyncio.create_task(together.quiet())
    await asyncio.gather(first.run(int), second.run(int))
    first.end()
    await asyncio.sleep(0.01)
    assert not waiting.done()
    second.end()
    await waiting
    monkeypatch.setattr("oracle.runtime.together._COMMITTED", 0.01)
    await together.begin().run(int)
    await asyncio.wait_for(together.quiet(), 5.0)


async def test_an_error_is_its_own_batch_alone():
    """It is raised where the batch is waited for, and the batch is over."""
    together = Together()

    def fail():
        raise StopIteration

    failing, others = together.begin(), [together.begin() for _ in range(3)]
    found = await asyncio.gather(*(one.run(int) for one in others), failing.run(fail), return_exceptions=True)
    assert found[:3] == [0, 0, 0]
    assert isinstance(found[3], RuntimeError)
    for one in others:
        one.end()
    await asyncio.wait_for(together.quiet(), 5.0)


async def test_one_that_is_cancelled_is_left_out_and_holds_up_nobody():
    """Before it is run it is not; while it is, its answer is dropped."""
    together, told, leave = Together(), list[int](), threading.Event()

    def work(number):
        told.append(number)
        leave.wait()

    tasks = [asyncio.create_task(together.begin().run(lambda number=number: work(number))) for number in range(3)]
    await until(lambda: told == [0])
    tasks[0].cancel()
    tasks[1].cancel()
    await asyncio.wait(tasks[:2])
    leave.set()
    await tasks[2]
    assert told == [0, 2]
    assert all(task.cancelled() for task in tasks[:2])


async def test_without_a_thread_everybody_is_told(monkeypatch):
    """And may try again."""
    together = Together()

    def refuse(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "run_in_executor", refuse)
        with pytest.raises(RuntimeError, match="thread"):
            await together.begin().run(int)
    await together.quiet()
    assert await together.begin().run(int) == 0


@pytest.mark.parametrize("seed", range(3))
async def test_many_shards_of_all_kinds_are_all_answered(seed):
    """Works that take some time, or none, come at any time, and some are given up."""
    together, answered = Together(), 0

    async def shard(number):
        nonlocal answered
        for turn in range(30):
            batch = together.begin()
            seconds = 0.0002 * ((number * 7 + turn + seed) % 5)
            task = asyncio.create_task(batch.run(partial(time.sleep, seconds)))
            if (number + turn) % 11 == seed:
                await asyncio.sleep(0.0001)
                task.cancel()
            await asyncio.wait({task})
            batch.end()
            answered += not task.cancelled()
            await asyncio.sleep(0.0001 * (number % 3))

    await asyncio.wait_for(asyncio.gather(*map(shard, range(40))), 60.0)
    await asyncio.wait_for(together.quiet(), 5.0)
    assert not together._waiting
    assert answered > 1000


async def test_what_waits_for_others_has_the_answers_of_any_other():
    """What came while others were answered is answered behind it, together."""
    contents = bodies(12)
    log, together, leave = MemoryLog.of(contents[:1], live=True), Together(), threading.Event()
    task = asyncio.create_task(daemon_over(log, new_store(), MemorySink(log), together=together).run())
    await until(lambda: len(log.replies) == 1)
    other = asyncio.create_task(together.begin().run(lambda: leave.wait(0.05)))
    for body in contents[1:]:
        log.append(body)
    await asyncio.sleep(0.02)
    assert len(log.replies) == 1
    leave.set()
    await other
    log.finish()
    await task
    whole = MemoryLog.of(contents)
    await daemon_over(whole, new_store(), MemorySink(whole)).run()
    assert [reply.body for reply in log.replies] == [reply.body for reply in whole.replies]
