"""Shards of a process answer few messages in turn, and take with them what came while they waited."""

import asyncio
import threading
from itertools import accumulate

import pytest

from oracle.predictors.kinds import restore_predictor
from oracle.runtime.turns import Turns
from tests.support.memory_bus import MemoryLog, MemorySink, MemorySource
from tests.support.shards import bodies, daemon_over, new_store, small_plan
from tests.support.waiting import until


async def test_turns_come_in_order_and_one_at_a_time():
    """Who finds nobody before them has not waited."""
    turns, told = Turns(), list[object]()

    async def one(number):
        async with turns.next() as waited:
            told.append((number, waited))
            await asyncio.sleep(0.01)
            told.append(number)

    await asyncio.gather(*map(one, range(3)))
    assert told == [(0, False), 0, (1, True), 1, (2, True), 2]


async def test_nobody_waits_long_for_one_who_does(monkeypatch):
    """The next ones go on without a turn, and the one behind them has one again."""
    monkeypatch.setattr("oracle.runtime.turns._LONGEST", 0.01)
    turns, leave = Turns(), asyncio.Event()

    async def long():
        async with turns.next():
            await leave.wait()

    task = asyncio.create_task(long())
    await asyncio.sleep(0)
    for _ in range(2):
        async with turns.next() as waited:
            assert waited
    leave.set()
    await task
    async with turns.next() as waited:
        assert not waited


class _Fetched(MemorySource):
    """Notes how many messages each fetch was asked for, and got."""

    def __init__(self, log):
        super().__init__(log)
        self.found: list[tuple[int, int]] = []

    async def fetch(self, limit, wait):
        deliveries = await super().fetch(limit, wait)
        if deliveries:
            self.found.append((limit, len(deliveries)))
        return deliveries


class _Noting:
    """A predictor that notes how many rows it answers each time, and whether it does in the event loop."""

    def __init__(self, inner, noted):
        self._inner, self._noted = inner, noted

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def answer(self, features, present):
        self._noted.append((len(features), threading.current_thread() is threading.main_thread()))
        return self._inner.answer(features, present)


def _noting(noted):
    return lambda plan, arrays: _Noting(restore_predictor(plan, arrays), noted)


@pytest.mark.parametrize(("rows", "wanted"), [(64, [1, 1, 5]), (3, [1, 1, 3]), (1, [1, 1, 1])])
async def test_what_came_meanwhile_is_answered_too(rows, wanted):
    """As many as a batch may have, with the same answers."""
    contents = bodies(12)
    log, turns, noted = MemoryLog.of(contents[:1], live=True), Turns(), list[tuple[int, bool]]()
    source = _Fetched(log)
    daemon = daemon_over(
        log, new_store(), MemorySink(log), source=source, batch_rows=rows, restore=_noting(noted), turns=turns
    )
    task = asyncio.create_task(daemon.run())
    await until(lambda: len(log.replies) == 1)
    log.append(contents[1])
    await until(lambda: len(log.replies) == 2)
    async with turns.next():
        log.append(contents[2])
        await until(lambda: len(source.found) == 3)
        for body in contents[3:7]:
            log.append(body)
    await until(lambda: len(log.replies) == 7)
    assert [count for count, _ in noted][:3] == wanted
    assert noted[1][1], "the second one is answered in the event loop"
    for body in contents[7:]:
        log.append(body)
    log.finish()
    await task
    whole = MemoryLog.of(contents)
    await daemon_over(whole, new_store(), MemorySink(whole)).run()
    assert [reply.body for reply in log.replies] == [reply.body for reply in whole.replies]


async def test_no_phase_ends_in_the_event_loop():
    """How long that takes, nobody knows; other batches are answered there, as they are quick."""
    plan, noted = small_plan(), list[tuple[int, bool]]()
    log = MemoryLog.of(bodies(plan.rounds))
    await daemon_over(log, new_store(), MemorySink(log), batch_rows=2, restore=_noting(noted)).run()
    ends = set(accumulate(phase.rounds for phase in plan.phases))
    reached = list(accumulate(rows for rows, _ in noted))
    assert reached[-1] == plan.rounds
    ending = [
        here for (rows, here), end in zip(noted, reached, strict=True) if ends & {*range(end - rows + 1, end + 1)}
    ]
    assert ending == [False] * len(plan.phases)
    assert sum(here for _, here in noted) > len(noted) / 2
