"""Whole runs beside plain re-implementations: other runs than the audit's, and that a number that is off shows."""

from functools import partial

import numpy as np
import pytest
from msgspec.structs import replace

from oracle.audit.games.plans import TARGETS, small_plan
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.references.bisection import PlainBisection
from oracle.audit.references.boxes import PlainBoxes
from oracle.audit.references.classical import PlainClassical
from oracle.audit.references.keyed import Keyed, choose_level
from oracle.audit.references.paper import PaperBoxes
from oracle.audit.references.stumps import PlainStumps
from oracle.audit.runs import checks
from oracle.audit.runs.checks import run_of
from oracle.audit.runs.courses import lives_of, missing_lives
from oracle.audit.runs.ensembles import play, uneven_plan
from oracle.audit.runs.paper import paper_run
from oracle.audit.runs.steering import Steered, not_rearmed, steered
from oracle.audit.runs.uneven import bisection_run, box_run, classical_run, stump_run
from oracle.audit.runs.whole import Run, differs
from oracle.audit.structure.checks import run_check, structure_names
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.choice.exponential import choose
from oracle.mechanisms.keys import PhaseKey
from tests.audit.planted.catchers import CATCHERS
from tests.predictors.plans import planned

SEED = bytes(range(64, 80))
_BESIDE = "answers are those of a plain re-implementation"
_CAUGHT = {one.target for its in CATCHERS.values() for one in its if one.name == _BESIDE}
_OTHERS = [target for target, name in structure_names() if name == _BESIDE and target not in _CAUGHT]


@pytest.mark.parametrize("target", _OTHERS)
def test_runs_are_those_of_the_plain_reimplementation(target):
    """Also of predictors that no planted bug is looked for with (of the others `test_mutants` says so)."""
    found = run_check(target, _BESIDE, SEED)
    assert found.passed, found.says


def test_a_real_plan_runs_as_the_plain_reimplementation():
    """A plan that the accountant has passed: some thousand rounds of its first phase, up to the first re-arms."""
    plan, draws = planned(), Draws(Randomness(SEED, "planned"), 0)
    rows = draws.uniform(plan.declared)
    labels = ((rows > 0.2) & (rows < 0.8)).tolist()
    first = plan.phases[0].start
    edge = np.sort(rows[labels])[first.low : first.high]
    messages = [(value,) for value in edge[(draws.uniform(3000) * len(edge)).astype(int)].tolist()]
    wrong, played = differs(
        Run(plan, PlainBoxes, [(row,) for row in rows.tolist()], labels, messages), bytes(32), draws
    )
    assert wrong is None
    assert len(played.events) > 1  # a side was armed again


_INSTANCE = ("scale", "low", "high", "points")
_BOX_CHANGES = [(phase, part, name) for phase in (0, 1, 2) for part in ("start", "rearmed") for name in _INSTANCE]
_BOX_CHANGES += [(phase, "start", "trim") for phase in (0, 1, 2)]
_BOX_CHANGES += [(phase, "stopper", name) for phase in (0, 1, 2) for name in ("epsilon", "threshold")]
_BOX_CHANGES += [(phase, "", name) for phase in (0, 1) for name in ("rounds", "delta")]


def _off(number):
    """Return a number that is off by a little: by 1, or by a seventh."""
    return number + 1 if isinstance(number, int) else number * 8.0 / 7.0


def _phase_off(phase, part, name, plan):
    old = plan.phases[phase]
    if part:
        mine = getattr(old, part)
        new = replace(old, **{part: replace(mine, **{name: _off(getattr(mine, name))})})
    else:
        new = replace(old, **{name: _off(getattr(old, name))})
    return replace(plan, phases=(*plan.phases[:phase], new, *plan.phases[phase + 1 :]))


@pytest.mark.parametrize("change", _BOX_CHANGES, ids=lambda change: " ".join(map(str, change)))
def test_a_number_of_a_phase_that_is_off_shows(change):
    """One number of one phase that is not the plan's is found, within a few runs."""
    alter = partial(_phase_off, *change)
    assert any(
        _found(PlainBoxes, alter, partial(box_run, slicing="faces", learned=False, sides=4), n) for n in range(12)
    )


