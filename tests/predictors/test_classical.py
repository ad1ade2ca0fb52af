from typing import Any, Literal

import numpy as np
import pytest

from oracle.accounting.ledger import PhaseEnded, PlanEnded
from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.classical.model import ClassicalModel, ClassicalPlan
from oracle.planning.classical.tight import ENDLESS
from oracle.planning.planner import plan_sufficient
from oracle.predictors.base import NO_LABEL
from oracle.predictors.classical import ClassicalPredictor
from oracle.runtime.fork import fork_cost
from tests.predictors.plans import feature, tiny_classical_plan, tiny_plan
from tests.predictors.suite import (
    OTHER_SECRET,
    SECRET,
    Features,
    PredictorSuite,
    Present,
    Run,
    answer_in_batches,
    assert_same_state,
    train,
)
from tests.support.shards import first_snapshot

_FEATURES = [feature("a"), feature("b")]
PLAN = tiny_classical_plan(_FEATURES)


def in_box(features: Features) -> Present:
    """Return which rows lie in a box that leaves out a tenth of each feature, on either side."""
    return np.asarray(((features > 0.1) & (features < 0.9)).all(axis=1))


class ClassicalSuite(PredictorSuite):
    """The suite over boxes and stumps that are learned once."""

    def labels(self, features: Features) -> Present:
        """Return the labels that are learned from."""
        return in_box(features)

    def train(self, secret: bytes = SECRET, seed: int = 1) -> Any:
        """Return a predictor trained on uniform rows."""
        plan = self.plan()
        features = np.random.default_rng(1000 + seed).random((plan.declared, len(plan.features)))
        return train(plan, features, self.labels(features), secret)

    def stream(self, rounds: int, seed: int = 1) -> tuple[Features, Present]:
        """Return uniform rows, some of them on a coarse grid, with a tenth of the rounds absent."""
        generator = np.random.default_rng(seed)
        features = generator.random((rounds, len(self.plan().features)))
        ties = generator.random(rounds) < 0.3
        features[ties] = np.round(features[ties] * 8) / 8
        present = generator.random(rounds) > 0.1
        features[~present] = np.nan
        return features, present

    def outside(self, rows: int) -> Features:
        """Return queries far outside."""
        return -np.linspace(10.0, 20.0, rows * len(self.plan().features)).reshape(rows, -1)

    def check_run(self, run: Run) -> None:
        """Assert that the one phase and the plan have ended, and nothing else has happened."""
        super().check_run(run)
        rounds = self.plan().rounds
        assert run.events == [PhaseEnded(round=rounds, phase=1, rearms=0), PlanEnded(round=rounds)]

    def test_answers_leave_nothing_behind(self):
        """After any queries the state is that of the beginning but for the round."""
        predictor = self.train()
        before = predictor.export()
        features, present = self.stream(300)
        predictor.answer(features, present)
        after = predictor.export()
        assert {name for name in before if before[name].tobytes() != after[name].tobytes()} == {"counters"}
        assert after["counters"].tolist() == [300]

    def test_errors_are_few_and_of_one_kind_in_boxes(self):
        """What is learned is about what the labels come from."""
        features = np.random.default_rng(7).random((900, len(self.plan().features)))
        labels = self.train().answer(features, np.ones(900, dtype=np.bool_)).labels == 1
        truth = self.labels(features)
        assert (labels != truth).mean() < 0.2
        plan = self.plan()
        assert isinstance(plan, ClassicalPlan)
        if plan.concept == "box":
            assert not (labels & ~truth).any()


class TestFaces(ClassicalSuite):
    """Boxes, each example shown to one side."""

    def plan(self) -> ClassicalPlan:
        """Return the plan."""
        return PLAN


class TestWhole(ClassicalSuite):
    """Boxes, each example shown to all sides, of which some are not in use."""

    def plan(self) -> ClassicalPlan:
        """Return the plan."""
        return tiny_classical_plan([feature("a", "upper"), feature("b", "none"), feature("c")], slicing="whole")

    def labels(self, features: Features) -> Present:
        """Return the labels of a box with just these sides."""
        return np.asarray((features[:, 0] < 0.8) & (features[:, 2] > 0.1) & (features[:, 2] < 0.9))


