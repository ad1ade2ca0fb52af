import json

import msgspec
import numpy as np
import pytest
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.accounting.ledger import PhaseEnded, PhaseStarted, PlanEnded, SharesReleased, SideRearmed
from oracle.errors import CorruptSnapshotError, StateError
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.ensemble.tight import rows_of_class
from oracle.predictors.base import NO_LABEL, Answers, StateArrays
from oracle.predictors.ensemble import fitting
from oracle.predictors.ensemble.predictor import Ensemble
from oracle.predictors.ensemble.teachers import fit_teachers
from oracle.predictors.ensemble.trainer import EnsembleTrainer
from tests.predictors.ensemble.setting import Setting
from tests.predictors.plans import feature, tiny_ensemble_plan
from tests.predictors.suite import SECRET, Features, PredictorSuite, Present, Run, answer_in_batches, assert_same_state

_FEATURES = (feature("a"), feature("b"))


def labels_of(features: Features, classes: int) -> NDArray[np.int8]:
    """Return the classes of rows: stripes of the sum of both features, the rarest at the end."""
    labels: NDArray[np.int8] = np.minimum((features.sum(axis=1) / 2.0) * classes, classes - 1).astype(np.int8)
    return labels


def train(plan: EnsemblePlan, secret: bytes = SECRET, seed: int = 1) -> Ensemble:
    """Return an ensemble trained on uniform rows."""
    features = np.random.default_rng(1000 + seed).random((plan.declared, len(plan.features)))
    trainer = EnsembleTrainer(plan, secret)
    trainer.add(features, labels_of(features, len(plan.classes)))
    return trainer.finish()


class EnsembleSuite(PredictorSuite):
    """The suite over ensembles."""

    def train(self, secret: bytes = SECRET, seed: int = 1) -> Ensemble:
        """Return an ensemble trained on uniform rows."""
        plan = self.plan()
        assert isinstance(plan, EnsemblePlan)
        return train(plan, secret, seed)

    def stream(self, rounds: int, seed: int = 1) -> tuple[Features, Present]:
        """Return uniform rows, some on a grid, with a tenth of the rounds absent."""
        generator = np.random.default_rng(seed)
        features = generator.random((rounds, 2))
        ties = generator.random(rounds) < 0.3
        features[ties] = np.round(features[ties] * 8) / 8
        present = generator.random(rounds) > 0.1
        features[~present] = np.nan
        return features, present

    def outside(self, rows: int) -> Features:
        """Return queries far outside, which all teachers agree about."""
        return -np.linspace(10.0, 20.0, rows * 2).reshape(rows, -1)

    def sides(self) -> int:
        """One: all teachers together."""
        return 1

    def check_run(self, run: Run) -> None:
        """Assert that lives ended by their Stopper and with phases, and each class was answered."""
        plan = self.plan()
        assert isinstance(plan, EnsemblePlan)
        assert set(run.labels) <= {NO_LABEL, *range(len(plan.classes))}
        assert len(set(run.labels)) >= len(plan.classes)
        assert isinstance(run.events[0], SharesReleased)
        assert isinstance(run.events[-1], PlanEnded)
        assert any(isinstance(event, SideRearmed) for event in run.events)
        assert [event.phase for event in run.events if isinstance(event, PhaseStarted)] == [2, 3]
        assert [event.phase for event in run.events if isinstance(event, PhaseEnded)] == [1, 2, 3]

    def test_absent_rounds_count_and_get_no_label(self):
        """A round with no query is a round: its row is not looked at, and it has no label; nor has one of a rest."""
        features, present = self.whole()
        run = answer_in_batches(self.train(), features, present)
        answers = self.train().answer(features, present)
        assert answers.verified is not None
        assert [label == NO_LABEL for label in run.labels] == (~present | ~answers.verified).tolist()
        features[~present] = np.resize(features[present], (int((~present).sum()), features.shape[1]))
        assert answer_in_batches(self.train(), features, present) == run


