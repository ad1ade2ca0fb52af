"""Receipts against ledgers: of the same run at every snapshot, and of one that contradicts itself or is of another."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from oracle.accounting.ledger import (
    AnswerPaid,
    LedgerEvent,
    MarginalsReleased,
    ModelRetired,
    PhaseEnded,
    PhaseStarted,
    PlanEnded,
    ScoreReleased,
    ShardStarted,
    ShardStopped,
    SideRearmed,
    decode,
)
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import StatisticsPlan
from oracle.predictors.base import phase_started
from oracle.receipts.ledgers import against_ledger
from oracle.receipts.receipts import Statement, statement_of
from oracle.runtime.fork import fork_event
from oracle.state.format import Snapshot
from oracle.telemetry.ledger_event import shard_event
from oracle.telemetry.records import initial_record, public_fields
from tests.planning.statistics.tables import table_plan
from tests.predictors.examples import EXAMPLES, example
from tests.predictors.plans import feature, tiny_distribution_plan, tiny_plan
from tests.support.memory_bus import MemoryLog, MemorySink
from tests.support.shard_events import lifecycle_event
from tests.support.shards import (
    MASTER_KEY,
    bodies,
    daemon_over,
    deliveries_of,
    first_snapshot,
    mixed_bodies,
    new_shard,
    process,
    run_daemon,
)
from tests.support.stores import MemoryStore

PLAN = tiny_plan(
    [feature("a"), feature("b")], points=(12, 15, 10, 13) * 4, rearmed=4, threshold=1, rounds=60
)  # a re-arm every other round, also at the last round of a phase, and of several sides at once


class KeepingStore(MemoryStore):
    """Keeps every snapshot, with as much of the ledger as there was when it was made."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(MASTER_KEY)
        self._log = log
        self.kept: list[tuple[Snapshot, int]] = []

    def save(self, snapshot: Snapshot) -> None:
        """Save and keep it."""
        super().save(snapshot)
        self.kept.append((snapshot, len(self._log.ledger)))


def stated(snapshot: Snapshot, plan: Plan = PLAN) -> Statement:
    """Return the statement of a snapshot."""
    return statement_of(plan, snapshot, 0, "perpetua test")


@pytest.fixture(scope="module")
def every_round() -> tuple[list[tuple[Statement, int]], list[LedgerEvent]]:
    """Return the statements after each of 900 messages, with the events there were then, and the whole ledger."""
    shard, events, statements = new_shard(PLAN), [], []
    for delivery in deliveries_of(bodies(900)):
        events += [decode(event) for event in process(shard, [delivery]).commit.ledger]
        statements.append((stated(shard.snapshot()), len(events)))
    return statements, events


def problems(statement: Statement, events: list[LedgerEvent]) -> str:
    """Return all that is wrong, in one text."""
    return "\n".join(against_ledger(statement, events))


def test_a_statement_of_any_round_agrees_with_the_ledger(every_round):
    """Right before and right behind each re-arm and phase end, with the ledger of then and with the later one."""
    statements, events = every_round
    rearms = [event.round for event in events if isinstance(event, SideRearmed)]
    ends = {event.round for event in events if isinstance(event, PhaseEnded)}
    rounds = set(rearms)
    assert len(rearms) > len(rounds) > 300, "several sides are armed before one query"
    assert len(ends) > 4
    assert any(end - 1 in rounds for end in ends), "a side is armed before a phase's last query"
    for statement, told in statements:
        if statement.round % 4 and not ends & {statement.round - 1, statement.round, statement.round + 1}:
            continue
        assert against_ledger(statement, events[:told]) == []
        assert against_ledger(statement, events) == []
    counted = {statement.round: statement.rearms for statement, _ in statements}
    for number in rounds - {0, 1}:
        assert counted[number + 1] > counted[number], "an event's round is the one before whose query it happened"


@settings(max_examples=10, deadline=None)
@given(
    count=st.integers(1, 900),
    seed=st.integers(0, 3),
    batch_rows=st.integers(1, 120),
    snapshot_rounds=st.integers(15, 250),
)
def test_every_snapshot_of_a_daemon_agrees_with_the_ledger(count, seed, batch_rows, snapshot_rounds):
    """Whatever is sent, and however it is cut into batches and snapshots: with the prefix and with the whole ledger."""
    log = MemoryLog(deliveries_of(mixed_bodies(count, seed)))
    store = KeepingStore(log)
    store.save(first_snapshot(PLAN))
    daemon = daemon_over(log, store, MemorySink(log), plan=PLAN, batch_rows=batch_rows, snapshot_rounds=snapshot_rounds)
    assert run_daemon(daemon) == store.kept[-1][0].round
    events = [decode(event) for event in log.ledger]
    for snapshot, told in store.kept:
        assert against_ledger(stated(snapshot), events[:told]) == []
        assert against_ledger(stated(snapshot), events) == []
    assert len(store.kept) >= 2