def _found(plain, alter, run_of, number):
    """Return whether a run shows that one of two re-implementations has a plan with one number off."""
    randomness = Randomness(SEED, "off")
    run = run_of(Draws(randomness, number))
    rows, labels = run.rows[: run.plan.declared], run.labels[: run.plan.declared]
    shown = []
    for plan in (run.plan, alter(run.plan)):
        one = plain(plan, randomness.secret(number), rows, labels)
        shown.append(
            (one.state(), one.margin, [one.answer(message) for message in run.messages if message != ()], one.events)
        )
    return shown[0] != shown[1]


def _inner(part, name, plan):
    mine = getattr(plan, part)
    return replace(plan, **{part: replace(mine, **{name: _off(getattr(mine, name))})})


def _outer(name, plan):
    return replace(plan, **{name: _off(getattr(plan, name))})


_LEARNED = partial(box_run, slicing="faces", learned=True, sides=4)
_PAPER = partial(paper_run, stumps=False, sides=4)
_PAPER_CHANGES = [("start", name) for name in ("scale", "low", "high", "base", "slice_scale")]
_PAPER_CHANGES += [("stopper", "scale"), ("rearmed", "scale")]


@pytest.mark.parametrize(
    ("plain", "alter", "run_of"),
    [
        (PlainBoxes, partial(_inner, "scale", "rank"), _LEARNED),
        (PlainBoxes, partial(_inner, "scale", "scale"), _LEARNED),
        (PlainBoxes, partial(_inner, "check", "epsilon"), _LEARNED),
        (PlainBoxes, partial(_inner, "check", "needed"), _LEARNED),
        (PlainBoxes, partial(_inner, "check", "stripe"), _LEARNED),
        (PlainBoxes, partial(_outer, "coin"), partial(box_run, slicing="faces", learned=False, sides=4)),
        *((PaperBoxes, partial(_phase_off, 0, part, name), _PAPER) for part, name in _PAPER_CHANGES),
        (PlainStumps, partial(_inner, "selection", "epsilon"), stump_run),
        (PlainStumps, partial(_inner, "selection", "cut_epsilon"), stump_run),
        (
            PlainClassical,
            partial(_outer, "rank"),
            partial(classical_run, concept="box", slicing="whole", one_side=False),
        ),
        (
            PlainClassical,
            partial(_outer, "epsilon"),
            partial(classical_run, concept="box", slicing="whole", one_side=True),
        ),
        (
            PlainClassical,
            partial(_outer, "epsilon"),
            partial(classical_run, concept="stump", slicing="whole", one_side=False),
        ),
        (
            PlainClassical,
            partial(_outer, "coin"),
            partial(classical_run, concept="box", slicing="faces", one_side=False),
        ),
        (PlainBisection, partial(_outer, "scale"), partial(bisection_run, profile="efficient")),
        (PlainBisection, partial(_outer, "scale"), partial(bisection_run, profile="paper")),
    ],
    ids=lambda one: getattr(one, "__name__", None) or " ".join(map(str, one.args)) or None,
)
def test_a_number_of_a_start_that_is_off_shows(plain, alter, run_of):
    """So is a number of what is chosen or released when the state is made, of any predictor, under some key."""
    assert any(_found(plain, alter, run_of, number) for number in range(30))


def test_keyed_words_are_the_addresses():
    """Made one by one from the words of ARCHITECTURE.md, words, hashes and tags are those that come in columns."""
    key = PhaseKey(bytes(range(32))).ratchet()
    plain, addresses = Keyed(bytes(range(32))).ratchet(), Addresses(key, 3)
    assert plain.secret == key.secret
    row, one = np.array([[0.5, -3.0, 0.0]]), np.array([7], dtype=np.uint64)
    (hashed,) = addresses.hashes(row, np.ones(1, dtype=np.bool_))
    assert plain.hash([0.5, -3.0, 0.0]) == hashed
    for purpose in Purpose:
        words = addresses.words(purpose, one, np.array([1023], dtype=np.uint64), np.array([hashed]))
        assert plain.halves(purpose, 7, 1023, int(hashed)) == tuple(words[0, 0].tolist())
    tag = addresses.tag(one, np.array([hashed]), np.ones(1, dtype=np.bool_))
    assert plain.tag(7, int(hashed)).to_bytes(16, "little") == tag.tobytes()


