import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from oracle.accounting.ledger import AnswerPaid, PhaseStarted, SideRearmed, decode
from oracle.accounting.stopper import log_overflow
from oracle.errors import CorruptSnapshotError, RefusedError
from oracle.planning.guarantees import query_guarantee
from oracle.planning.questions import QuestionPlan
from oracle.runtime.fork import fork_cost, fork_event, fork_snapshot
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot
from tests.predictors.examples import example
from tests.predictors.plans import planned, tiny_distribution_plan
from tests.predictors.tables import ASKED, TABLES
from tests.support.shards import (
    bodies,
    deliveries_of,
    first_snapshot,
    mixed_bodies,
    new_shard,
    process,
    process_in_batches,
    same_state,
    small_plan,
    state_of,
)
from tests.support.tables import paying_plan, questions

_SALT = bytes(32)
_OTHER = bytes([1]) * 32


def _snapshot_at(rounds: int) -> Snapshot:
    """Return a snapshot of a run on a log of its own."""
    shard = new_shard()
    if rounds:
        process_in_batches(shard, deliveries_of(bodies(rounds, seed=9)))
    return shard.snapshot()


def _run(snapshot, salt, contents, cuts=()):
    shard = Shard(small_plan(), fork_snapshot(snapshot, salt) if salt is not None else snapshot)
    return process_in_batches(shard, deliveries_of(contents), cuts)


@pytest.mark.parametrize("rounds", [0, 250, 600])
def test_fork_answers_with_noise_of_its_own(rounds):
    """The run and two forks answer the same queries at the same rounds differently; each is repeatable."""
    snapshot, contents = _snapshot_at(rounds), bodies(300)
    runs = [_run(snapshot, salt, contents) for salt in (None, _SALT, _OTHER)]
    assert len({b"".join(run.replies) for run in runs}) == 3
    assert len({run.mark.tag for run in runs}) == 3
    assert {run.mark.round for run in runs} == {rounds + 300}
    for salt, run in zip((None, _SALT, _OTHER), runs, strict=True):
        assert _run(snapshot, salt, contents) == run


def test_fork_is_blind_to_batches():
    """However its log is cut, across re-arms and phase ends, the answers and the ledger are the same."""
    snapshot, contents = _snapshot_at(250), mixed_bodies(700)
    whole = _run(snapshot, _SALT, contents)
    events = [decode(line) for line in whole.ledger]
    assert any(isinstance(event, SideRearmed) for event in events)
    assert any(isinstance(event, PhaseStarted) for event in events)
    for cuts in ([1], [149, 150, 151], list(range(0, 700, 7))):
        assert _run(snapshot, _SALT, contents, cuts) == whole


@pytest.mark.parametrize("rounds", [250, 600])
def test_fork_starts_from_the_state_as_it_is(rounds):
    """Points, counts and collected queries are the run's; only the key differs, and the snapshot stays what it was."""
    snapshot = _snapshot_at(rounds)
    before = {name: array.copy() for name, array in snapshot.arrays.items()}
    shard = Shard(small_plan(), fork_snapshot(snapshot, _SALT))
    forked = dict(state_of(shard))
    assert (shard.position, shard.mark.tag) == (0, bytes(16))
    assert forked["key"].tobytes() != before["key"].tobytes()
    assert before["mediums"].any()
    process_in_batches(shard, deliveries_of(bodies(300)))
    assert same_state(snapshot.arrays, before)
    assert same_state({**forked, "key": before["key"]}, before)


def _levels(shard):
    return tuple(armed.level for armed in shard._predictor._bank.armed)


def test_every_armed_side_gets_a_fresh_rho():
    """In a snapshot within a phase each side's Stopper level is drawn again under the forked key, with rho's law."""
    plan, snapshot = small_plan(), _snapshot_at(250)
    stopper = plan.phases[snapshot.phase - 1].stopper
    forks = [_levels(Shard(plan, fork_snapshot(snapshot, number.to_bytes(32, "little")))) for number in range(400)]
    drawn = np.array(forks)
    assert len(set(forks)) > 100
    spread = 1.0 / math.tanh(stopper.epsilon / 2.0) ** 2 - 1.0  # twice a discrete Laplace law's variance
    for side in range(drawn.shape[1]):
        rho = drawn[:, side] - stopper.threshold
        assert abs(rho.mean()) < 4.5 * math.sqrt(spread / 2.0 / len(forks))
        assert 0.6 < rho.var() / (spread / 2.0) < 1.6


def _log_below(epsilon, value):
    if value >= 1:
        return math.log1p(-math.exp(-epsilon * value) / (1.0 + math.exp(-epsilon)))
    return -epsilon * (1 - value) - math.log1p(math.exp(-epsilon))