@pytest.mark.parametrize("predictor", EXAMPLES)
def test_every_predictor_agrees_with_its_ledger(predictor):
    """To the plan's end, with a shard that starts and stops wherever a receipt is made, also between two phases."""
    plan = example(predictor, rounds=60)
    shard = new_shard(plan)
    events: list[LedgerEvent] = []
    statements: list[tuple[Statement, int]] = []
    deliveries = deliveries_of(bodies(plan.rounds, plan=plan))
    for start in range(0, len(deliveries), 30):
        facts: dict[str, Any] = {**public_fields(plan, shard.facts())}
        record = replace(initial_record(plan, 0), **facts)
        events += [shard_event("1", record, started=started) for started in (False, True)]
        statements.append((stated(shard.snapshot(), plan), len(events)))
        waiting = deliveries[start : start + 30]
        events += [decode(event) for event in process(shard, waiting).commit.ledger]
    statements.append((stated(shard.snapshot(), plan), len(events)))
    assert statements[-1][0].round == plan.rounds
    assert isinstance(events[-1], PlanEnded)
    for statement, told in statements:
        assert against_ledger(statement, events[:told]) == []
        assert against_ledger(statement, events) == []


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("kind", [PhaseStarted, PhaseEnded])
def test_an_event_that_is_told_twice_otherwise_is_found(every_round, kind, first):
    """Two different beginnings or ends of a phase are a contradiction, whichever comes first; equal ones are one."""
    statements, events = every_round
    statement, _ = statements[-1]
    at = next(number for number, event in enumerate(events) if isinstance(event, kind) and event.phase == 2)
    honest = events[at]
    assert isinstance(honest, PhaseStarted | PhaseEnded)
    assert against_ledger(statement, [*events[: at + 1], honest, *events[at + 1 :], honest]) == []
    other = msgspec.structs.replace(honest, round=honest.round - 1)
    both = [other, honest] if first else [honest, other]
    name = "beginning" if kind is PhaseStarted else "end"
    said = problems(statement, [*events[:at], *both, *events[at + 1 :]])
    assert f"phase 2: the ledger contradicts itself: 2 different events for the phase's {name}" in said


def test_a_re_arm_too_many_or_too_few_is_found(every_round):
    """The receipt, the phase's end and where a shard stood count the re-arms too."""
    statements, events = every_round
    statement, _ = statements[-1]
    gone = next(event for event in events if isinstance(event, SideRearmed) and event.phase == 2)
    fewer = [event for event in events if event != gone]
    said = problems(statement, fewer)
    assert f"the ledger has {statement.rearms - 1} re-arms before round 900, the receipt {statement.rearms}" in said
    assert "phase 2: the ledger contradicts itself" in said
    told_so = msgspec.structs.replace(statement, rearms=statement.rearms - 1)
    assert "phase 2: the ledger contradicts itself" in problems(told_so, fewer)
    assert against_ledger(statement, [*events, lifecycle_event(statement, ShardStopped)]) == []
    wrong = msgspec.structs.replace(lifecycle_event(statement, ShardStopped), rearms=statement.rearms + 1)
    assert "in its shard-stopped" in problems(statement, [*events, wrong])


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (ShardStarted, {"epsilon": 1.0}),
        (ShardStarted, {"delta_limit": 0.5}),
        (ShardStopped, {"delta_spent": 0.0}),
        (ShardStopped, {"phase": 1}),
        (ShardStopped, {"nominal": True}),
    ],
)
def test_a_shard_of_another_plan_is_found(every_round, kind, changes):
    """What shards say of their guarantee when they start and stop has to be the plan's."""
    statements, events = every_round
    statement, _ = statements[-1]
    event = lifecycle_event(statement, kind)
    assert against_ledger(statement, [event, *events, event]) == []
    said = problems(statement, [*events, msgspec.structs.replace(event, **changes)])
    assert "the ledger is of another plan" in said


@pytest.mark.parametrize(
    "foreign",
    [
        msgspec.structs.replace(phase_started(PLAN, 16), delta_spent=0.0),
        msgspec.structs.replace(phase_started(PLAN, 1), phase=17),
        msgspec.structs.replace(phase_started(PLAN, 16), epsilon=1.0),
        msgspec.structs.replace(phase_started(PLAN, 16), covers="training"),
        PhaseEnded(round=PLAN.rounds - 1, phase=16, rearms=0),
        PlanEnded(round=PLAN.rounds + 1),
        SideRearmed(round=PLAN.rounds - 1, phase=15, side=0),
        SideRearmed(round=PLAN.rounds - 1, phase=16, side=-1),
        SideRearmed(round=PLAN.rounds - 1, phase=16, side=4),
        PhaseEnded(round=PLAN.rounds, phase=16, rearms=-1),
        PhaseEnded(round=PLAN.rounds, phase=16, rearms=4 * PLAN.phases[15].rounds + 1),
    ],
)
def test_events_that_the_plan_cannot_have_are_found(every_round, foreign):
    """A ledger of another plan is known by any phase, those too that had not begun when the receipt was made."""
    statements, events = every_round
    statement, _ = statements[0]
    assert statement.round == 1
    assert against_ledger(statement, events) == []
    assert "the ledger is of another plan" in problems(statement, [*events, foreign])


