"""Shards of a process answer few messages in turn; nobody waits long for one who takes long."""

import asyncio

from oracle.runtime.turns import Turns
from tests.support.memory_bus import MemoryLog, MemorySink
from tests.support.shards import bodies, daemon_over, new_store
from tests.support.waiting import until


async def test_turns_come_in_order_and_one_at_a_time():
    """Each begins when the one before it has ended."""
    turns, told = Turns(), list[object]()

    async def one(number):
        async with turns.next():
            told.append(number)
            await asyncio.sleep(0.001)
            told.append(-number)

    await asyncio.gather(*map(one, range(1, 4)))
    assert told == [1, -1, 2, -2, 3, -3]


async def test_nobody_waits_long_for_one_who_does(monkeypatch):
    """The next ones go on without a turn, and let nobody in whose turn it is not."""
    monkeypatch.setattr("oracle.runtime.turns._LONGEST", 0.01)
    turns, leave = Turns(), asyncio.Event()

    async def long():
        async with turns.next():
            await leave.wait()

    task = asyncio.create_task(long())
    await asyncio.sleep(0)
    for _ in range(2):
        async with turns.next():
            assert turns._lock.locked()
    leave.set()
    await task
    assert not turns._lock.locked()


async def test_what_waits_for_its_turn_has_the_answers_of_any_other():
    """What came meanwhile is answered behind it, together."""
    contents = bodies(12)
    log, turns = MemoryLog.of(contents[:1], live=True), Turns()
    task = asyncio.create_task(daemon_over(log, new_store(), MemorySink(log), turns=turns).run())
    await until(lambda: len(log.replies) == 1)
    async with turns.next():
        for body in contents[1:]:
            log.append(body)
        await asyncio.sleep(0.05)
        assert len(log.replies) == 1
    log.finish()
    await task
    whole = MemoryLog.of(contents)
    await daemon_over(whole, new_store(), MemorySink(whole)).run()
    assert [reply.body for reply in log.replies] == [reply.body for reply in whole.replies]
