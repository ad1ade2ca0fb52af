"""Inputs of mechanisms on replayed neighbours: other runs than the audit's, and what a tape hears and refuses."""

import numpy as np
import pytest

from oracle.audit.randomness import Draws, Randomness
from oracle.audit.recording import Divergence, Tape, listening
from oracle.audit.replays import World, record, replay
from oracle.audit.structure import run_check, structure_names
from oracle.audit.uneven_runs import classical_run
from oracle.mechanisms.choice import stripes
from oracle.mechanisms.thresholds.paid import BetweenThresholds, PaidQuestions
from oracle.mechanisms.thresholds.stopper import Stopper
from tests.audit.catchers import CATCHERS

SEED = bytes(range(48, 64))
_MOVES = "one record moves inputs as declared"
_CAUGHT = {one.target for its in CATCHERS.values() for one in its if one.name == _MOVES}
_LONG = {"statistics, three attributes", "statistics, complete"}
_OTHERS = [target for target, name in structure_names() if name == _MOVES and target not in _CAUGHT | _LONG]
_WORDS = np.array([[1 << 40, 3], [1 << 63, 5], [7 << 60, 7]], dtype=np.uint64)


@pytest.mark.parametrize("target", _OTHERS)
def test_one_record_moves_inputs_as_declared(target):
    """Also of predictors that no planted bug is looked for with (of the others `test_mutants` says so)."""
    found = run_check(target, _MOVES, SEED)
    assert found.passed, found.says


def _uses(counts, words=_WORDS):
    """Use three mechanisms, and return what they answer."""
    between = BetweenThresholds("logistic", 0.5, 2, 4, 9)
    told = PaidQuestions("gumbel", 0.5, 8).ask(counts, np.full(len(counts), 3), words, spent=0)
    return between.answers(counts, words), Stopper(0.5, 3).halts(counts, 3, words), told.outcomes


def test_a_tape_gives_the_same_answers_and_tells_how_far_inputs_were_apart():
    """Other counts are answered as those before were, and the difference of each is told by its mechanism."""
    before, after = Tape(), np.array([1, 5, 9])
    with listening(before):
        given = _uses(np.array([1, 3, 9]))
    replayed = Tape(before.calls)
    with listening(replayed):
        again = _uses(after)
    replayed.finish()
    assert all(np.array_equal(one, other) for one, other in zip(given, again, strict=True))
    assert {place.mechanism: apart for place, apart in replayed.moved.items()} == {
        "depth": (0.0, 2.0),
        "stopper": (0.0, 2.0),
        "question": (0.0, 2.0),
    }
    far_away = Stopper(0.5, 3).halts(np.array([-99, -99, -99]), 3, _WORDS)
    assert not np.array_equal(given[1], far_away)  # as it would be, did the counts decide


def _first_only(counts):
    BetweenThresholds("logistic", 0.5, 2, 4, 9).answers(counts, _WORDS)


def _replayed(calls, use):
    """Give out what was written to whoever uses mechanisms again."""
    tape = Tape(calls)
    with listening(tape):
        use(np.array([1, 3, 9]))
    tape.finish()


@pytest.mark.parametrize(
    ("calls", "use"),
    [
        (3, lambda counts: _uses(counts, _WORDS[::-1])),
        (3, lambda counts: BetweenThresholds("logistic", 0.5, 2, 5, 9).answers(counts, _WORDS)),
        (2, _uses),
        (3, _first_only),
    ],
    ids=["other noise", "another parameter", "one more", "fewer"],
)
def test_a_tape_refuses_other_uses(calls, use):
    """Other bits, other parameters, a use more and one less are no replay."""
    tape = Tape()
    with listening(tape):
        _uses(np.array([1, 3, 9]))
    _replayed(tape.calls, _uses)
    with pytest.raises(Divergence):
        _replayed(tape.calls[:calls], use)


def _failing():
    with listening(Tape()):
        raise ZeroDivisionError


def test_real_mechanisms_are_back_when_a_tape_has_listened():
    """Nothing is left behind, also where a run has failed."""

    def real():
        return (
            vars(BetweenThresholds)["answers"],
            vars(Stopper)["halts"],
            vars(PaidQuestions)["ask"],
            vars(stripes)["choose_exactly"],
        )

    before = real()
    with pytest.raises(ZeroDivisionError):
        _failing()
    assert real() == before
    with listening(Tape()):
        assert all(heard is not one for heard, one in zip(real(), before, strict=True))


def test_a_state_that_is_the_same_again_ends_a_replay():
    """Of a box a row labelled 0 is none: its value moves nothing."""
    run = classical_run(Draws(Randomness(SEED, "classical"), 0), "box", "whole", one_side=True)
    declared = run.plan.declared
    rows, labels = np.array(run.rows[:declared]), np.array(run.labels[:declared])
    world = World(run.plan, bytes(32), rows, labels, np.zeros((4, 1)), np.ones(4, dtype=np.bool_))
    recorded = record(world, [2])
    other = rows.copy()
    other[~labels] = 0.25
    assert replay(recorded, world._replace(rows=other)) == ({}, None, 0)
    labels = labels.copy()
    labels[np.flatnonzero(labels)[0]] = False
    assert replay(recorded, world._replace(labels=labels)).moved