@pytest.mark.parametrize(
    ("predictor", "sides"),
    [
        ("rectangles", 4),
        ("stumps", 1),
        ("classical", 0),
        ("bisection", 0),
        ("statistics", 0),
        ("sparse-vector", 0),
        ("distribution", 0),
    ],
)
def test_a_side_that_the_plan_does_not_have_is_no_re_arm(predictor, sides):
    """The receipt cannot count one, though the numbers agree; the plan's own sides pass."""
    plan = example(predictor, rounds=60)
    snapshot = replace(first_snapshot(plan), round=20, rearms=1)
    told = [phase_started(plan, 1)]
    for side in (-1, *range(sides), sides, 99):
        said = problems(stated(snapshot, plan), [*told, SideRearmed(round=10, phase=1, side=side)])
        assert ("no side-rearmed like that of phase 1, round 10" in said) == (side not in range(sides))
        assert bool(said) == (side not in range(sides))


def test_forks_that_the_receipt_leaves_out_are_found(every_round):
    """Each fork in the ledger counts once, but those from later rounds; the receipt may know of more."""
    statements, events = every_round
    statement, _ = statements[299]
    forks = [
        fork_event(PLAN, snapshot_after(round_), bytes([number]) * 32, number)
        for number, round_ in enumerate((0, 300), 1)
    ]
    later = fork_event(PLAN, snapshot_after(301), bytes(32), 3)
    ledger = [*events, *forks, forks[0], later]
    for known in range(4):
        said = problems(msgspec.structs.replace(statement, forks=known), ledger)
        assert ("(forks): 2, the receipt" in said) == (known < 2)
        assert bool(said) == (known < 2)


def test_a_released_score_is_of_no_run(every_round):
    """It is of a trial: a ledger that has one too neither contradicts nor confirms a receipt."""
    statements, events = every_round
    figures = {"epsilon": 9.0, "epsilon_training": 8.0, "epsilon_test": 9.0, "delta": 0.1, "delta_sum": 0.1}
    score = ScoreReleased(model="m", data="d", trial="ab", wrong=1, round=10**9, noise=1.0, **figures)
    statement, count = statements[-1]
    assert problems(statement, [score, *events[:count], score]) == ""


def snapshot_after(rounds: int) -> Snapshot:
    """Return a snapshot of so many rounds."""
    shard = new_shard(PLAN)
    if rounds:
        process(shard, deliveries_of(bodies(rounds)))
    return shard.snapshot()


def paid_answers(*rounds: int) -> list[LedgerEvent]:
    """Return the paid answers of these rounds, in order."""
    return [AnswerPaid(round=number, paid=at, count=-3, above=True) for at, number in enumerate(rounds, 1)]


MARGINALS = MarginalsReleased(round=0, counts=(tuple(range(-2, 10)), tuple(range(25))))


@pytest.fixture
def table_run(monkeypatch):
    """Return the plan of a table, with a statement after its 20th round and the beginning of its ledger."""
    plan = table_plan(StatisticsPlan, start_slope=0.01)
    monkeypatch.setattr("oracle.receipts.ledgers.decode_plan", lambda _data: plan)
    statement = stated(replace(first_snapshot(PLAN), round=20, rearms=0, paid=4), plan)
    return statement, [phase_started(plan, 1), MARGINALS]


PAID = (3, 6, 7, 19)


def test_paid_answers_and_marginals_of_a_table_agree(table_run):
    """In any order and with what is delivered twice, with later ones, and with a shard that starts and stops."""
    statement, begun = table_run
    paid = paid_answers(*PAID, 20, 23)
    stands = msgspec.structs.replace(lifecycle_event(statement, ShardStopped), covers="training", paid=4)
    assert against_ledger(statement, [*begun, *paid[:4]]) == []
    assert against_ledger(statement, [*begun, *paid, stands, *begun, *paid[:2]]) == []
    assert against_ledger(statement, [*reversed(paid), stands, *begun]) == []


