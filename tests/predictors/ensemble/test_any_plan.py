"""Plans of any lengths: lives, rests, lags, blocks and phases may end anywhere, and no batch or restart shows."""

import itertools

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.accounting.ledger import PhaseEnded, PhaseStarted, SideRearmed
from oracle.planning.ensemble.model import MISSING, EnsemblePlan
from oracle.planning.features import Feature
from oracle.predictors.base import NO_LABEL, Answers
from oracle.predictors.ensemble.predictor import Ensemble
from oracle.predictors.ensemble.trainer import EnsembleTrainer
from tests.predictors.plans import tiny_ensemble_plan
from tests.predictors.suite import SECRET, assert_same_state

_FEATURES = (Feature(name="u"), Feature(name="kind", categories=("a", "b", "c")), Feature(name="v"))
_LEARNERS = ("sklearn.tree.DecisionTreeClassifier", "sklearn.naive_bayes.GaussianNB")


@st.composite
def plans(draw: st.DrawFn) -> EnsemblePlan:
    """Return a plan in form, whose numbers go together as badly as `verify_ensemble` lets them."""
    rounds = draw(st.lists(st.integers(2, 90), min_size=2, max_size=4))
    plan = tiny_ensemble_plan(
        _FEATURES,
        rounds=rounds,
        classes=draw(st.sampled_from([(0, 1), ("x", "y", "z")])),
        teachers=draw(st.integers(1, 9)),
        examples=60,
        threshold=draw(st.integers(1, 12)),
        keep=draw(st.sampled_from([0.3, 0.9, 1.0])),
        learner=draw(st.sampled_from(_LEARNERS)),
    )
    phases = [
        msgspec.structs.replace(
            phase,
            least_rounds=draw(st.integers(1, phase.rounds)),
            lag=draw(st.integers(1, phase.rounds - 1)),
            kept_rows=draw(st.sampled_from([1, 7, 50, 200])),
        )
        for phase in plan.phases
    ]
    control = msgspec.structs.replace(plan.control, block_rounds=draw(st.integers(1, 60)))
    return msgspec.structs.replace(plan, phases=tuple(phases), control=control)


def trained(plan: EnsemblePlan) -> Ensemble:
    """Return a predictor, of rows of which some have missing or other values."""
    trainer = EnsembleTrainer(plan, SECRET)
    rows = some_rows(plan.declared, 1)
    trainer.add(rows, (np.floor(np.abs(rows[:, 0]).clip(0.0, 0.99) * len(plan.classes))).astype(np.int8))
    return trainer.finish()


def some_rows(count: int, seed: int) -> np.ndarray:
    """Return float64[count, 3]."""
    random = np.random.default_rng(seed)
    rows = random.random((count, 3))
    rows[:, 1] = random.integers(0, 4, count)
    rows[random.random((count, 3)) < 0.05] = MISSING
    return rows


def said(parts: list[Answers]) -> tuple[object, ...]:
    """Return all that answers say."""
    verified = [part.verified for part in parts if part.verified is not None]
    return (
        np.concatenate([part.labels for part in parts]).tolist(),
        np.concatenate(verified).tolist(),
        np.bitwise_xor.reduce([part.tag for part in parts], axis=0).tolist(),
        [event for part in parts for event in part.events],
    )


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(plan=plans(), cuts=st.lists(st.tuples(st.integers(0, 360), st.booleans()), max_size=12))
def test_neither_batches_nor_restarts_show(plan, cuts):
    """Answers, rests, tag, events and state are those of one batch."""
    features, present = some_rows(plan.rounds, 2), np.random.default_rng(3).random(plan.rounds) > 0.1
    whole, parts = trained(plan), trained(plan)
    expected, found = [whole.answer(features, present)], []
    bounds = sorted({(min(cut, plan.rounds), restart) for cut, restart in [*cuts, (0, False), (plan.rounds, True)]})
    for (start, restart), (stop, _) in itertools.pairwise(bounds):
        if restart:
            parts = Ensemble.restore(plan, parts.export())
        found.append(parts.answer(features[start:stop], present[start:stop]))
    assert said(found) == said(expected)
    assert_same_state(parts.export(), whole.export())
    assert parts.facts() == whole.facts()


