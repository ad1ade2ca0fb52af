"""What follows from a sparse vector's answers is told again without the rows, and costs nothing."""

import numpy as np
import pytest

from oracle.accounting.ledger import AnswerPaid
from oracle.planning.statistics.model import SparseVectorPlan
from oracle.predictors.base import Answers
from oracle.predictors.statistics import repeats
from oracle.predictors.statistics.sparse import SparseVector
from tests.predictors.plans import tiny_sparse_plan
from tests.predictors.suite import train
from tests.predictors.tables import any_questions, random_rows

_HIGHEST = 0.9


def _plan(paid: int = 20) -> SparseVectorPlan:
    return tiny_sparse_plan(4000, paid=paid, epsilon=8.0)


def _trained(plan: SparseVectorPlan, secret: int = 0) -> SparseVector:
    predictor = train(plan, *random_rows(plan, 1), bytes([secret]) * 32)
    assert isinstance(predictor, SparseVector)
    return predictor


def _row(plan: SparseVectorPlan, threshold: float, a: int = 4, b: int = 4, c: int = 4) -> np.ndarray:
    """Return a question about the first cells of each attribute."""
    masks = [np.arange(size) < first for size, first in zip(plan.layout.shape, (a, b, c), strict=True)]
    return np.append(plan.layout.row(masks), threshold)


def _ask(predictor: SparseVector, *rows: np.ndarray) -> Answers:
    return predictor.answer(np.array(rows), np.ones(len(rows), dtype=np.bool_))


def _values(answers: Answers) -> list[float]:
    assert answers.values is not None
    return list(answers.values)


