"""The one record that all that is told of a shard is made from."""

import dataclasses
import io
import itertools
import json
import math

import msgspec
import pytest

from oracle.accounting.ledger import ShardStarted, ShardStopped
from oracle.codec.rejections import Reason
from oracle.errors import BusError, LogDivergedError, SourceError, StorageError
from oracle.predictors.base import PublicFacts
from oracle.telemetry.ledger_event import shard_event
from oracle.telemetry.log import PublicLog
from oracle.telemetry.records import BOUNDS, ShardTelemetry, State, Timing, Work
from oracle.telemetry.registry import Registry
from tests.predictors.plans import tiny_distribution_plan
from tests.support.memory_bus import MemoryLog, MemorySink, MemorySource
from tests.support.shards import (
    MASTER_KEY,
    bodies,
    daemon_over,
    deliveries_of,
    first_snapshot,
    mixed_bodies,
    new_shard,
    new_store,
    process,
    run_daemon,
    small_plan,
)
from tests.support.stores import MemoryStore
from tests.support.tables import paying_plan, questions

_ROWS = 50
_LOUD = {"side-rearmed", "phase-ended"}


def _registry(output=None, *, grouped=False, now=lambda: 1000.0):
    return Registry(
        small_plan(), PublicLog(output or io.StringIO(), "json", "tiny"), version="1.2", grouped=grouped, now=now
    )


def _facts(rounds, phase_round, phase=1, rearms=0):
    return PublicFacts(rounds, phase, phase_round, small_plan().phases[phase - 1].rounds, rearms)


def _served(count=600, age=None):
    """Serve so many messages in memory, each so old, and return the registry, the log of messages and the timings."""
    registry = _registry()
    timings: list[Timing] = []
    registry.listen(timings.append)
    log = MemoryLog.of(mixed_bodies(count))
    source = MemorySource(log, age)
    daemon = daemon_over(log, new_store(), MemorySink(log), source=source, batch_rows=_ROWS, reporter=registry.shard(0))
    run_daemon(daemon)
    return registry, log, timings


def test_record_is_what_was_committed():
    """After a run it holds the rounds, batches and rejections that the sink shows, and the plan's own figures."""
    registry, log, _ = _served()
    (record,) = registry.telemetry.shards
    plan = small_plan()
    rejected = len(log.dead_letters)
    assert rejected > 0
    assert record.round == len(log.replies) - rejected
    assert record.batches == math.ceil(600 / _ROWS) >= len(log.commits)
    assert sum(record.rejections.values()) == rejected
    assert set(record.rejections) == set(Reason)
    before = plan.phases[: record.phase - 1]
    assert record.phase_round == record.round - sum(phase.rounds for phase in before)
    assert (record.phases, record.phase_rounds) == (len(plan.phases), plan.phases[record.phase - 1].rounds)
    assert record.delta == plan.phases[record.phase - 1].delta
    spent = plan.declared * plan.phases[0].delta + sum(phase.rounds * phase.delta for phase in before)
    assert record.delta_spent == pytest.approx(spent + record.phase_round * record.delta)
    assert record.delta_limit == plan.delta
    assert record.state is State.STOPPED
    assert record.restored
    assert record.snapshot_bytes == _snapshot_bytes()


def _snapshot_bytes():
    """Return the size of a snapshot after another run: it depends on the plan and the phase only."""
    log, store = MemoryLog.of(mixed_bodies(600, seed=2)), new_store()
    run_daemon(daemon_over(log, store, MemorySink(log)))
    return len(store.latest_bytes() or b"")


def test_what_is_timed():
    """Every commit is; answering a batch is, unless a side was armed afresh in it or a phase ended; no figure is fine.

    A restore does the bookkeeping of the answers again, and answering may miss the processor's caches: what is told of
    these times is a range.
    """
    registry, log, timings = _served()
    count = {work: sum(timing.work is work for timing in timings) for work in Work}
    (record,) = registry.telemetry.shards
    assert count[Work.COMMIT] == len(log.commits)
    assert count[Work.RESTORE] == 1
    assert count[Work.SNAPSHOT] >= 1
    shard, deliveries = new_shard(), deliveries_of(mixed_bodies(600))
    ledgers = [process(shard, deliveries[at : at + _ROWS]).commit.ledger for at in range(0, 600, _ROWS)]
    quiet = [ledger for ledger in ledgers if not _LOUD & {json.loads(event)["kind"] for event in ledger}]
    assert len(quiet) < record.batches == len(ledgers)
    assert count[Work.ANSWER] == len(quiet)
    assert count[Work.LATENCY] == 0  # nobody knows how old the messages are
    assert {timing.shard for timing in timings} == {0}
    assert {timing.seconds for timing in timings} < {*itertools.chain(*BOUNDS.values())}