class TestStump(ClassicalSuite):
    """Stumps; every twentieth label is wrong."""

    upward = True

    def plan(self) -> ClassicalPlan:
        """Return the plan."""
        return tiny_classical_plan([*_FEATURES, feature("c", "none")], concept="stump")

    def labels(self, features: Features) -> Present:
        """Return the labels of a stump on feature b."""
        labels = np.asarray((features[:, 1] >= 0.4) == self.upward)
        labels[::20] ^= True
        return labels

    def outside(self, rows: int) -> Features:
        """Return queries far outside."""
        return super().outside(rows) * (1.0 if self.upward else -1.0)

    def test_the_right_stump_is_found(self):
        """One bound is finite: the one of feature b and of the labels' direction."""
        state = self.train().export()
        found, other = (state["lower"], state["upper"])[:: 1 if self.upward else -1]
        assert np.isinf(other).all()
        assert np.isfinite(found).tolist() == [False, True, False]
        assert found[1] == pytest.approx(0.4, abs=0.05)


class TestStumpDownward(TestStump):
    """Labels of the smallest values."""

    upward = False


def test_a_record_is_shown_to_one_side_under_faces():
    """One in a corner, blanked: one side may learn another edge, and no other; under `whole` several do."""
    features = np.random.default_rng(3).random((400, 2))
    features[:20] = np.random.default_rng(4).choice([0.0, 1.0], (20, 2))
    labels = np.ones(400, dtype=np.bool_)
    most = []
    for plan in (PLAN, tiny_classical_plan(_FEATURES, slicing="whole")):
        before, changes = train(plan, features, labels).export(), []
        for row in range(20):
            blanked = labels.copy()
            blanked[row] = False
            after = train(plan, features, blanked).export()
            changes.append(sum(int((before[name] != after[name]).sum()) for name in ("lower", "upper")))
        most.append(max(changes))
    assert most[0] == 1 < most[1]


def test_the_same_key_learns_the_same_and_another_one_does_not():
    """The hypothesis is drawn from the secret, and the state's key is one from which it cannot be drawn again."""
    features = np.random.default_rng(3).random((400, 2))
    labels = in_box(features)
    one, again, other = (train(PLAN, features, labels, key).export() for key in (SECRET, SECRET, OTHER_SECRET))
    assert_same_state(one, again)
    assert all(one[name].tobytes() != other[name].tobytes() for name in ("lower", "upper", "key"))
    assert one["key"].tobytes() == PhaseKey(SECRET).ratchet().secret


def test_zeros_subnormals_and_the_largest_numbers():
    """Examples on both zeros, among subnormal numbers and at both ends: edges are among them, and -0.0 is 0.0."""
    plan = tiny_classical_plan([feature("a")], slicing="whole", scale=16.0)
    largest = np.finfo(np.float64).max
    for values in ([-0.0], [0.0], [-0.0, 0.0], [5e-324, 1e-323], [-5e-324, 0.0, 5e-324], [-largest, largest]):
        rows = np.resize(np.array(values), (400, 1))
        predictor = train(plan, rows, np.ones(400, dtype=np.bool_))
        low, high = predictor.export()["lower"][0], predictor.export()["upper"][0]
        assert (low, high) == (min(values), max(values))
        assert not np.signbit([low, high])[np.array([low, high]) == 0.0].any()
        with np.errstate(over="ignore"):  # beyond the largest number there is none to ask for
            around = np.array([low, high, np.nextafter(low, -np.inf), np.nextafter(high, np.inf)])
        labels = predictor.answer(around[:, None], np.isfinite(around)).labels
        assert labels[:2].tolist() == [1, 1]
        assert set(labels[2:].tolist()) <= {0, NO_LABEL}


def test_no_positive_examples_is_no_error():
    """Counts are private: it runs, and nothing is labelled 1, not even the largest numbers."""
    features = np.random.default_rng(3).random((400, 2))
    predictor = train(PLAN, features, np.zeros(400, dtype=np.bool_))
    asked = np.array([[0.5, 0.5], [1.7e308, 1.7e308], [-1.7e308, 1.7e308]])
    assert predictor.answer(asked, np.ones(3, dtype=np.bool_)).labels.tolist() == [0, 0, 0]


