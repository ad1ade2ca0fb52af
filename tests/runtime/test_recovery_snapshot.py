"""A crash between the commit that ended a phase and the snapshot that lets its key go."""

import io
import json

import pytest

from tests.support.memory_bus import CrashError, Failure, MemoryLog, MemorySink
from tests.support.shards import bodies, daemon_over, new_store, run_daemon, small_plan


def test_recovery_snapshots_at_once_if_a_phase_ended_since_the_last_one() -> None:
    """The daemon saves before it serves, and the snapshot is of the new phase."""
    first = small_plan().phases[0].rounds
    log, store = MemoryLog.of(bodies(first + 40)), new_store()
    with pytest.raises(CrashError):
        run_daemon(
            daemon_over(log, store, MemorySink(log, failures={(first - 1) // 50: Failure.CRASH_AFTER}), batch_rows=50)
        )
    before = store.peek()
    assert before is not None
    assert before.phase == 1
    output = io.StringIO()
    run_daemon(daemon_over(log, store, MemorySink(log), batch_rows=50, snapshot_rounds=10**9, output=output))
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    events = [line["event"] for line in lines]
    assert events.index("snapshot.written") < events.index("daemon.serving")
    assert lines[events.index("snapshot.written")]["phase"] == 2


def test_recovery_within_a_phase_does_not() -> None:
    """Nothing is saved before serving if no key has to go."""
    log, store = MemoryLog.of(bodies(120)), new_store()
    with pytest.raises(CrashError):
        run_daemon(daemon_over(log, store, MemorySink(log, failures={1: Failure.CRASH_AFTER}), batch_rows=50))
    output = io.StringIO()
    run_daemon(daemon_over(log, store, MemorySink(log), batch_rows=50, output=output))
    events = [json.loads(line)["event"] for line in output.getvalue().splitlines()]
    assert events.index("daemon.serving") < events.index("snapshot.written")