def test_latency_counts_every_answer_of_quiet_commits_as_old_as_their_oldest_message():
    """From its time in the log to the commit's end; commits in which a side was armed afresh or a phase ended are none.

    No commit takes more than the ten seconds between the messages' age and the next bound.
    """
    _, log, timings = _served(age=20.0)
    told = [timing for timing in timings if timing.work is Work.LATENCY]
    quiet = [
        len(commit.replies)
        for commit in log.commits
        if commit.replies.bodies and not _LOUD & {json.loads(event)["kind"] for event in commit.ledger}
    ]
    assert 0 < len(quiet) < len(log.commits)
    assert [timing.count for timing in told] == quiet
    assert {timing.seconds for timing in told} == {30.0}


@pytest.mark.parametrize("work", Work)
def test_how_long_work_took_is_rounded_up(work):
    """To the next bound; beyond the last one to that times a power of two; all that lies in a range looks alike."""
    bounds = BOUNDS[work]
    for low, high in itertools.pairwise([0.0, *bounds, *(bounds[-1] * 2.0**power for power in (1, 2, 3))]):
        for seconds in (math.nextafter(low, math.inf), (low + high) / 2, math.nextafter(high, 0.0), high):
            assert Timing(0, work, seconds).seconds == high
    assert Timing(0, work, 0.0).seconds == bounds[0]


@pytest.mark.parametrize("seconds", [0.0123456, 3.45678, 1234.5])
def test_log_lines_tell_no_finer_times_than_metrics(seconds):
    """Both log lines with a duration have the bound that the listeners are told."""
    output = io.StringIO()
    registry = _registry(output)
    told: list[Timing] = []
    registry.listen(told.append)
    reporter = registry.shard(0)
    reporter.restored(_facts(20, 20), 3, seconds)
    reporter.snapshot_written(_facts(20, 20), 4000.0, 777, seconds)
    lines = [json.loads(line)["seconds"] for line in output.getvalue().splitlines()]
    assert lines == [timing.seconds for timing in told]
    assert [timing.work for timing in told] == [Work.RESTORE, Work.SNAPSHOT]
    assert all(line > seconds for line in lines)


def test_record_is_frozen():
    """Who observes cannot change what others see."""
    record = _registry().shard(0).telemetry
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.round = 3
    with pytest.raises(TypeError):
        record.rejections[Reason.OVERSIZED] = 3


def test_record_has_no_private_field():
    """No field's name says label, feature, query, depth, medium, point, key or tag."""
    names = {part for field in dataclasses.fields(ShardTelemetry) for part in field.name.split("_")}
    assert not names & {"label", "feature", "query", "depth", "medium", "mediums", "point", "points", "key", "tag", "x"}


@pytest.mark.parametrize(("started", "kind"), [(True, ShardStarted), (False, ShardStopped)])
def test_standing_is_the_record(started, kind):
    """The ledger's event of a beginning or an end says what the record says."""
    reporter = _registry().shard(0)
    reporter.restored(_facts(20, 20, rearms=2), 0, 0.1)
    event = shard_event("1.2", reporter.telemetry, started=started)
    assert isinstance(event, kind)
    record = reporter.telemetry
    for field in ("round", "phase", "rearms", "epsilon", "delta", "delta_spent", "delta_limit"):
        assert getattr(event, field) == getattr(record, field)
    assert event.version == "1.2"


@pytest.mark.parametrize("predictor", ["statistics", "sparse-vector"])
def test_that_all_is_paid_is_said_once(predictor):
    """A warning and an incident at the commit of the last paid answer; neither before, nor later, nor when it restarts.

    It makes no shard unready: what is answered then is the plan's matter.
    """
    plan, output = paying_plan(predictor, 8), io.StringIO()
    registry = Registry(plan, PublicLog(output, "json", plan.name), version="1.2")
    log = MemoryLog.of(questions(predictor, 400))
    store = MemoryStore(MASTER_KEY)
    store.save(first_snapshot(plan))
    for _ in range(2):
        run_daemon(daemon_over(log, store, MemorySink(log), plan=plan, batch_rows=50, reporter=registry.shard(0)))
    (record,) = registry.telemetry.shards
    assert (record.paid, record.paid_left, record.round) == (plan.paid, 0, 400)
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    (spent,) = [line for line in lines if line["event"] == "answers.spent"]
    last = max(event["round"] for event in map(json.loads, log.ledger) if event["kind"] == "answer-paid")
    assert (spent["level"], spent["paid"]) == ("warning", plan.paid)
    assert last < spent["round"] <= last + 50
    (incident,) = registry.telemetry.incidents
    assert (incident.event, incident.text) == ("answers.spent", "all 8 answers that the data pay for were given")
    assert record.state is State.STOPPED