@pytest.mark.parametrize("gone", range(6))
def test_a_paid_answer_that_is_dropped_is_found(table_run, gone):
    """The last one before the receipt's round by the receipt's number; others leave a gap."""
    statement, begun = table_run
    paid = paid_answers(*PAID, 20, 23)
    found = problems(statement, [*begun, *paid[:gone], *paid[gone + 1 :]])
    assert bool(found) == (gone < 5), "whether one behind the receipt is the last cannot be known"
    assert problems(statement, [*begun, *paid[:3]]) == "the ledger has 3 paid answers before round 20, the receipt 4"


def test_a_paid_answer_that_is_added_or_exchanged_is_found(table_run):
    """One more before the receipt's round, the same number twice, two whose rounds were exchanged."""
    statement, begun = table_run
    more = paid_answers(3, 6, 7, 18, 19)
    assert problems(statement, [*begun, *more]) == "the ledger has 5 paid answers before round 20, the receipt 4"
    again = msgspec.structs.replace(more[1], count=99)
    assert "are not numbered 1, 2, 3" in problems(statement, [*begun, *paid_answers(*PAID), again])
    exchanged = paid_answers(3, 7, 6, 19)
    assert "a paid answer is of no later round" in problems(statement, [*begun, *exchanged])


def test_marginals_that_are_missing_are_found(table_run):
    """They are released with the first round; before it there are none."""
    statement, begun = table_run
    paid = paid_answers(*PAID)
    said = "the ledger lacks the marginals that the plan's hypothesis starts from"
    assert problems(statement, [*begun[:1], *paid]) == said
    fresh = stated(replace(first_snapshot(PLAN), round=0, rearms=0), decode_plan(statement.plan.encode()))
    assert against_ledger(fresh, []) == []


@pytest.mark.parametrize("kind", [ShardStarted, ShardStopped, ModelRetired])
@pytest.mark.parametrize(
    ("paid", "said"),
    [(3, "it has 4 paid answers before round 20, and counts 3 in its"), (UNSET, "the ledger is of another plan")],
)
def test_a_shard_that_counts_other_paid_answers_is_found(table_run, kind, paid, said):
    """Also one that forgets them, as after a restart from too old a state."""
    statement, begun = table_run
    event = msgspec.structs.replace(lifecycle_event(statement, kind), covers="training", paid=paid)
    assert said in problems(statement, [*begun, *paid_answers(*PAID), event])


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (
            [MarginalsReleased(round=0, counts=((1, 2), (3,), (4,)))],
            "allows no marginals-released like that of round 0",
        ),
        ([MarginalsReleased(round=1, counts=MARGINALS.counts)], "allows no marginals-released like that of round 1"),
        (paid_answers(*range(41)), "allows no answer-paid like that of round 40"),
        (paid_answers(2**49), "allows no answer-paid like that of round 562949953421312"),
        (paid_answers(1, 2, 3)[1:], "its paid answers are not numbered 1, 2, 3"),
        ([*paid_answers(1, 2), *paid_answers(1, 4)], "its paid answers are not numbered 1, 2, 3"),
        (paid_answers(5, 4), "a paid answer is of no later round than the one before it"),
        (paid_answers(5, 5), "a paid answer is of no later round than the one before it"),
        ([MarginalsReleased(round=0, counts=((0,) * 12, (0,) * 25))], "several different events for the mar"),
    ],
)
def test_events_of_a_table_that_contradict_plan_or_ledger_are_found(table_run, events, said):
    """More paid answers than planned, one counted twice (as by a daemon that forgot it), marginals of other cells."""
    statement, begun = table_run
    assert said in problems(statement, [*begun, *events])


@pytest.mark.parametrize("event", [MARGINALS, *paid_answers(1)])
def test_boxes_pay_for_no_answers(every_round, event):
    """Such a ledger is of another plan."""
    statements, events = every_round
    assert "the ledger is of another plan" in problems(statements[-1][0], [*events, event])


def _distribution_said(profile: str, paid: list[AnswerPaid]) -> str:
    plan = tiny_distribution_plan(1000, profile=profile)
    snapshot = replace(first_snapshot(plan), round=20, paid=len(paid))
    return problems(stated(snapshot, plan), [phase_started(plan, 1), *paid])


@pytest.mark.parametrize(
    ("profile", "rounds", "above", "said"),
    [
        ("tight", (3, 7), UNSET, ""),
        ("tight", (3, 3), UNSET, "of no later round"),
        ("tight", (3, 7), True, "the receipt's allows no answer-paid like that"),
        ("paper", (3, 3), UNSET, ""),
        ("paper", (7, 3), UNSET, "of no later round"),
    ],
)
def test_paid_answers_of_a_distribution(profile, rounds, above, said):
    """They say nothing of above and below; in the paper's profile a question may pay for several chunks."""
    paid = [AnswerPaid(round=number, paid=at, count=7, above=above) for at, number in enumerate(rounds, 1)]
    found = _distribution_said(profile, paid)
    assert (said in found) if said else found == ""