class TestTwoClasses(EnsembleSuite):
    """Two classes."""

    def plan(self) -> EnsemblePlan:
        """Return the plan."""
        return tiny_ensemble_plan(_FEATURES, threshold=13)


class TestFiveClasses(EnsembleSuite):
    """Five, of which a query may be paid for twice."""

    def plan(self) -> EnsemblePlan:
        """Return the plan."""
        return tiny_ensemble_plan(_FEATURES, classes=("a", "b", "c", "d", "e"), examples=240, threshold=45)


def resting_plan() -> EnsemblePlan:
    """Return a plan whose lives are spent long before their least rounds."""
    return tiny_ensemble_plan(_FEATURES, threshold=3, least_rounds=70)


def answered(plan: EnsemblePlan, features: Features) -> Answers:
    """Return the answers to rows, in one batch."""
    return train(plan).answer(features, np.ones(len(features), dtype=np.bool_))


def uniform(rounds: int, seed: int = 5) -> Features:
    """Return uniform rows."""
    return np.random.default_rng(seed).random((rounds, 2))


def test_a_spent_life_rests_and_is_followed_by_another():
    """Where a Stopper halts early nothing is answered until the least rounds are over; then there is a new life."""
    plan = resting_plan()
    answers = answered(plan, uniform(plan.rounds))
    assert answers.verified is not None
    resting = ~answers.verified
    assert resting.any()
    assert (answers.labels[resting] == NO_LABEL).all()
    assert (answers.labels[~resting] != NO_LABEL).all()
    ends = np.flatnonzero(np.diff(resting.astype(int)) == -1) + 1
    armed = {event.round for event in answers.events if isinstance(event, SideRearmed | PhaseStarted)}
    assert set(ends.tolist()) <= armed


def test_no_life_is_shorter_than_the_least_rounds():
    """However often answers are paid for, teachers are not fitted more often than that."""
    plan = resting_plan()
    events = answered(plan, uniform(plan.rounds)).events
    armed = [0, *(event.round for event in events if isinstance(event, SideRearmed))]
    assert min(np.diff(armed)) >= 70


@pytest.mark.parametrize("row", [0, 7, 119])
def test_one_training_row_changes_one_teacher(row):
    """With a row blanked all other slots hold what they held, and votes move by at most one."""
    plan = tiny_ensemble_plan(_FEATURES)
    features = np.random.default_rng(1001).random((plan.declared, 2))
    labels = labels_of(features, 2)
    states, votes = [], []
    for blanked in (False, True):
        trainer = EnsembleTrainer(plan, SECRET)
        trainer.add(features, np.where(blanked & (np.arange(len(labels)) == row), np.int8(-1), labels))
        predictor = trainer.finish()
        states.append(predictor.export())
        votes.append(predictor.teachers.votes(uniform(400)).astype(int))
    moved = np.abs(votes[0] - votes[1])
    assert moved.max() <= 1
    for name in ("life_features", "life_labels", "life_owners"):
        assert np.array_equal(np.delete(states[0][name], row, 0), np.delete(states[1][name], row, 0))


def test_one_query_changes_one_slot():
    """A query that is not there, and none of whose neighbours' answers change, leaves its slot empty, and no other."""
    plan = tiny_ensemble_plan(_FEATURES, keep=0.6, threshold=60)
    plan = msgspec.structs.replace(plan, control=msgspec.structs.replace(plan.control, block_rounds=1000))
    features = uniform(100)
    present = np.ones(100, dtype=np.bool_)
    whole = train(plan)
    whole.answer(features, present)
    full = whole.export()
    seen = 0
    for row in range(100):
        without = present.copy()
        without[row] = False
        other = train(plan)
        other.answer(features, without)
        found = other.export()
        differing = (full["next_features"] != found["next_features"]).any(axis=1)
        differing |= full["next_labels"] != found["next_labels"]
        assert differing.sum() <= 1
        assert full["counters"][13] == found["counters"][13]
        seen += int(differing.sum())
    assert seen > 30


