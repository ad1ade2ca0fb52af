import dataclasses

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from connectors.base import ARROW_STREAM, METADATA_LIMIT, Delivery, Reply
from oracle.accounting.ledger import PhaseEnded, PhaseStarted, PlanEnded, decode
from oracle.errors import CorruptSnapshotError, LogDivergedError, PlanExhaustedError
from oracle.runtime.marks import CommitMark
from oracle.runtime.shard import Shard
from tests.support.shards import (
    arrow_body,
    bodies,
    deliveries_of,
    first_snapshot,
    new_shard,
    process,
    process_in_batches,
    same_state,
    small_plan,
    state_of,
)


def _whole():
    """Return queries for the whole plan, every tenth one a tombstone."""
    contents: list[bytes | None] = [*bodies(small_plan().rounds)]
    contents[::10] = [None] * len(contents[::10])
    return deliveries_of(contents)


def test_ledger_tells_the_whole_plan():
    """Phases start and end at their rounds, with the delta spent before each, and the plan ends."""
    plan = small_plan()
    events = [decode(line) for line in process_in_batches(new_shard(), _whole()).ledger]
    started = [event for event in events if isinstance(event, PhaseStarted)]
    assert [(event.phase, event.rounds) for event in started] == [(phase.phase, phase.rounds) for phase in plan.phases]
    spent, rounds = plan.declared * plan.phases[0].delta, 0
    for event, phase in zip(started, plan.phases, strict=True):
        assert (event.round, event.delta, event.epsilon) == (rounds, phase.delta, plan.epsilon)
        assert event.delta_spent == pytest.approx(spent)
        spent += phase.rounds * phase.delta
        rounds += phase.rounds
    assert [event.round for event in events if isinstance(event, PhaseEnded)] == list(
        np.cumsum([phase.rounds for phase in plan.phases])
    )
    assert events[-1] == PlanEnded(round=plan.rounds)


def test_first_phase_starts_with_the_first_round():
    """Rejections before it do not announce it, and it is announced once."""
    shard = new_shard()
    assert process(shard, deliveries_of([b"?"])).commit.ledger == []
    (line,) = process(shard, [Delivery(2, None)]).commit.ledger
    assert isinstance(decode(line), PhaseStarted)
    assert process(shard, [Delivery(3, None)]).commit.ledger == []


def test_tombstones_take_a_round_each():
    """A round with no query is answered with no label, moves the round, and is part of the tag."""
    shard = new_shard()
    outcome = process(shard, deliveries_of([None, None]))
    answers = [msgspec.json.decode(reply.body) for reply in outcome.commit.replies.rows()]
    assert [(answer["label"], answer["round"], answer["id"]) for answer in answers] == [
        (None, 0, None),
        (None, 1, None),
    ]
    assert (outcome.rounds, shard.mark.round) == (2, 2)
    zero = new_shard()
    process(zero, deliveries_of([b'{"x":[0,0]}', b'{"x":[0,0]}']))
    assert zero.mark.round == 2
    assert zero.mark.tag != shard.mark.tag


@pytest.mark.parametrize("field", ["round", "phase", "rearms"])
def test_snapshot_of_two_minds_is_refused(field):
    """A header that disagrees with the state inside is corrupt."""
    snapshot = first_snapshot()
    with pytest.raises(CorruptSnapshotError, match="disagree"):
        Shard(small_plan(), dataclasses.replace(snapshot, **{field: getattr(snapshot, field) + 1}))


@pytest.mark.parametrize("batch", [1, 7, 100, 10_000])
def test_plan_answers_all_its_rounds_and_then_stops(batch):
    """Whatever the batches, every round of the plan is answered, and nothing changes with the refusal after it."""
    plan = small_plan()
    deliveries = deliveries_of(bodies(plan.rounds + 40))
    shard = new_shard()
    answered: list[Reply] = []
    while len(answered) < plan.rounds:
        start = len(answered)
        answered += process(shard, deliveries[start : start + batch]).commit.replies.rows()
    assert len(answered) == plan.rounds
    assert msgspec.json.decode(answered[-1].body)["round"] == plan.rounds - 1
    assert (shard.position, shard.facts().round) == (plan.rounds, plan.rounds)
    before = state_of(shard)
    with pytest.raises(PlanExhaustedError, match=f"round {plan.rounds}"):
        process(shard, deliveries[plan.rounds :])
    assert same_state(before, state_of(shard))
    outcome = process(shard, [Delivery(plan.rounds + 1, b"?")])
    assert (len(outcome.commit.replies), outcome.rounds) == (1, 0)


def test_arrow_message_is_answered_whole_or_not_at_all():
    """One with more rows than the plan has rounds left is refused without a trace; a shorter one still fits."""
    plan = small_plan()
    shard = new_shard()
    process_in_batches(shard, deliveries_of(bodies(plan.rounds - 3)))
    before = state_of(shard)

    def message(rows):
        return Delivery(plan.rounds, arrow_body(pa.table({"a": [0.5] * rows, "b": [0.5] * rows})), ARROW_STREAM)

    with pytest.raises(PlanExhaustedError):
        process(shard, [message(4)])
    assert same_state(before, state_of(shard))
    assert process(shard, [message(3)]).rounds == 3


def test_mark_is_what_metadata_holds():
    """A mark is packed into fewer bytes than a broker keeps, and comes back."""
    shard = new_shard()
    commit = process(shard, deliveries_of(bodies(10))).commit
    assert len(commit.metadata) == 28 <= METADATA_LIMIT
    assert CommitMark.unpack(commit.metadata) == shard.mark == CommitMark(10, shard.mark.tag)


@pytest.mark.parametrize("metadata", [b"", b"PER1", bytes(28), b"PER2" + bytes(24), b"PER1" + bytes(25)])
def test_foreign_metadata_is_refused(metadata):
    """Metadata that no shard wrote means that the sink is another's."""
    with pytest.raises(LogDivergedError, match="not written by Perpetua"):
        CommitMark.unpack(metadata)


def test_check_tells_round_from_tag():
    """The message says which of the two differs."""
    shard = new_shard()
    mark = shard.mark
    shard.check(mark)
    with pytest.raises(LogDivergedError, match="3 rounds were committed here, re-execution took 0"):
        shard.check(mark._replace(round=3))
    with pytest.raises(LogDivergedError, match="not the ones that were answered"):
        shard.check(mark._replace(tag=bytes(15) + b"\1"))
