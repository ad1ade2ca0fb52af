"""Turbo beside us: its accounting, its constants, and its answers about a small table."""

import dataclasses
import math

import numpy as np
import pyarrow as pa
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.rdp import RdpAccountant

from oracle.planning.attributes import Attribute
from tests.experiments.statistics.methods import turbo_of
from tests.experiments.statistics.questions import counted, draw, shares
from tests.experiments.statistics.renyi import Spent
from tests.experiments.statistics.tables import Table
from tests.experiments.statistics.turbo import FORMS, Turbo, serve

_ALPHA, _DELTA = 0.02, 1e-6
_ATTRIBUTES = (
    Attribute(name="a", categories=("x", "y", "z")),
    Attribute(name="b", bounds=(0.0, 4.0), bins=4),
    Attribute(name="c", categories=("u", "v")),
)


def _table(copies):
    generator = np.random.default_rng(4)
    first = generator.choice(3, 500, p=[0.7, 0.2, 0.1])
    cells = np.column_stack([first, np.minimum(first + generator.integers(0, 2, 500), 3), first % 2])
    return Table("small", _ATTRIBUTES, pa.table({}), np.tile(cells, (copies, 1)))


def _served(copies, form="as evaluated on CitiBike", count=400, epsilon=1.0):
    table = _table(copies)
    questions = draw(table.attributes, count, 2)
    truth = shares(counted(table), questions)
    return serve(Turbo(table, questions, FORMS[form], _ALPHA, 3), epsilon, _DELTA), questions, truth


def test_costs_are_those_of_an_accountant():
    """dp-accounting says the same of as many Laplace counts, and of what a sparse vector's epsilon allows at worst."""
    orders = 1.0 + np.geomspace(0.05, 1e6, 1000)
    accountant = RdpAccountant(orders, NeighboringRelation.REPLACE_ONE)
    accountant.compose(dp_event.LaplaceDpEvent(1.0 / 0.003), 70)
    accountant.compose(dp_event.LaplaceDpEvent(1.0 / 0.001), 900)
    worst = 2.0 / (1.0 + math.exp(0.009))  # randomized response with epsilon 0.009
    accountant.compose(dp_event.RandomizedResponseDpEvent(noise_parameter=worst, num_buckets=2), 80)
    spent = Spent(0.003, 0.001, resets=80, failed=70, bypassed=900)
    assert spent.epsilon(_DELTA) == pytest.approx(accountant.get_epsilon(_DELTA), rel=1e-6)
    assert spent.epsilon(_DELTA, spent.noise_for(0.25, _DELTA)) == pytest.approx(0.25)


@pytest.mark.parametrize("form", FORMS)
def test_constants_keep_to_alpha_but_for_beta(form):
    """A histogram that errs by alpha passes, or the count behind it errs by alpha, with a chance of at most 0.001."""
    noise = np.random.default_rng(1).laplace(0.0, _ALPHA / FORMS[form].check, (3, 4_000_000))
    wrong = np.mean(_ALPHA + noise[0] < 0.5 * _ALPHA + noise[1]) + np.mean(np.abs(noise[2]) > _ALPHA)
    assert wrong <= 1.1e-3
    assert wrong >= 0.8e-3 or form == "as released"
    assert math.exp(-FORMS[form].count) <= 1e-3 * (1.0 + 1e-9)


def test_many_rows_serve_all_questions_and_few_are_paid():
    """Where noise is small the histogram learns the table: most answers are free, and repeats are all free."""
    run, questions, truth = _served(4000)
    assert run.within == len(truth)
    assert run.total == run.spent
    errors = np.abs(run.values - truth)
    assert errors.max() <= 1.5 * _ALPHA
    assert run.spent.paid < len(truth) / 2
    assert run.spent.failed <= run.spent.resets <= run.spent.failed + 1
    keys = [b"".join(mask[number].tobytes() for mask in questions.masks) for number in range(len(truth))]
    assert run.spent.paid <= len(set(keys)) < len(keys)


def test_a_spent_budget_leaves_the_histogram():
    """Up to the end of the budget nothing is spent beyond it; behind it the histogram answers as it was then."""
    run, _, _ = _served(20)
    assert 0 < run.within < 400
    assert run.spent.epsilon(_DELTA) <= 1.0 < run.total.epsilon(_DELTA)
    longer, _, _ = _served(20, count=run.within + 1)
    cut, _, _ = _served(20, count=run.within)
    assert cut.within == run.within
    assert longer.within == run.within
    assert (cut.values == run.values[: run.within]).all()
    assert longer.values[-1] == run.values[run.within]


def test_with_more_rows_the_same_answers_cost_less():
    """Noise is a share of the rows: with ten times the rows all goes as before, at a tenth of each epsilon."""
    few, more = (_served(copies, epsilon=1e9)[0] for copies in (40, 400))
    assert few.values == pytest.approx(more.values, abs=1e-9)
    assert dataclasses.replace(few.total, check=0.0, count=0.0) == dataclasses.replace(more.total, check=0.0, count=0.0)
    assert few.total.epsilon(_DELTA, 10.0) == pytest.approx(more.total.epsilon(_DELTA))


def test_without_bypass_all_is_checked():
    """Multiplicative weights pay for nothing but what a sparse vector stopped."""
    run, _, _ = _served(4000, "without bypass", 100)
    assert run.spent.bypassed == 0 < run.spent.failed


def test_the_note_says_what_all_would_want():
    """The rows that it names are enough, and hardly more than that."""
    table = _table(20)
    one = turbo_of(table, draw(table.attributes, 400, 2), _ALPHA, "as evaluated on CitiBike", beyond=True)
    rows = int(one.note.split(" rows")[0].split()[-1].replace(",", ""))
    assert _served(math.ceil(rows / 500))[0].within == 400
    assert "within its budget" in one.note
    assert _served(math.floor(0.98 * rows / 500))[0].within < 400
