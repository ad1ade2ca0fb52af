from abc import abstractmethod
from typing import Any

import msgspec
import numpy as np
import pytest

from oracle.accounting.ledger import PhaseStarted, PlanEnded
from oracle.errors import CorruptSnapshotError, DataError
from oracle.planning.bisection.model import BisectionPlan
from oracle.predictors.base import NO_LABEL
from oracle.predictors.bisection.predictor import Bisection
from oracle.predictors.bisection.trainer import BisectionTrainer
from tests.predictors.plans import tiny_bisection_plan
from tests.predictors.suite import (
    SECRET,
    Calls,
    Features,
    PredictorSuite,
    Present,
    Run,
    answer_in_batches,
    assert_same_state,
    train,
)


def rows_of(plan: BisectionPlan, seed: int) -> tuple[Features, Present]:
    """Return labelled rows of a plan, whose mean depends on the seed."""
    generator = np.random.default_rng(seed)
    features = generator.random((plan.declared, len(plan.features))) ** generator.uniform(0.5, 2.0)
    return features, generator.random(plan.declared) < 0.9


class BisectionSuite(PredictorSuite):
    """The suite over a plan of bisection: numbers, two phases, and nothing that is armed."""

    left = 0.5
    """Part of the first hypothesis's error that is left at the end, at most."""

    @abstractmethod
    def plan(self) -> BisectionPlan:
        """Return the plan."""

    def train(self, secret: bytes = SECRET, seed: int = 1) -> Any:
        """Return a predictor of some rows' mean."""
        return train(self.plan(), *rows_of(self.plan(), 1000 + seed), secret)

    def stream(self, rounds: int, seed: int = 1) -> tuple[Features, Present]:
        """Return queries about the axes, in the plane of the first two, some out of range, some absent."""
        generator = np.random.default_rng(seed)
        features = np.zeros((rounds, len(self.plan().features)))
        features[:, :2] = generator.uniform(0.0, 0.004, (rounds, 2))
        features[np.arange(rounds), generator.integers(0, 2, rounds)] = 1.0
        anywhere = generator.random(rounds) < 0.3
        features[anywhere, :2] = generator.uniform(0.0, 1.1, (rounds, 2))[anywhere]
        present = generator.random(rounds) > 0.25
        features[~present] = np.nan
        return features, present

    def outside(self, rows: int) -> Features:
        """Return queries out of range: they are answered, and never asked."""
        return np.linspace(10.0, 20.0, rows * len(self.plan().features)).reshape(rows, -1)

    def check_run(self, run: Run) -> None:
        """Assert that there were numbers, and both phases."""
        assert {NO_LABEL, 0} == set(run.labels)
        assert len(set(run.values)) > len(run.values) / 20
        assert [value == "nan" for value in run.values] == [label == NO_LABEL for label in run.labels]
        assert any(isinstance(event, PhaseStarted) for event in run.events)
        assert isinstance(run.events[-1], PlanEnded)

    def test_work_does_not_depend_on_labels(self):
        """Queries are not protected, but the rows are: the same queries take the same calls, whatever the bits say."""
        features, present = self.stream(12)
        works = []
        for seed in (1, 2):
            predictor = self.train(bytes([seed] * 32), seed)
            with Calls() as calls:
                predictor.answer(features, present)
            works.append(calls.made)
        assert works[0] == works[1]
        assert len(works[0]) > 20
        one, other = (self.train(bytes([seed] * 32), seed).export()["database"] for seed in (1, 2))
        assert one.tobytes() != other.tobytes()

    def test_it_learns(self):
        """Over the whole stream the hypothesis comes closer to the rows' mean, as queries see it."""
        features, present = self.whole()
        rows, labels = rows_of(self.plan(), 1001)
        mean = (rows * labels[:, None]).mean(axis=0)
        asked = features[present]
        predictor = self.train()
        before = np.abs(asked @ (predictor.hypothesis() - mean)).mean()
        predictor.answer(features, present)
        assert np.abs(asked @ (predictor.hypothesis() - mean)).mean() < self.left * before

    def test_the_hypothesis_is_what_answers(self):
        """Online-to-batch conversion: after the learning rounds w_T . q is the answer, and stays so; w* is gone."""
        features, present = self.whole()
        learning = self.plan().phases[0].rounds
        predictor = self.train()
        predictor.answer(features[:learning], present[:learning])
        hypothesis, state = predictor.hypothesis(), predictor.export()
        assert "database" not in state
        assert not predictor._database.any()
        assert {"hypothesis", "key", "counters", "bits", "cost"} == set(state)
        queries = np.random.default_rng(5).uniform(0.2, 0.5, (50, features.shape[1]))
        values = predictor.answer(queries, np.ones(50, dtype=np.bool_)).values
        assert values is not None
        np.testing.assert_allclose(values, queries @ hypothesis, rtol=1e-12)
        assert predictor.hypothesis().tobytes() == hypothesis.tobytes()

    def test_the_ledger_counts_bits(self):
        """Never more bits than queries in range within the learning rounds; none after; each at most 1/(D b)."""
        features, present = self.whole()
        plan, predictor = self.plan(), self.train()
        learning = plan.phases[0].rounds
        usable = present & (np.nan_to_num(features, nan=9.0) <= 1.0).all(axis=1)
        predictor.answer(features[:learning], present[:learning])
        ledger = predictor.ledger
        assert 0 < ledger.bits <= np.count_nonzero(usable[:learning])
        largest = 0.5 * (1.0 / (len(plan.features) * plan.scale)) ** 2
        assert 0.0 < ledger.cost <= ledger.bits * largest * (1 + 1e-12)
        predictor.answer(features[learning:], present[learning:])
        assert predictor.ledger == ledger
        assert self.restore(predictor.export()).ledger == ledger

    def test_queries_out_of_range_teach_nothing(self):
        """However large, they get a finite number, and only the place in the stream moves."""
        predictor, before = self.train(), self.train().export()
        queries = np.full((3, len(self.plan().features)), 1e308)
        queries[1] *= -1.0
        queries[2, 0] = -1e308
        values = predictor.answer(queries, np.ones(3, dtype=np.bool_)).values
        assert values is not None
        assert np.isfinite(values).all()
        after = predictor.export()
        assert {name for name in before if before[name].tobytes() != after[name].tobytes()} == {"counters"}