def test_paid_queries_are_not_kept():
    """A query is counted by the Stopper, or has a slot: all those that were answered are one or the other."""
    plan = tiny_ensemble_plan(_FEATURES, keep=1.0, threshold=60)
    predictor = train(plan)
    predictor.answer(uniform(100), np.ones(100, dtype=np.bool_))
    state = predictor.export()
    kept = int((state["next_labels"] != -1).sum())
    paid = int(state["counters"][10])
    assert paid > 0
    assert kept + paid == 100


def test_kept_labels_are_those_that_were_given():
    """What the next teachers learn is what was answered, whatever is true."""
    plan = tiny_ensemble_plan(_FEATURES, keep=1.0, threshold=60)
    predictor = train(plan)
    given = predictor.answer(uniform(100), np.ones(100, dtype=np.bool_)).labels
    kept = predictor.export()["next_labels"][:100].astype(np.int8)
    assert np.array_equal(kept[kept >= 0], given[kept >= 0])


def test_init_is_told_a_noisy_count_and_no_other():
    """By how many rows the rarest class exceeds what it needs is the least of the counts that are released later."""
    plan = tiny_ensemble_plan(_FEATURES)
    features = np.random.default_rng(2).random((plan.declared, 2))
    labels = labels_of(features, 2)
    apart = 0
    for number in range(8):
        trainer = EnsembleTrainer(plan, bytes([number]) * 32)
        trainer.add(features, labels)
        counts = trainer.finish().export()["counts"]
        assert trainer.margin == counts.min() - rows_of_class(plan)
        apart += trainer.margin != np.bincount(labels).min() - rows_of_class(plan)
    assert apart > 0


def other_teachers(state: StateArrays) -> StateArrays:
    """Return a state whose teachers were others."""
    return {**state, "teachers": state["teachers"][::-1].copy()}


def made_with(state: StateArrays, **libraries: str) -> StateArrays:
    """Return a state that was made with other libraries."""
    bound = json.loads(state["libraries"].tobytes()) | libraries
    return {**state, "libraries": np.frombuffer(json.dumps(bound).encode(), dtype=np.uint8)}


def test_other_libraries_that_fit_the_same_teachers_do():
    """Whoever installs a later version goes on, where that changes no bit of any teacher."""
    plan = tiny_ensemble_plan(_FEATURES)
    state = train(plan).export()
    again = Ensemble.restore(plan, made_with(state, numpy="1.0", blas="of another machine"))
    features, present = uniform(300), np.ones(300, dtype=np.bool_)
    assert answer_in_batches(again, features, present) == answer_in_batches(train(plan), features, present)
    assert_same_state({**again.export(), "libraries": state["libraries"]}, again.export())


def test_other_teachers_are_refused():
    """Those that come out otherwise answer nothing; the message names what differs, and nothing else."""
    plan = tiny_ensemble_plan(_FEATURES)
    state = other_teachers(train(plan).export())
    with pytest.raises(StateError) as caught:
        Ensemble.restore(plan, made_with(state, numpy="1.0"))
    assert str(caught.value) == (
        "state: its teachers, fitted again here, vote otherwise than before; they were fitted with numpy '1.0' "
        f'(here {np.__version__!r}); go on with these (deploy/OPERATING.md, "Upgrade", says how)'
    )
    with pytest.raises(StateError, match="they were fitted by other code, or draw beyond random_state"):
        Ensemble.restore(plan, state)


def test_the_tag_tells_teachers_apart(monkeypatch):
    """Where a life's teachers come out otherwise, though all they learn from is the same, the tag does too."""
    plan, stop = resting_plan(), 100  # past a re-arm
    features, present = uniform(stop), np.ones(stop, dtype=np.bool_)
    state = train(plan).export()
    expected = Ensemble.restore(plan, state).answer(features, present)
    assert any(isinstance(event, SideRearmed) for event in expected.events)
    again, fit = Ensemble.restore(plan, state), fit_teachers
    other = Setting("sklearn.linear_model.LogisticRegression", features=_FEATURES, classes=plan.classes)
    monkeypatch.setattr(fitting, "fit_teachers", lambda _plan, *rows: fit(other, *rows))
    found = again.answer(features, present)
    assert found.tag.tolist() != expected.tag.tolist()
    monkeypatch.undo()
    assert Ensemble.restore(plan, state).answer(features, present).tag.tolist() == expected.tag.tolist()


