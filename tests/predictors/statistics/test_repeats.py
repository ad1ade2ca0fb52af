"""The last questions' answers are kept: first in, first out, in batches as one by one."""

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.predictors.statistics import repeats
from oracle.predictors.statistics.repeats import Kept, Repeats
from tests.predictors.plans import tiny_statistics_plan
from tests.predictors.suite import train
from tests.predictors.tables import any_questions, random_rows

_FEW = 64


@pytest.fixture(scope="module", autouse=True)
def _few_are_kept():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "CAPACITY", _FEW)
        yield


@given(questions=st.lists(st.integers(0, 90), max_size=400), cut=st.integers(0, 400))
def test_the_oldest_goes_first(questions, cut):
    """As of a dictionary in order; a copy that was exported and restored goes on alike."""
    kept = Repeats()
    expected: OrderedDict[int, Kept] = OrderedDict()
    for number, question in enumerate(questions):
        if number == cut:
            kept = Repeats.restore(kept.export())
        found = kept.find(question, 0)
        assert found == expected.get(question)
        if found is None:
            kept.add(question, float(number), verified=number % 3 > 0)
            expected[question] = Kept(float(number), number % 3 > 0)
            if len(expected) > _FEW:
                expected.popitem(last=False)


@given(questions=st.lists(st.integers(0, 90), min_size=80, max_size=200), ahead=st.integers(0, _FEW))
def test_what_will_have_gone_is_not_found(questions, ahead):
    """`ahead` more answers push the oldest out before the question is asked."""
    kept, order = Repeats(), []
    for question in questions:
        if kept.find(question, 0) is None:
            kept.add(question, 0.0, verified=True)
            order.append(question)
    left = order[len(order) - _FEW + ahead :] if len(order) + ahead > _FEW else order
    found = [question for question in set(questions) if kept.find(question, ahead) is not None]
    assert sorted(found) == sorted(set(left))


def test_batches_make_no_difference():
    """More different questions than are kept, each of them again and again: as one by one, also when some are paid."""
    plan = tiny_statistics_plan(2000, paid=20, epsilon=8.0, margins=(8, 50))
    generator = np.random.default_rng(5)
    rows = any_questions(plan, 100, generator)[generator.integers(0, 100, 500)]
    there = np.ones(len(rows), dtype=np.bool_)
    whole = train(plan, *random_rows(plan, 1), bytes(32)).answer(rows, there)
    single = train(plan, *random_rows(plan, 1), bytes(32))
    parts = [single.answer(rows[row : row + 1], there[:1]) for row in range(len(rows))]
    assert whole.values is not None
    assert whole.paid is not None
    assert whole.paid[-1] > 0
    for name in ("values", "paid", "verified"):
        assert np.array_equal(getattr(whole, name), np.concatenate([getattr(part, name) for part in parts]))
