"""Errors under random streams and under an adversary who sees the rows and asks where the hypothesis is worst.

The adversary knows the true answers, which nobody does, so no analyst finds larger errors. Beta is 0.05 or less for all
questions together; with these keys no promise fails.
"""

import itertools
from functools import cache

import numpy as np
import pytest

from oracle.planning.statistics.model import StatisticsPlan, TablePlan
from oracle.predictors.statistics.hypothesis import Hypothesis
from oracle.predictors.statistics.predictor import Statistics
from oracle.predictors.statistics.sums import Rows
from tests.predictors.plans import tiny_sparse_plan, tiny_statistics_plan
from tests.predictors.suite import train
from tests.predictors.tables import any_questions, random_rows

_ASKED = 120
_SEEDS = range(5)
_PLANS = {
    "complete": lambda: tiny_statistics_plan(4000, paid=None),
    "complete, narrow": lambda: tiny_statistics_plan(4000, paid=None, alpha=0.05, epsilon=2.0),
    "declared": lambda: tiny_statistics_plan(4000, paid=6),
    "declared, narrow": lambda: tiny_statistics_plan(4000, paid=40, alpha=0.05, epsilon=8.0),
}


@cache
def _every_question(plan: TablePlan) -> np.ndarray:
    """Return all products of non-empty sets of cells: float64[n, width]."""
    each = [[np.array(mask) for mask in itertools.product((False, True), repeat=cells)] for cells in plan.layout.shape]
    return np.array([plan.layout.row(masks) for masks in itertools.product(*(some[1:] for some in each))])


class _Table:
    """The rows, which only the adversary sees."""

    def __init__(self, plan: TablePlan, seed: int) -> None:
        rows, there = random_rows(plan, seed)
        self._plan, self._shape = plan, plan.layout.shape
        self._cells = np.ravel_multi_index(tuple(rows.astype(np.int64).T), self._shape)
        self._rows = Rows(self._shape, self._cells)
        self.predictor = train(plan, rows, there, bytes([seed]) * 32)
        self.share = np.bincount(self._cells, minlength=plan.layout.size) / plan.declared

    def shares(self, questions: np.ndarray) -> np.ndarray:
        """Return the true answers."""
        return self._rows.over(self._plan.layout.masks(questions[:, : self._plan.layout.width])) / self._plan.declared

    def divergence(self) -> float:
        """Return KL(rows || hypothesis)."""
        assert isinstance(self.predictor, Statistics)
        hypothesis, some = self.predictor.hypothesis().reshape(-1), self.share > 0.0
        return float((self.share[some] * np.log(self.share[some] / hypothesis[some])).sum())


def _worst(table: _Table, questions: np.ndarray, left: np.ndarray) -> int:
    """Return the question that was not asked yet of which the hypothesis knows least."""
    assert isinstance(table.predictor, Statistics)
    plan = table.predictor._plan
    known = Hypothesis(table.predictor._public.hypothesis.weights).shares(plan.layout.masks(questions))
    return int(np.where(left, np.abs(known - table.shares(questions)), -1.0).argmax())


def _hold(table: _Table, plan: StatisticsPlan) -> bool:
    """Return whether every interval that was released holds."""
    assert isinstance(table.predictor, Statistics)
    released = table.predictor._public.released
    counts = table.shares(released.questions[: len(released)]) * plan.declared
    bounds = released.bounds[: len(released)]
    return bool(((bounds[:, 0] <= counts) & (counts <= bounds[:, 1])).all())


