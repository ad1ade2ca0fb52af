"""Whole runs beside plain re-implementations: other runs than the audit's, and that a number that is off shows."""

from functools import partial

import numpy as np
import pytest
from msgspec.structs import replace

from oracle.audit.randomness import Draws, Randomness
from oracle.audit.references.bisection import PlainBisection
from oracle.audit.references.boxes import PlainBoxes
from oracle.audit.references.classical import PlainClassical
from oracle.audit.references.keyed import Keyed, choose_level
from oracle.audit.references.paper import PaperBoxes
from oracle.audit.references.stumps import PlainStumps
from oracle.audit.runs.paper import paper_run
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