def test_paid_answers_that_settle_all_others_are_no_incident():
    """Behind the last one of a distribution everything is known, and nobody is warned."""
    plan, output = tiny_distribution_plan(alpha=0.3), io.StringIO()
    registry = Registry(plan, PublicLog(output, "json", plan.name), version="1.2")
    log, store = MemoryLog.of(bodies(400, plan=plan)), MemoryStore(MASTER_KEY)
    store.save(first_snapshot(plan))
    run_daemon(daemon_over(log, store, MemorySink(log), plan=plan, batch_rows=50, reporter=registry.shard(0)))
    (record,) = registry.telemetry.shards
    assert (record.paid, record.paid_limit, record.paid_left) == (plan.paid, plan.paid, None)
    assert "answers.spent" not in output.getvalue()
    assert not registry.telemetry.incidents


def test_standing_says_what_was_paid():
    """Where answers are paid for, and only there."""
    registry = Registry(paying_plan("statistics"), PublicLog(io.StringIO()), version="1.2")
    registry.shard(0).restored(dataclasses.replace(_facts(20, 20), paid=7), 0, 0.1)
    assert shard_event("1.2", registry.shard(0).telemetry, started=False).paid == 7
    assert shard_event("1.2", _registry().shard(0).telemetry, started=True).paid is msgspec.UNSET


def test_counters_go_on_when_a_shard_comes_back():
    """Batches and failures of this process stay; where the shard stands is known only when it is restored again."""
    registry = _registry(grouped=True)
    registry.assigned(3)
    reporter = registry.shard(3)
    reporter.restored(_facts(20, 20), 0, 0.1)
    reporter.committed(_facts(25, 25), [Reason.OVERSIZED, Reason.OVERSIZED], phase_ended=False)
    reporter.bus_failed(BusError("gone"))
    registry.revoked(reporter)
    assert registry.telemetry.shards == ()
    registry.assigned(3)
    (record,) = registry.telemetry.shards
    assert (record.batches, record.rejections[Reason.OVERSIZED], record.bus_failures) == (1, 2, 1)
    assert (record.state, record.restored) == (State.WAITING, False)


def test_what_ends_late_is_not_shown():
    """The reporter of an earlier assignment is told things still, and revoked; the later one's record stands."""
    registry = _registry(grouped=True)
    registry.assigned(0)
    old = registry.shard(0)
    registry.assigned(0)
    registry.shard(0).restored(_facts(20, 20), 0, 0.1)
    registry.shard(0).serving()
    old.failed(SourceError("the old one's"))
    registry.revoked(old)
    (record,) = registry.telemetry.shards
    assert (record.state, record.round) == (State.SERVING, 20)


def test_mishaps_are_the_last_ones_newest_first():
    """Twenty are kept, each with its time, shard, event and text."""
    times = iter(range(1, 100))
    registry = _registry(grouped=True, now=lambda: float(next(times)))
    registry.assigned(5)
    for number in range(25):
        registry.shard(5).bus_failed(BusError(f"number {number}"))
    registry.bus_failed(BusError("nobody answers"))
    first, second, *rest = registry.telemetry.incidents
    assert (first.shard, first.event, first.text) == (None, "bus.unavailable", "nobody answers")
    assert (second.shard, second.text) == (5, "number 24")
    assert first.at > second.at
    assert len(rest) == 18


def test_foreign_errors_are_told_by_their_kind_only():
    """Their text may hold anything; those of Perpetua's own are public. A diverged log is counted."""
    output = io.StringIO()
    registry = _registry(output)
    reporter = registry.shard(0)
    reporter.failed(ValueError("x = 0.123"))
    assert registry.telemetry.incidents[0].text == "internal error: ValueError"
    assert "0.123" not in output.getvalue()
    assert reporter.telemetry.divergences == 0
    reporter.failed(LogDivergedError("log diverged: it did"))
    assert reporter.telemetry.divergences == 1
    assert reporter.telemetry.state is State.FAILED
    assert registry.telemetry.incidents[0].text == "log diverged: it did"


def test_a_group_takes_us_in_and_loses_us():
    """Without a group we are always in."""
    assert _registry().telemetry.joined
    registry = _registry(grouped=True)
    assert not registry.telemetry.joined
    registry.joined()
    assert registry.telemetry.joined
    registry.bus_failed(BusError("gone"))
    assert not registry.telemetry.joined


def test_moments_are_told_in_whole_seconds():
    """The start, a incident and a snapshot, read or written, lie in the second in which they were."""
    registry = _registry(now=lambda: 1000.999)
    reporter = registry.shard(0)
    reporter.snapshot_read(_facts(10, 10), 900.75, 777)
    assert reporter.telemetry.snapshot_at == 900.0
    reporter.snapshot_written(_facts(10, 10), 910.9999, 777, 0.1)
    assert reporter.telemetry.snapshot_at == 910.0
    reporter.snapshot_failed(StorageError("full"))
    assert (registry.telemetry.started, registry.telemetry.incidents[0].at) == (1000.0, 1000.0)
    reporter.snapshot_written(_facts(10, 10), None, None, 0.1)
    assert reporter.telemetry.snapshot_at is None
