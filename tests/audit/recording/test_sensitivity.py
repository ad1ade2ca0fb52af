"""Inputs of mechanisms on replayed neighbours: other runs than the audit's, and what a tape hears and refuses."""

import re

import numpy as np
import pytest

from oracle.audit.randomness import Draws, Randomness
from oracle.audit.recording import neighbours, replays
from oracle.audit.recording import sensitivity as sensitivities
from oracle.audit.recording.listening import listening
from oracle.audit.recording.replays import Other, World, record, replay
from oracle.audit.recording.tape import Divergence, Tape
from oracle.audit.runs.steering import Steered
from oracle.audit.runs.uneven import classical_run
from oracle.audit.structure.checks import run_check, structure_names
from oracle.errors import DataError
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.choice import stripes
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.noise.tables import Edges, sample
from oracle.mechanisms.thresholds import paid
from oracle.mechanisms.thresholds.paid import BetweenThresholds
from oracle.mechanisms.thresholds.stopper import Stopper
from oracle.predictors.ensemble import control
from oracle.predictors.kinds import new_trainer
from tests.audit.planted.catchers import CATCHERS

SEED = bytes(range(48, 64))
_MOVES = "one record moves inputs as declared"
_CAUGHT = {one.target for its in CATCHERS.values() for one in its if one.name == _MOVES}
_LONG = {"statistics, three attributes", "statistics, complete"}
_OTHERS = [target for target, name in structure_names() if name == _MOVES and target not in _CAUGHT | _LONG]
_ROUNDS = np.arange(3, dtype=np.uint64)
_NEVER = frozenset[tuple[int, int]]()


@pytest.mark.parametrize("target", _OTHERS)
def test_one_record_moves_inputs_as_declared(target):
    """Also of predictors that no planted bug is looked for with (of the others `test_mutants` says so)."""
    found = run_check(target, _MOVES, SEED)
    assert found.passed, found.says


def _uses(counts, *, high=4, first=0, total=5):
    """Use two mechanisms and add noise, and return what they answer; the last query may be another one."""
    addresses, side = Addresses(PhaseKey(bytes(32)), 1), np.zeros(1, dtype=np.uint64)
    hashes = np.array([first, 7, 7], dtype=np.uint64)
    depth_words, stop_words = (
        addresses.words(purpose, _ROUNDS, side, its)[0]
        for purpose, its in ((Purpose.DEPTH, hashes), (Purpose.STOPPER, None))
    )
    told = BetweenThresholds("logistic", 0.5, 2, high, 9).answers(counts, depth_words)
    halts = Stopper(0.5, 3).halts(counts, 3, stop_words)
    words = addresses.words(Purpose.CHOICE, _ROUNDS[:1], side, None)[0]
    return told.tolist(), halts.tolist(), (np.array([total]) + vars(control)["sample"]("logistic", 0.5, words)).tolist()


def _heard(before, own=None, forced=lambda _: None, **uses):
    """Return what is answered while a tape hears it, and the tape."""
    tape = Tape(before, own, forced)
    with listening() as listener:
        listener.tape = tape
        return _uses(**uses), tape


_COUNTS = np.array([1, 3, 9])


def test_a_tape_gives_the_same_answers_and_tells_how_far_inputs_were_apart():
    """Other counts are answered as those before were, and each difference is told by the address of its noise."""
    given, before = _heard(None, counts=_COUNTS)
    again, replayed = _heard(before, counts=np.array([1, 5, 9]), total=6)
    assert again == given != _uses(np.array([-99, 99, -99]))
    assert given == _uses(_COUNTS)
    changes = [(one.kind, *one.address[:1], one.address.round, one.by) for one in replayed.changes(_NEVER)]
    assert sorted(changes) == [
        ("edge", Purpose.DEPTH, 1, 2.0),
        ("edge", Purpose.STOPPER, 1, 2.0),
        ("sum", Purpose.CHOICE, 0, 1.0),
    ]


@pytest.mark.parametrize("outcome", [0, 1, 2])
def test_a_query_of_its_own_is_answered_as_is_wished(outcome):
    """Bits of the round whose query is another one may be others; it is answered anything, and counts for nothing."""
    _, before = _heard(None, counts=_COUNTS)
    (told, _, _), tape = _heard(before, own=0, forced=lambda _: outcome, counts=_COUNTS, first=8)
    assert told[0] == outcome
    assert tape.changes(_NEVER) == []