def test_a_state_without_its_hypothesis_is_corrupt():
    """Bounds that are missing, of another size or no numbers are refused."""
    features = np.random.default_rng(3).random((400, 2))
    state = dict(train(PLAN, features, in_box(features)).export())
    for wrong in (None, np.zeros(3), np.array([0.0, np.nan])):
        changed = {name: array for name, array in state.items() if name != "upper"}
        if wrong is not None:
            changed["upper"] = wrong
        with pytest.raises(CorruptSnapshotError, match="no hypothesis of its plan"):
            ClassicalPredictor.restore(PLAN, changed)


def test_forks_cost_nothing_where_everything_was_released():
    """Another run from the same snapshot is post-processing; of an everlasting predictor it costs epsilon again."""
    assert fork_cost(PLAN, first_snapshot(PLAN)) == (0.0, 0.0, 0.0)
    everlasting = tiny_plan(_FEATURES)
    assert fork_cost(everlasting, first_snapshot(everlasting)).epsilon == everlasting.epsilon


def test_rounds_have_no_end_to_speak_of():
    """A real plan's one phase can still be answered after 2^53 - 1 rounds, once."""
    plan = plan_sufficient(
        ClassicalModel(name="m", predictor="classical", epsilon=8.0, alpha=0.4, examples=1, features=tuple(_FEATURES))
    )
    assert isinstance(plan, ClassicalPlan)
    features = np.random.default_rng(3).random((plan.declared, 2))
    state = dict(train(plan, features, in_box(features)).export())
    state["counters"] = np.array([ENDLESS - 2])
    predictor = ClassicalPredictor.restore(plan, state)
    run = answer_in_batches(predictor, features[:2], np.ones(2, dtype=np.bool_), [1])
    assert run.first_round == ENDLESS - 2
    assert run.events[-1] == PlanEnded(round=ENDLESS)


@pytest.mark.parametrize(
    ("dimension", "slicing"), [(1, "faces"), (2, "faces"), (5, "faces"), (1, "whole"), (2, "whole"), (5, "whole")]
)
def test_error_of_planned_boxes_is_below_the_plans(dimension: int, slicing: Literal["faces", "whole"]) -> None:
    """With just the planned number of examples at alpha = 0.1 and epsilon = 1, over several keys and data sets."""
    model = ClassicalModel(
        name="m",
        predictor="classical",
        epsilon=1.0,
        examples=1,
        features=tuple(feature(f"x{number}") for number in range(dimension)),
        slicing=slicing,
    )
    plan = plan_sufficient(model)
    assert isinstance(plan, ClassicalPlan)
    margin = (1.0 - 0.5 ** (1.0 / dimension)) / 2.0  # the box holds half of all rows
    errors = []
    for seed in range(3):
        generator = np.random.default_rng(seed)
        features = generator.random((plan.declared, dimension))
        labels = ((features > margin) & (features < 1.0 - margin)).all(axis=1)
        predictor = train(plan, features, labels, bytes([seed] * 32))
        asked = generator.random((20_000, dimension))
        truth = ((asked > margin) & (asked < 1.0 - margin)).all(axis=1)
        found = predictor.answer(asked, np.ones(len(asked), dtype=np.bool_)).labels == 1
        assert not (found & ~truth).any()
        errors.append((found != truth).mean())
    assert max(errors) <= plan.expected_error <= 0.1
    assert max(errors) > 0.1 * plan.expected_error  # else the bound says nothing


def test_error_of_a_planned_stump_is_below_the_plans():
    """No stump fits the labels exactly; with the planned number of examples the chosen one is near the best."""
    model = ClassicalModel(
        name="m", predictor="classical", epsilon=1.0, examples=1, features=tuple(_FEATURES), concept="stump"
    )
    plan = plan_sufficient(model)
    assert isinstance(plan, ClassicalPlan)
    for seed in range(3):
        generator = np.random.default_rng(seed)
        features = generator.random((plan.declared, 2))
        labels = (features[:, 1] >= 0.3) ^ (generator.random(plan.declared) < 0.2)
        predictor = train(plan, features, labels, bytes([seed] * 32))
        asked = generator.random((20_000, 2))
        found = predictor.answer(asked, np.ones(len(asked), dtype=np.bool_)).labels == 1
        wrong = found != (asked[:, 1] >= 0.3)
        assert 0.6 * wrong.mean() <= plan.expected_error <= 0.1  # the labels' own error is 0.2 everywhere