class TestEfficient(BisectionSuite):
    """Every query is asked."""

    def plan(self) -> BisectionPlan:
        """Return the plan."""
        return tiny_bisection_plan(350, 100)

    def test_answers_stay_where_they_can_be(self):
        """An answer to a query in range is from 0 to the sum of its numbers."""
        features, present = self.whole()
        values = self.train().answer(features, present).values
        assert values is not None
        inside = present & (np.nan_to_num(features, nan=9.0) <= 1.0).all(axis=1)
        assert (values[inside] >= 0.0).all()
        assert (values[inside] <= features[inside].sum(axis=1) + 1e-12).all()


class TestPaper(BisectionSuite):
    """Algorithms 1 and 2 as written; noise is small, so that the hypercube shrinks a few times."""

    left = 0.8

    def plan(self) -> BisectionPlan:
        """Return the plan."""
        return tiny_bisection_plan(1500, 60, profile="paper", scale=0.02)


class TestWarmedUp(BisectionSuite):
    """The basis is found first, for queries in a plane of three features."""

    def plan(self) -> BisectionPlan:
        """Return the plan."""
        return tiny_bisection_plan(350, 100, warmup=60, features=("a", "b", "c"))

    def test_the_basis_is_that_of_the_queries(self):
        """After the window it spans the plane, orthonormally, and no bit was asked before."""
        features, present = self.whole()
        predictor = self.train()
        inside = present & (np.nan_to_num(features, nan=9.0) <= 1.0).all(axis=1)
        end = int(np.flatnonzero(inside)[59]) + 1
        predictor.answer(features[:end], present[:end])
        basis = predictor.export()["basis"].astype(np.float64)
        np.testing.assert_allclose(basis @ basis.T, np.eye(2), atol=1e-14)
        np.testing.assert_allclose(basis[:, 2], 0.0, atol=1e-14)
        assert (basis.sum(axis=1) != 0.0).all()
        assert predictor.ledger.bits == 0
        predictor.answer(features[end : end + 20], present[end : end + 20])
        assert predictor.ledger.bits > 0


def test_rows_are_summed_exactly():
    """Any batches, any order: the same vector, the mean of the rows with label 1 over all declared."""
    plan = tiny_bisection_plan(50, 10)
    features, labels = rows_of(plan, 3)
    whole = train(plan, features, labels)
    parts = BisectionTrainer(plan, SECRET)
    for start in range(0, plan.declared, 37):
        parts.add(features[start : start + 37], labels[start : start + 37])
    assert_same_state(parts.finish().export(), whole.export())
    turned = train(plan, features[::-1], labels[::-1])
    assert_same_state(turned.export(), whole.export())
    expected = (features * labels[:, None]).sum(axis=0) / plan.declared
    np.testing.assert_allclose(whole.export()["database"].astype(np.float64), expected, atol=1e-9)


def test_one_row_moves_the_vector_by_at_most_one_nth():
    """A blanked row, whatever it holds: 1/n a coordinate, and not a bit more than rounding to doubles."""
    plan = tiny_bisection_plan(50, 10)
    features, labels = rows_of(plan, 3)
    features[7], labels[7] = 1.0, True
    full = train(plan, features, labels).export()["database"].astype(np.float64)
    labels[7] = False
    less = train(plan, features, labels).export()["database"].astype(np.float64)
    assert (full - less <= 1.0 / plan.declared + 2.0**-53).all()
    assert (full - less >= 1.0 / plan.declared - 2.0**-53).all()


@pytest.mark.parametrize("value", [-1e-9, 1.5, np.nan, np.inf])
def test_rows_out_of_range_are_refused(value):
    """A value outside [0, 1] is named by its column, and not quoted."""
    plan = tiny_bisection_plan(50, 10)
    features, labels = rows_of(plan, 3)
    features[11, 1] = value
    with pytest.raises(DataError, match=r"^data: column b: every value must be a finite number from 0 to 1$"):
        train(plan, features, labels)


def test_states_without_their_vector_are_refused():
    """A state of another phase's arrays is corrupt."""
    plan = tiny_bisection_plan(50, 10)
    state = dict(train(plan, *rows_of(plan, 3)).export())
    del state["database"]
    with pytest.raises(CorruptSnapshotError, match="no database"):
        Bisection.restore(plan, state)


def test_answers_are_a_function_of_the_bits():
    """Two databases whose bits happen to agree get the same answers: nothing else of a database decides them."""
    plan = msgspec.structs.replace(tiny_bisection_plan(40, 10), scale=1e9)  # every bit is a fair coin of the key's
    features, labels = rows_of(plan, 3)
    one, other = train(plan, features, labels), train(plan, 1.0 - features, labels)
    queries, present = TestEfficient().stream(50, 4)
    left, right = answer_in_batches(one, queries, present), answer_in_batches(other, queries, present)
    assert left == right
    assert one.ledger.bits > 20