@pytest.mark.parametrize("name", ["life_features", "next_labels", "thresholds", "counts"])
def test_a_state_of_other_sizes_is_refused(name):
    """A state that is not of its plan answers nothing."""
    plan = tiny_ensemble_plan(_FEATURES)
    state = dict(train(plan).export())
    state[name] = state[name][:-1]
    with pytest.raises(CorruptSnapshotError):
        Ensemble.restore(plan, state)


def test_thresholds_are_steered_towards_the_shares():
    """Where a class is answered too often its threshold rises, and answers of it become fewer."""
    plan = msgspec.structs.replace(tiny_ensemble_plan(_FEATURES, threshold=200), share_slope=UNSET, shares=(0.8, 0.2))
    features = uniform(plan.rounds)
    answers = answered(plan, features)
    first, last = answers.labels[:50], answers.labels[-150:]
    assert (first == 1).mean() > 0.35
    assert (last == 1).mean() < (first == 1).mean() - 0.1


def test_same_seed_same_teachers_in_threads():
    """Two runs beside each other, each with fits of its own, say the same."""
    plan = tiny_ensemble_plan(_FEATURES)
    features, present = uniform(plan.rounds), np.ones(plan.rounds, dtype=np.bool_)
    runs = [answer_in_batches(train(plan), features, present, range(31, plan.rounds, step)) for step in (31, 97)]
    assert runs[0] == runs[1]


def test_a_fork_has_a_stopper_of_its_own():
    """Under another key the level that paid queries are counted against is drawn anew, once, at any round."""
    plan = tiny_ensemble_plan(_FEATURES)
    features, present = uniform(200), np.ones(200, dtype=np.bool_)
    seen = set()
    for answered_before in (0, 30, 160):  # the last one in a phase that the life was not armed in, or in a rest
        predictor = train(plan)
        predictor.answer(features[:answered_before], present[:answered_before])
        state = predictor.export()
        assert level_of(Ensemble.restore(plan, state).export()) == level_of(state)
        for salt in range(8):
            forked = Ensemble.restore(plan, {**state, "key": np.full(32, salt, dtype=np.uint8)})
            again = Ensemble.restore(plan, forked.export())
            assert level_of(again.export()) == level_of(forked.export())
            seen.add(level_of(forked.export()) - level_of(state))
            rest = features[answered_before:], present[answered_before:]
            assert answer_in_batches(again, *rest) == answer_in_batches(forked, *rest)
    assert len(seen) > 2


def test_a_fork_that_arms_at_its_first_round_draws_another_level():
    """Two lives of a fork may have the same first round; their Stoppers' noise has addresses of its own."""
    plan = tiny_ensemble_plan(_FEATURES, threshold=60)
    predictor = train(plan)
    predictor.answer(uniform(100), np.ones(100, dtype=np.bool_))
    state = predictor.export()
    spent = state["counters"].copy()
    spent[10] = plan.phases[0].stopper.cap
    seen = set()
    for salt in range(12):
        forked = Ensemble.restore(plan, {**state, "counters": spent, "key": np.full(32, salt, dtype=np.uint8)})
        before = level_of(forked.export())
        events = forked.answer(uniform(1), np.ones(1, dtype=np.bool_)).events
        assert [event.round for event in events if isinstance(event, SideRearmed)] == [100]
        seen.add(level_of(forked.export()) - before)
    assert len(seen) > 1


def level_of(state: StateArrays) -> int:
    """Return a state's level."""
    return int(state["counters"][11])