def test_a_life_outlives_its_phase_whole():
    """Its rows are kept, though the phase that it goes on in keeps fewer: a restart fits the same teachers."""
    plan = tiny_ensemble_plan(_FEATURES, rounds=(100, 100), examples=60, threshold=6, least_rounds=60, keep=1.0)
    few = [msgspec.structs.replace(phase, kept_rows=rows) for phase, rows in zip(plan.phases, (90, 1), strict=True)]
    plan = msgspec.structs.replace(plan, phases=tuple(few))
    whole = trained(plan)
    features, present = some_rows(plan.rounds, 2), np.ones(plan.rounds, dtype=np.bool_)
    events = whole.answer(features[:110], present[:110]).events
    assert [type(event) for event in events if event.round] == [SideRearmed, PhaseEnded, PhaseStarted]
    assert int((whole.export()["life_labels"] != NO_LABEL).sum()) > 14  # more than the slots of phase 2
    rest = features[110:], present[110:]
    again = Ensemble.restore(plan, whole.export())
    assert said([again.answer(*rest)]) == said([whole.answer(*rest)])


def test_a_life_that_is_spent_in_a_lag_is_followed_at_once():
    """By teachers of the slots that were closed, so nothing rests; what came since is for the life behind that."""
    plan = tiny_ensemble_plan(_FEATURES, rounds=(100, 200), examples=60, threshold=7, least_rounds=40, keep=1.0)
    first = msgspec.structs.replace(plan.phases[0], lag=58, kept_rows=100)  # slots close behind round 42
    plan = msgspec.structs.replace(plan, phases=(first, *plan.phases[1:]))
    predictor = trained(plan)
    answers = predictor.answer(some_rows(90, 2), np.ones(90, dtype=np.bool_))
    ends = [event.round for event in answers.events if isinstance(event, SideRearmed)]
    assert len(ends) == 1
    assert 42 < ends[0] < 90
    assert answers.verified is not None
    assert answers.verified.all()
    slots = predictor.export()["counters"][12:14].tolist()
    assert slots == [42, 90 - 42]


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(plan=plans())
def test_teachers_learn_of_no_fewer_rounds_than_the_least(plan):
    """Slots close with a phase only where the life is old enough by then, not by the phase's end."""
    endless = [
        msgspec.structs.replace(
            phase,
            keep=1.0,
            kept_rows=plan.rounds,
            stopper=msgspec.structs.replace(phase.stopper, threshold=9_000, cap=9_999),
        )
        for phase in plan.phases
    ]
    predictor = trained(msgspec.structs.replace(plan, phases=tuple(endless)))
    for number, phase in enumerate(endless):
        before = endless[int(predictor.export()["counters"][15]) - 1].least_rounds
        lives = predictor.lives
        predictor.answer(some_rows(phase.rounds, number), np.ones(phase.rounds, dtype=np.bool_))
        if predictor.lives > lives:
            assert predictor.export()["counters"][12] >= before


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(plan=plans())
def test_what_happens_follows_the_plan(plan):
    """No life is shorter than its least rounds, but for those that a phase ends; nothing is answered in a rest only."""
    answers = trained(plan).answer(some_rows(plan.rounds, 4), np.ones(plan.rounds, dtype=np.bool_))
    assert answers.verified is not None
    starts = np.cumsum([0, *(phase.rounds for phase in plan.phases)])
    begun = 0
    for event in answers.events:
        if isinstance(event, SideRearmed):
            phase = int(np.searchsorted(starts, begun, side="right")) - 1
            assert event.round - begun >= plan.phases[phase].least_rounds
            begun = event.round
    assert ((answers.labels >= 0) == answers.verified).all()