@pytest.mark.slow
@pytest.mark.parametrize("name", _PLANS)
@pytest.mark.parametrize("seed", _SEEDS)
def test_nobody_finds_a_larger_error(name, seed):
    """Verified answers are within alpha; paid ones are at most K, and each lowers the divergence by its gap's worth."""
    plan = _PLANS[name]()
    table, questions = _Table(plan, seed), _every_question(plan)
    left, before, paid = np.ones(len(questions), dtype=np.bool_), table.divergence(), 0
    first = before
    for _ in range(_ASKED):
        chosen = _worst(table, questions, left)
        left[chosen] = False
        answers = table.predictor.answer(questions[chosen : chosen + 1], np.ones(1, dtype=np.bool_))
        assert answers.values is not None
        assert answers.verified is not None
        assert answers.paid is not None
        assert answers.verified[0] or answers.paid[0] == plan.paid
        if answers.verified[0]:
            assert abs(answers.values[0] - table.shares(questions[chosen : chosen + 1])[0]) <= plan.alpha
        now = table.divergence()
        assert now <= before + 1e-9 or not plan.complete  # fitted to noisy marginals again, it may rise
        if answers.paid[0] > paid and plan.complete:
            assert now <= before - 2.0 * plan.gap**2 * (1.0 - 1e-6)
        assert table.predictor.moved <= first - now + 1e-9 or not plan.complete
        before, paid = now, int(answers.paid[0])
        assert _hold(table, plan)
    assert paid <= plan.paid
    if plan.complete:
        assert 0.0 < paid * 2.0 * plan.gap**2 <= first - before + 1e-6, "this is why K of them are enough"


@pytest.mark.parametrize("name", _PLANS)
def test_every_projection_lowers_the_divergence(name, monkeypatch):
    """Where the released intervals hold, no single move of the hypothesis takes it further from the rows."""
    plan, moves = _PLANS[name](), []
    table = _Table(plan, 50)
    real = Hypothesis.move

    def move(self, masks, target):
        before = table.divergence()
        taken = real(self, masks, target)
        moves.append((before, table.divergence(), taken))
        return taken

    monkeypatch.setattr(Hypothesis, "move", move)
    for seed in range(4):
        table = _Table(plan, 50 + seed)
        table.predictor.answer(any_questions(plan, 300, np.random.default_rng(seed)), np.ones(300, dtype=np.bool_))
        assert _hold(table, plan)
    assert moves
    for before, after, taken in moves:
        assert taken >= 0.0
        assert after <= before - taken + 1e-9, "Pythagoras: what a projection moves, it comes nearer"


@pytest.mark.parametrize("name", _PLANS)
@pytest.mark.parametrize("seed", range(4))
def test_random_streams_stay_within_alpha(name, seed):
    """A thousand questions in one batch, each of another kind than the rows were drawn by."""
    plan = _PLANS[name]()
    table = _Table(plan, 100 + seed)
    questions = any_questions(plan, 1000, np.random.default_rng(seed))
    answers = table.predictor.answer(questions, np.ones(1000, dtype=np.bool_))
    assert answers.values is not None
    assert answers.verified is not None
    errors = np.abs(answers.values - table.shares(questions))
    assert (errors[answers.verified] <= plan.alpha).all()
    assert answers.verified.any()
    assert answers.verified.all() or not plan.complete


@pytest.mark.parametrize("seed", range(6))
def test_sparse_vectors_tell_right_what_is_far_from_a_threshold(seed):
    """No "above" where the share is alpha or more below its threshold, no "below" as far above; values within alpha."""
    plan = tiny_sparse_plan(4000, paid=30, epsilon=8.0)
    table = _Table(plan, seed)
    questions = any_questions(plan, 1000, np.random.default_rng(seed))
    shares = table.shares(questions)
    near = np.random.default_rng(seed).uniform(-1.5, 1.5, 1000) * plan.alpha
    questions[:, -1] = np.clip(shares + np.abs(near), 0.0, 1.0)
    questions[::20, -1] = np.clip(shares - near, 0.0, 1.0)[::20]
    answers = table.predictor.answer(questions, np.ones(1000, dtype=np.bool_))
    assert answers.values is not None
    assert answers.verified is not None
    said, asked = answers.labels == 1, answers.verified
    assert np.count_nonzero(said) > 5
    assert (shares[said] > questions[said, -1] - plan.alpha).all()
    free = asked & ~said
    assert (shares[free] < questions[free, -1] + plan.alpha).all()
    assert (np.abs(answers.values[said] - shares[said]) <= plan.alpha).all()