def _asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that takes how many questions the rows are asked, call by call."""
    asked: list[int] = []
    real = SparseVector._ask

    def ask(self, questions):
        asked.append(len(questions.rounds))
        return real(self, questions)

    monkeypatch.setattr(SparseVector, "_ask", ask)
    return asked


@pytest.mark.parametrize("restored", [False, True])
def test_what_was_above_costs_nothing_at_any_threshold(restored, monkeypatch):
    """Its share is known from then on: the same value up to it, "below" beyond, and the rows are left alone."""
    plan = _plan()
    predictor = _trained(plan)
    (value,) = _values(_ask(predictor, _row(plan, 0.2, a=2)))
    assert value > 0.5
    if restored:
        predictor = SparseVector.restore(plan, predictor.export())
    asked = _asked(monkeypatch)
    thresholds = [0.2, 0.0, value - 0.01, value + 0.01, 1.0, 0.2]
    again = _ask(predictor, *[_row(plan, threshold, a=2) for threshold in thresholds])
    assert again.labels.tolist() == [1, 1, 1, 0, 0, 1]
    assert _values(again)[:3] == [value] * 3
    assert not again.events
    assert not asked
    assert predictor.paid == 1


@pytest.mark.parametrize("restored", [False, True])
def test_what_was_below_stays_below_higher_thresholds(restored, monkeypatch):
    """They are not asked of the rows; a lower one is, and what it is below counts from then on."""
    plan = _plan()
    predictor = _trained(plan)
    assert _ask(predictor, _row(plan, 0.95, a=1)).labels.tolist() == [0]
    if restored:
        predictor = SparseVector.restore(plan, predictor.export())
    asked = _asked(monkeypatch)
    again = _ask(predictor, *[_row(plan, threshold, a=1) for threshold in (0.95, 0.97, 1.0, 0.94, 0.95, 0.94)])
    assert again.labels.tolist() == [0] * 6
    assert asked == [1]


def test_borderline_questions_are_asked_once(monkeypatch):
    """Who asks again and again does not wear K down: the noise of each question decides once."""
    plan = _plan()
    for secret in range(8):
        predictor = _trained(plan, secret)
        with monkeypatch.context() as patch:
            asked = _asked(patch)
            (share,) = _values(_ask(_trained(plan, 99), _row(plan, 0.0, c=1)))
            row = _row(plan, share, c=1)
            first = _ask(predictor, row)
            for answers in (_ask(predictor, *[row] * 200), *[_ask(predictor, row) for _ in range(20)]):
                assert set(answers.labels.tolist()) == set(first.labels.tolist())
            assert predictor.paid == first.labels[0]
            assert asked == [1, 1]


def test_parts_of_what_is_small_are_below(monkeypatch):
    """Cells within others have no more rows: beyond what these can have at most, nothing is asked."""
    plan = _plan()
    predictor = _trained(plan)
    (value,) = _values(_ask(predictor, _row(plan, 0.05, b=1)))
    beyond = value + plan.alpha
    assert beyond < _HIGHEST
    asked = _asked(monkeypatch)
    found = _ask(predictor, _row(plan, beyond, a=3, b=1), _row(plan, beyond, b=1, c=2), _row(plan, beyond, a=1, b=2))
    assert found.labels[:2].tolist() == [0, 0]
    assert asked == [1], "the last one has cells of its own"


def test_what_is_known_is_told_when_all_is_spent():
    """What was above and what was below, and nothing else."""
    plan = _plan(paid=1)
    predictor = _trained(plan)
    asked = [_row(plan, 0.99, a=1), _row(plan, 0.1), _row(plan, 0.98, a=1), _row(plan, 1.0, a=1), _row(plan, 0.3)]
    answers = _ask(predictor, *asked, _row(plan, 0.1, b=2))
    assert answers.labels.tolist() == [0, 1, 0, 0, 1, 0]
    assert answers.verified is not None
    assert answers.verified.tolist() == [True, True, False, True, True, False]
    assert predictor.paid == 1


@pytest.mark.parametrize("seed", range(3))
def test_batches_and_restarts_make_no_difference(seed, monkeypatch):
    """Few cells at many thresholds, and fewer kept than come: as one by one, whatever is paid for in between."""
    monkeypatch.setattr(repeats, "CAPACITY", 16)
    plan = _plan(paid=8)
    generator = np.random.default_rng(seed)
    rows = any_questions(plan, 40, generator)[generator.integers(0, 40, 600)]
    rows[:, -1] = generator.choice([0.3, 0.6, 0.8, 0.85, 0.9, 0.95, 0.99], 600)
    whole = _trained(plan, seed)
    expected = _ask(whole, *rows)
    single, parts = _trained(plan, seed), []
    for number, row in enumerate(rows):
        if number % 97 == 0:
            single = SparseVector.restore(plan, single.export())
        parts.append(_ask(single, row))
    assert isinstance(expected.events[-1], AnswerPaid)
    for name in ("labels", "values", "paid", "verified"):
        found = np.concatenate([getattr(part, name) for part in parts])
        assert np.array_equal(getattr(expected, name), found, equal_nan=True)
    left, right = whole.export(), single.export()
    assert all(left[name].tobytes() == right[name].tobytes() for name in left)


@pytest.mark.parametrize("seed", range(4))
def test_what_follows_keeps_the_promise(seed):
    """Any cells at thresholds around their share, each many times: right but within alpha, and values within alpha."""
    plan = _plan(paid=40)
    predictor = _trained(plan, seed)
    generator = np.random.default_rng(seed)
    cells = any_questions(plan, 30, generator)
    numbers = np.ravel_multi_index(tuple(random_rows(plan, 1)[0].astype(np.int64).T), plan.layout.shape)
    table = np.bincount(numbers, minlength=plan.layout.size).reshape(plan.layout.shape) / plan.declared
    masks = plan.layout.masks(cells[:, :-1])
    shares = np.array([table[np.ix_(*[mask[row] for mask in masks])].sum() for row in range(len(cells))])
    chosen = generator.integers(0, len(cells), 1500)
    rows, truth = cells[chosen], shares[chosen]
    rows[:, -1] = np.clip(truth + generator.uniform(-1.5, 1.5, len(rows)) * plan.alpha, 0.0, 1.0)
    answers = _ask(predictor, *rows)
    assert answers.verified is not None
    above, below = answers.labels == 1, answers.verified & (answers.labels == 0)
    assert np.count_nonzero(above) > 2 * predictor.paid > 0
    assert (truth[above] > rows[above, -1] - plan.alpha).all()
    assert (truth[below] < rows[below, -1] + plan.alpha).all()
    assert (np.abs(np.array(_values(answers))[above] - truth[above]) <= plan.alpha).all()