def _mass(epsilon, value):
    return math.tanh(epsilon / 2.0) * math.exp(-epsilon * abs(value))


@pytest.mark.parametrize(("epsilon", "threshold", "cap"), [(0.3, 20, 60), (1.0, 8, 14), (2.0, 5, 7)])
def test_more_than_k_mediums_of_a_fork_are_no_likelier_than_in_a_fresh_life(epsilon, threshold, cap):
    """Asked after each medium, with c counted before the fork, the Stopper lets K more pass within the plan's bound."""

    def overflow(counted):
        reach = math.ceil(60 / epsilon)
        return sum(
            _mass(epsilon, rho)
            * math.exp(sum(_log_below(epsilon, threshold + rho - counted - more) for more in range(1, cap + 1)))
            for rho in range(-reach, reach + 1)
        )

    bound = math.exp(log_overflow(epsilon, threshold, cap))
    chances = [overflow(counted) for counted in (0, 1, threshold, cap - 1, 2 * cap)]
    assert chances[0] == pytest.approx(bound, rel=1e-6)
    assert chances == sorted(chances, reverse=True)
    assert chances[-1] < chances[0]


@pytest.mark.parametrize("counted", [0, 3, 9])
def test_bit_counted_before_the_fork_pays_the_stopper_once_more(counted):
    """With a fresh rho, c and c + 1 at the fork's beginning are told apart by eps_S at most, wherever it halts."""
    epsilon, threshold = 0.8, 6
    bits = [0, 1, 0, 0, 1, 1, 0, 1]

    def halting(start):
        law = []
        for stop in range(len(bits)):
            counts = [start + sum(bits[:round_]) for round_ in range(stop + 1)]
            law.append(
                sum(
                    _mass(epsilon, rho)
                    * math.exp(sum(_log_below(epsilon, threshold + rho - count) for count in counts[:-1]))
                    * -math.expm1(_log_below(epsilon, threshold + rho - counts[-1]))
                    for rho in range(-60, 61)
                )
            )
        return [*law, 1.0 - sum(law)]

    losses = [
        abs(math.log(with_it / without))
        for with_it, without in zip(halting(counted + 1), halting(counted), strict=True)
    ]
    assert max(losses) <= epsilon + 1e-9
    assert max(losses) > 0.5 * epsilon


@pytest.mark.parametrize("rounds", [0, 250, 400, 600, 1000])
def test_cost_is_what_the_plan_promised_once_more(rounds):
    """Epsilon again, delta of the older of the phases whose records are held, and their sum."""
    phases = tuple(
        msgspec.structs.replace(phase, delta=delta)
        for phase, delta in zip(small_plan().phases, (3e-6, 2e-6, 1e-7), strict=True)
    )
    plan = msgspec.structs.replace(small_plan(), phases=phases)
    cost = fork_cost(plan, _snapshot_at(rounds))
    index = sum(rounds >= bound for bound in np.cumsum([phase.rounds for phase in phases])[:-1])
    assert index == {0: 0, 250: 0, 400: 1, 600: 1, 1000: 2}[rounds]
    held = [(plan.declared, 3e-6), (400, 3e-6), (430, 2e-6)][index]
    own = rounds - sum(phase.rounds for phase in phases[:index])
    assert cost.epsilon == plan.epsilon
    assert cost.delta == held[1]
    expected = held[0] * held[1] + own * phases[index].delta
    assert expected <= cost.delta_sum <= expected * (1 + 1e-12)


def test_cost_of_a_real_plan_is_within_what_the_accountant_proves():
    """For the records of both phases that a snapshot holds; and the whole fork costs at most the plan's delta."""
    plan, base = planned(), _snapshot_at(0)
    before = 0
    for index, phase in enumerate(plan.phases[:6]):
        snapshot = Snapshot(b"", 1, 0, before + phase.rounds - 1, index + 1, 0, bytes(16), base.arrays)
        cost = fork_cost(plan, snapshot)
        for held in {max(index - 1, 0), index}:
            assert query_guarantee(plan, held).delta <= cost.delta
        later = math.fsum(part.rounds * part.delta for part in plan.phases[index + 1 :])
        assert cost.delta_sum + phase.delta + later <= plan.delta
        before += phase.rounds