@pytest.mark.parametrize("uses", [{"first": 8}, {"high": 5}], ids=["other noise", "another parameter"])
def test_a_tape_refuses_other_uses(uses):
    """Other bits, or thresholds that moved on their own, are no replay."""
    _, before = _heard(None, counts=_COUNTS)
    with pytest.raises(Divergence):
        _heard(before, counts=_COUNTS, **uses)[1].changes(_NEVER)


def test_a_tape_refuses_more_uses_and_fewer():
    """What is asked once more, or not, tells of the data."""
    _, before = _heard(None, counts=_COUNTS)
    tape = Tape(before)
    with pytest.raises(Divergence):
        tape.changes(_NEVER)
    with listening() as listener:
        listener.tape = tape
        _uses(_COUNTS)
        with pytest.raises(Divergence):
            _uses(_COUNTS)


def test_real_mechanisms_are_back_when_nobody_listens():
    """Nothing is left behind, also where a run has failed."""

    def real():
        return Edges.exceed, Addresses.words, vars(paid)["sample"], vars(stripes)["choose_exactly"]

    def failing():
        with listening():
            assert all(heard is not one for heard, one in zip(real(), before, strict=True))
            raise ZeroDivisionError

    before = real()
    assert before[2] is sample
    with pytest.raises(ZeroDivisionError):
        failing()
    assert real() == before


def test_a_state_that_is_the_same_again_ends_a_replay():
    """Of a box a row labelled 0 is none: its value moves nothing."""
    run = classical_run(Draws(Randomness(SEED, "classical"), 0), "box", "whole", one_side=True)
    declared = run.plan.declared
    rows, labels = np.array(run.rows[:declared]), np.array(run.labels[:declared])
    world = World(run.plan, bytes(32), rows, labels, np.zeros((4, 1)), np.ones(4, dtype=np.bool_))
    other, fewer = rows.copy(), labels.copy()
    other[~labels] = 0.25
    fewer[np.flatnonzero(labels)[0]] = False
    with listening() as listener:
        recorded = record(world, listener)
        assert replay(recorded, listener, Other(world._replace(rows=other))) == ([], None, 0, False)
        assert replay(recorded, listener, Other(world._replace(labels=fewer))).moved


@pytest.mark.parametrize("check", [_MOVES, "all else follows from what mechanisms say"])
def test_rows_that_are_refused_are_not_passed_over(check, monkeypatch):
    """A trainer that takes some rows, and not their neighbours, tells which they are."""

    def choosy(plan, secret):
        trainer = new_trainer(plan, secret)
        taken = trainer.add

        def add(rows, labels):
            if not labels.any() or np.abs(rows).max() > 1e8:
                raise DataError("these rows are none")
            taken(rows, labels)

        monkeypatch.setattr(trainer, "add", add)
        return trainer

    monkeypatch.setattr(replays, "new_trainer", choosy)
    found = run_check("boxes, one side", check, SEED)
    assert not found.passed
    assert "rows are refused" in found.says


def test_rows_that_none_may_be_are_counted_for_themselves():
    """Of OnlineBisection numbers out of range are refused, whatever else there is; they have moved nothing."""
    found = run_check("bisection, efficient", _MOVES, SEED)
    assert found.passed
    assert re.search(r"and \d+ out of range were refused", found.says)


def test_every_row_and_query_of_one_run_has_its_turn():
    """The report says how many of how many were looked at, in that run and in others."""
    found = run_check("stumps", _MOVES, SEED)
    assert found.passed
    counts = re.search(r"of one run (\d+) of (\d+) rows and (\d+) of (\d+) rounds' queries, of 5 others", found.says)
    assert counts is not None
    rows, all_rows, queries, all_queries = map(int, counts.groups())
    assert rows == all_rows > 80
    assert queries == all_queries > 270


def test_a_phase_in_which_no_side_is_armed_again_is_named(monkeypatch):
    """Where nobody asks, nothing moves behind a re-arm, and that says nothing."""
    silent = lambda run, *_: Steered(run._replace(messages=[None] * len(run.messages)), [])  # noqa: E731 -- for its name
    monkeypatch.setattr(neighbours, "steered", silent)
    found = run_check("boxes, one side", _MOVES, SEED)
    assert not found.passed
    assert "phase 1: no side is armed again" in found.says


def test_a_life_that_did_not_come_is_named(monkeypatch):
    """So it is of ensembles, of which some runs have lives of one kind, some of others."""
    monkeypatch.setattr(neighbours, "_CLASSES", (5,))
    monkeypatch.setattr(sensitivities, "neighbours_of", lambda *_, **__: ())
    found = run_check("ensemble", _MOVES, SEED)
    assert not found.passed
    assert "phase 2: no life of the phase before goes on, in any run" in found.says
