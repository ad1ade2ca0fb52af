"""A predictor in a process of its own says what it would say here, ends with us, and lets nothing out."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import msgspec
import numpy as np
import psutil
import pytest

from oracle.errors import EngineLostError, PlanExhaustedError
from oracle.planning.kinds import KINDS
from oracle.planning.plan import Plan
from oracle.predictors.kinds import restore_predictor
from oracle.runtime.shard import Shard
from oracle.runtime.worker import handover as moving
from oracle.runtime.worker.client import RemotePredictor, WorkerProcess
from oracle.runtime.worker.handover import MANY_ROWS, Engine
from oracle.runtime.worker.protocol import Answered, Ask, Hello
from tests.predictors.examples import example
from tests.support.memory_bus import MemoryLog, MemorySink
from tests.support.shards import (
    daemon_over,
    deliveries_of,
    first_snapshot,
    mixed_bodies,
    new_shard,
    new_store,
    process_in_batches,
    run_daemon,
    same_state,
    small_plan,
    state_of,
)
from tests.support.waiting import PATIENCE, eventually

_COUNT = 900
_KINDS = pytest.mark.parametrize("predictor", KINDS)


def _is_up(engine: Engine) -> bool:
    return engine._process is not None and engine._process.has_spoken


@contextmanager
def _apart(plan: Plan) -> Iterator[RemotePredictor]:
    with closing(WorkerProcess(plan.width)) as process:
        process.hear(Hello)
        yield RemotePredictor(plan, process, first_snapshot(plan).arrays)


@_KINDS
def test_it_answers_as_here(predictor):
    """Batches of many sizes, rows with no query among them: answers, facts and state are the same, bit for bit."""
    plan = example(predictor)
    here, source = restore_predictor(plan, first_snapshot(plan).arrays), np.random.default_rng(3)
    with _apart(plan) as apart:
        for count in (1, 0, 17, 300, 2, 511, 40):
            rows, present = source.uniform(-0.1, 1.1, (count, 2)), source.random(count) < 0.9
            mine, other = here.answer(rows, present), apart.answer(rows, present)
            for name in ("labels", "phases", "tag", "values"):
                expected, found = getattr(mine, name), getattr(other, name)
                assert (expected is None) == (found is None)
                if expected is not None:
                    assert expected.dtype == found.dtype
                    assert expected.tobytes() == found.tobytes()
            assert (list(mine.events), mine.first_round) == (list(other.events), other.first_round)
            assert here.facts() == apart.facts()
            if count % 2:
                apart.settle()
        assert same_state(here.export(), apart.export())
        assert same_state(here.export(), apart.export())


def test_it_refuses_what_runs_past_the_plan():
    """As here; and none of the batch was answered."""
    plan = small_plan()
    with _apart(plan) as apart:
        rows = np.zeros((plan.rounds + 1, 2))
        with pytest.raises(PlanExhaustedError, match="the plan's last phase ends here"):
            apart.answer(rows, np.ones(len(rows), dtype=np.bool_))
        assert len(apart.answer(rows[:-1], np.ones(plan.rounds, dtype=np.bool_)).labels) == plan.rounds


@_KINDS
def test_a_shard_moves_and_nobody_notices(predictor):
    """Replies, ledger, mark and state are those of a shard that stayed, wherever it moved, and it is told once."""
    plan, told = example(predictor), []
    deliveries = deliveries_of(mixed_bodies(_COUNT))
    whole = new_shard(plan)
    expected = process_in_batches(whole, deliveries)
    with closing(Engine(lambda: told.append("moved"), many_rows=100)) as engine:
        shard = Shard(plan, first_snapshot(plan), engine.restore)
        first = process_in_batches(shard, deliveries[:99])
        assert engine._process is None
        second = process_in_batches(shard, deliveries[99:299])
        assert engine._process is None
        shard.settle()
        eventually(lambda: _is_up(engine))
        assert not told
        shard.settle()
        assert told == ["moved"]
        third = process_in_batches(shard, deliveries[299:], [7, 300])
        assert first.replies + second.replies + third.replies == expected.replies
        assert first.ledger + second.ledger + third.ledger == expected.ledger
        assert third.mark == expected.mark
        assert same_state(state_of(shard), state_of(whole))
        assert told == ["moved"]


def test_a_daemon_moves_and_is_restarted():
    """A daemon that moves at its first batch, and one after it from its snapshot: the replies of one that stayed."""
    expected = process_in_batches(new_shard(), deliveries_of(mixed_bodies(_COUNT)))
    log, store = MemoryLog(deliveries_of(mixed_bodies(_COUNT))), new_store()
    told = []
    with closing(Engine(lambda: told.append("moved"), many_rows=1)) as engine:
        engine.begin(small_plan(), 1)
        eventually(lambda: _is_up(engine))
        run_daemon(daemon_over(log, store, MemorySink(log), restore=engine.restore))
    assert told == ["moved"]
    assert [reply.body for reply in log.replies] == expected.replies
    assert log.ledger == expected.ledger


def test_small_batches_and_a_setting_keep_it_here():
    """No process is started below the bound, or where the operator wants none."""
    plan = small_plan()
    for engine in (Engine(), Engine(many_rows=1, stays=True)):
        shard = Shard(plan, first_snapshot(plan), engine.restore)
        process_in_batches(shard, deliveries_of(mixed_bodies(200)))
        shard.settle()
        assert engine._process is None
    assert MANY_ROWS == 65_536


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "of other code"])
def test_a_process_that_is_of_no_use_is_done_without(killed, monkeypatch):
    """It is killed before it was ready, or a newer Perpetua was installed since the daemon began.

    The predictor stays here, with the same answers, and none is started again.
    """
    if not killed:
        monkeypatch.setattr(moving, "_BUILD", "what it was then")
    plan, told = small_plan(), []
    deliveries = deliveries_of(mixed_bodies(_COUNT))
    expected = process_in_batches(new_shard(plan), deliveries)
    with closing(Engine(lambda: told.append("moved"), many_rows=1)) as engine:
        shard = Shard(plan, first_snapshot(plan), engine.restore)
        first = process_in_batches(shard, deliveries[:10])
        shard.settle()
        if killed:
            assert engine._process is not None
            _kill(engine._process)
        eventually(lambda: _is_up(engine))
        shard.settle()
        assert engine._process is None
        rest = process_in_batches(shard, deliveries[10:], [30, 60])
        assert first.replies + rest.replies == expected.replies
        assert engine._process is None
    assert told == []


def test_where_no_process_may_be_started_it_stays(monkeypatch):
    """A sandbox that refuses it: no error, the same answers, and it is not tried again."""

    def refuse(*_given: object) -> int:
        tried.append(1)
        raise PermissionError

    tried: list[int] = []
    monkeypatch.setattr(os, "memfd_create", refuse)
    plan = small_plan()
    deliveries = deliveries_of(mixed_bodies(_COUNT))
    engine = Engine(many_rows=1)
    shard = Shard(plan, first_snapshot(plan), engine.restore)
    assert process_in_batches(shard, deliveries, [50]) == process_in_batches(new_shard(plan), deliveries)
    shard.settle()
    shard.settle()
    assert tried == [1]


def _kill(process: WorkerProcess) -> None:
    assert process._process is not None
    process._process.kill()


def test_a_closed_engine_starts_no_process():
    """A thread may still be at work for a daemon that was cut off."""
    plan = small_plan()
    engine = Engine(many_rows=1)
    shard = Shard(plan, first_snapshot(plan), engine.restore)
    process_in_batches(shard, deliveries_of(mixed_bodies(9)))
    engine.close()
    shard.settle()
    assert engine._process is None


def test_a_process_that_ends_is_a_clear_error():
    """Whatever was asked of it; closing it again is no error."""
    plan = small_plan()
    with _apart(plan) as apart:
        _kill(apart._process)
        for ask in (lambda: apart.answer(np.zeros((3, 2)), np.ones(3, dtype=np.bool_)), apart.export):
            with pytest.raises(EngineLostError, match="engine: its process has ended; what was committed stands"):
                ask()
        apart._process.close()


def test_a_failure_tells_nothing(capfd):
    """What the engine trips over may be private: it ends, and neither the error nor its streams say more."""
    plan = small_plan()
    with _apart(plan) as apart:
        process = apart._process
        process.say(Ask(10, 1 << 40))  # rows that are not there
        with pytest.raises(EngineLostError):
            process.hear(Answered)
        assert process._process is not None
        assert process._process.wait(PATIENCE) == 0
    assert capfd.readouterr() == ("", "")


def test_signals_for_the_daemon_are_not_for_it():
    """A terminal's Ctrl-C and a supervisor's SIGTERM reach the whole group: the daemon drains, and needs its engine."""
    plan = small_plan()
    with _apart(plan) as apart:
        running = apart._process._process
        assert running is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            running.send_signal(number)
        assert len(apart.answer(np.zeros((3, 2)), np.ones(3, dtype=np.bool_)).labels) == 3


_ORPHAN = """
import os, signal, sys
from oracle.runtime.worker.client import WorkerProcess
from oracle.runtime.worker.protocol import Hello
process = WorkerProcess(2)
process.hear(Hello)
print(process._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_with_the_daemon():
    """Also where that is killed."""
    done = subprocess.run([sys.executable, "-c", _ORPHAN], stdout=subprocess.PIPE, check=False, timeout=PATIENCE)
    assert done.returncode == -signal.SIGKILL
    eventually(lambda: not _runs(int(done.stdout)))


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_it_holds_no_other_file():
    """Sockets and locks of the daemon are not the engine's: they must be free when the daemon is gone."""
    read, write = os.pipe()
    os.set_inheritable(write, True)  # noqa: FBT003 -- it has no name
    os.set_blocking(read, False)
    try:
        with _apart(small_plan()):
            os.close(write)
            assert os.read(read, 1) == b""  # as nobody is left who could write
    finally:
        os.close(read)


def test_what_is_said_can_be_read():
    """Every word and order survives the wire."""
    order = Ask(5, 64)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(order), type=Ask) == order