def test_an_ensemble_holds_queries_of_two_phases_before():
    """A life that outlives its phase may have been fitted to what one that outlived its own had answered."""
    plan, base = example("ensemble"), _snapshot_at(0)
    one, two, three = plan.phases[:3]
    costs = []
    for before, index in ((0, 0), (one.rounds, 1), (one.rounds + two.rounds, 2)):
        snapshot = Snapshot(b"", 1, 0, before + 5, index + 1, 0, bytes(16), base.arrays)
        costs.append(fork_cost(plan, snapshot))
    assert [cost.delta for cost in costs] == [one.delta] * 3
    held = [plan.declared * one.delta, one.rounds * one.delta, one.rounds * one.delta + two.rounds * two.delta]
    deltas = [one.delta, two.delta, three.delta]
    expected = [rows + 5 * delta for rows, delta in zip(held, deltas, strict=True)]
    assert [cost.delta_sum for cost in costs] == pytest.approx(expected, rel=1e-12)


def test_event_states_the_cost():
    """What the ledger says is what was computed, under the fork's public name."""
    plan, snapshot = small_plan(), _snapshot_at(600)
    event = fork_event(plan, snapshot, _OTHER, 3)
    assert (event.epsilon, event.delta, event.delta_sum) == fork_cost(plan, snapshot)
    assert (event.round, event.phase, event.fork, event.number) == (600, 2, "01" * 32, 3)


def test_nominal_epsilon_is_refused():
    """Where epsilon is not proved, twice of it says nothing."""
    plan = msgspec.structs.replace(small_plan(), profile="paper")
    with pytest.raises(RefusedError, match=r"plan\.profile = 'paper': its epsilon is nominal"):
        fork_cost(plan, first_snapshot())


def test_state_without_a_key_is_refused():
    """There is nothing to fork."""
    snapshot = Snapshot(b"", 1, 0, 0, 1, 0, bytes(16), {})
    with pytest.raises(CorruptSnapshotError, match="no phase key"):
        fork_snapshot(snapshot, _SALT)


def _asked(predictor: str, count: int, seed: int = 1) -> list[bytes]:
    if predictor == "distribution":
        return bodies(count, seed, example(predictor))
    return questions(predictor, count, seed)


def _of_questions(predictor: str, answered: int) -> tuple[QuestionPlan, Snapshot]:
    """Return a plan of public questions and a snapshot after so many of them."""
    plan = paying_plan(predictor, 8) if predictor in TABLES else tiny_distribution_plan()
    shard = new_shard(plan)
    if answered:
        process(shard, deliveries_of(_asked(predictor, answered)))
    return plan, shard.snapshot()


def _forked(plan: QuestionPlan, snapshot: Snapshot, salt: bytes) -> tuple[list[AnswerPaid], list[bytes]]:
    """Answer other questions from a fork; return the paid answers and the replies."""
    shard = Shard(plan, fork_snapshot(snapshot, salt))
    commit = process(shard, deliveries_of(_asked(plan.predictor, 300, seed=5))).commit
    events = [decode(event) for event in commit.ledger]
    return [event for event in events if isinstance(event, AnswerPaid)], list(commit.replies.bodies)


@pytest.mark.parametrize("predictor", ASKED)
def test_a_fork_of_a_table_goes_on_with_what_is_left_to_pay(predictor):
    """It counts on from the snapshot's number and never beyond K; its rows pay a whole life once more at most."""
    plan, snapshot = _of_questions(predictor, {"statistics": 4, "sparse-vector": 80, "distribution": 12}[predictor])
    assert 0 < snapshot.paid < plan.paid
    cost = fork_cost(plan, snapshot)
    assert (cost.epsilon, cost.delta) == (plan.epsilon, plan.phases[0].delta)
    assert cost.delta <= cost.delta_sum <= cost.delta * (1 + 1e-12)
    paid, replies = _forked(plan, snapshot, _SALT)
    left = plan.paid - snapshot.paid
    assert [event.paid for event in paid] == list(range(snapshot.paid + 1, snapshot.paid + 1 + len(paid)))
    assert len(paid) == left or (predictor == "distribution" and left > len(paid) > left // 2)
    others, other_replies = _forked(plan, snapshot, _OTHER)
    assert {event.count for event in paid} != {event.count for event in others}, "the noise is each fork's own"
    assert replies != other_replies


@pytest.mark.parametrize("predictor", ASKED)
def test_a_fork_of_a_table_that_has_paid_all_is_free(predictor):
    """It touches no row: whatever its key, it gives the same answers, and they follow from what is public."""
    plan, snapshot = _of_questions(predictor, 400)
    assert snapshot.paid == plan.paid
    assert fork_cost(plan, snapshot) == (0.0, 0.0, 0.0)
    paid, replies = _forked(plan, snapshot, _SALT)
    assert paid == []
    assert replies == _forked(plan, snapshot, _OTHER)[1]
    rows = "cells" if predictor in TABLES else "rows"
    blank = replace(snapshot, arrays={**snapshot.arrays, rows: np.full_like(snapshot.arrays[rows], -1)})
    assert replies == _forked(plan, blank, _SALT)[1]