@pytest.mark.parametrize("rate", [0.01, 0.3, 4.0])
def test_a_plain_choice_is_the_choice(rate):
    """The same 512 bits choose the same one of a few candidates."""
    generator = np.random.default_rng(3)
    losses = generator.integers(0, 12, 40)
    counts = {int(loss): int(count) for loss, count in zip(*np.unique(losses, return_counts=True), strict=True)}
    for _ in range(40):
        words = generator.integers(0, 2**64, 8, dtype=np.uint64)
        loss, place = choose_level(rate, counts, int.from_bytes(words.tobytes(), "little"), 512)
        assert np.flatnonzero(losses == loss)[place] == choose(rate, losses, words)


def _nobody_asks(run, *_):
    return Steered(run._replace(messages=[None for message in run.messages if message != ()]), [])


def test_a_phase_in_which_no_side_is_armed_again_is_named(monkeypatch):
    """All is as the re-implementation says, but of sides that are armed again nothing was looked at."""
    monkeypatch.setattr(checks, "steered", _nobody_asks)
    found = run_check("boxes, one side", _BESIDE, SEED)
    assert not found.passed
    assert "phase 1: no side is armed again" in found.says


def test_a_life_that_did_not_come_is_named(monkeypatch):
    """So it is of ensembles: where only such runs are played whose lives end with phases, none goes on in the next."""
    monkeypatch.setattr("oracle.audit.structure.ensembles._RUNS", 1)
    found = run_check("ensemble", _BESIDE, SEED)
    assert not found.passed
    assert "phase 2: no life of the phase before goes on, in any run" in found.says


def _stop_in_phase_3(real):
    """Return what arms no side again behind round 5 of the last phase."""

    def stop(self):
        if self.phase < 3 or self._phase_round < 5:
            real(self)

    return stop


def test_a_side_that_is_never_armed_again_in_the_last_phase_is_named(monkeypatch):
    """A run that does not get there, whatever is asked, is no evidence about that phase."""
    monkeypatch.setattr(PlainBoxes, "_stop", _stop_in_phase_3(PlainBoxes._stop))
    run = box_run(Draws(Randomness(SEED, "steered"), 0), "faces", learned=False, sides=1)
    steered_run = steered(run, bytes(32), Draws(Randomness(SEED, "steered"), 1)).run
    assert not_rearmed(run.plan, _events(steered_run)) == "phase 3: no side is armed again"


def _events(run, secret=bytes(32)):
    declared = run.plan.declared
    plain = run.plain(run.plan, secret, run.rows[:declared], run.labels[:declared])
    for message in run.messages:
        if message != ():
            plain.answer(message)
    return plain.events


_SEVERAL = [target for target in TARGETS if target.name in {"boxes, one side", "boxes, faces", "stumps, paper"}]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
@pytest.mark.parametrize("target", _SEVERAL, ids=lambda one: one.name)
def test_sides_are_armed_again_in_each_phase_by_several_seeds(target, seed):
    """What is asked sees to it, of few sides and of many; points are left for each next phase."""
    randomness = Randomness(bytes([seed] * 16), target.name)
    for number in range(2):
        run = run_of(small_plan(target, 4.0, 0.01), Draws(randomness, number), number)
        secret = randomness.secret(number)
        assert not_rearmed(run.plan, _events(steered(run, secret, Draws(randomness, 9)).run, secret)) is None


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_lives_of_all_kinds_come_by_several_seeds(seed):
    """A life begins with each phase, one is armed within each, and one goes on in the next, in one of two runs."""
    randomness = Randomness(bytes([seed] * 16), "lives")
    plans = [uneven_plan(Draws(randomness, 9 + number), 2 + number, resting=number == 1) for number in range(2)]
    given = [one for number, plan in enumerate(plans) for one in play(plan, randomness, number).given]
    assert missing_lives(plans[0], lives_of(given)) is None
