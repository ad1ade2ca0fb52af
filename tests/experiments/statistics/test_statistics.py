"""A cut of `python -m tests.experiments.statistics`: the data, the questions, and what is promised of the answers."""

import math

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from oracle.planning.attributes import Attribute
from oracle.planning.statistics.counts import gaussian_deviation
from tests.experiments.statistics.counts import (
    crossover,
    expected_largest,
    expected_mean,
    noise,
    opendp_scale,
)
from tests.experiments.statistics.methods import Outcome, ours
from tests.experiments.statistics.mwem import mwem
from tests.experiments.statistics.ours import planned
from tests.experiments.statistics.questions import counted, draw, shares
from tests.experiments.statistics.report import crossings, markdown
from tests.experiments.statistics.tables import Table, flights

_SMALL = (Attribute(name="a", categories=("x", "y", "z")), Attribute(name="b", bounds=(0.0, 4.0), bins=4))


def _small(rows=5000):
    generator = np.random.default_rng(4)
    first = generator.choice(3, rows, p=[0.7, 0.2, 0.1])
    cells = np.column_stack([first, np.minimum(first + generator.integers(0, 2, rows), 3)])
    return Table(
        "small",
        (*_SMALL, Attribute(name="c", categories=("u", "v"))),
        pa.table({}),
        np.column_stack([cells, first % 2]),
    )


def test_flights_are_all_that_arrived():
    """327,346 of them, in a table of about 1.8 million cells, none of them in a cell of other or missing values."""
    table = flights()
    assert len(table.cells) == 327_346
    assert 1.7e6 < table.layout.size < 1.9e6
    assert all((table.cells[:, axis] < one.declared).all() for axis, one in enumerate(table.attributes))


def test_shares_are_those_of_the_rows():
    """The fast answers are a plain count's, and messages ask for the same cells."""
    table = _small()
    questions = draw(table.attributes, 200, 1)
    found = shares(counted(table), questions)
    for number, body in enumerate(questions.messages(table.attributes)):
        where = msgspec.json.decode(body)["where"]
        kept = np.ones(len(table.cells), dtype=np.bool_)
        for axis, one in enumerate(table.attributes):
            if one.name not in where:
                continue
            if one.kind == "category":
                kept &= np.isin(table.cells[:, axis], [one.labels.index(label) for label in where[one.name]])
            else:
                low, high = where[one.name]
                kept &= (table.cells[:, axis] >= low) & (table.cells[:, axis] < high)
        assert found[number] == pytest.approx(kept.mean(), abs=1e-12)
    assert {int(count) for count in questions.asked.sum(axis=1)} == {1, 2, 3}


def test_gaussian_counts_err_as_expected():
    """OpenDP's noise has the mean and largest error that the formulas say, and its scale is no less than the least."""
    scale = opendp_scale(1.0, 1e-6)
    assert 1.0 <= scale / gaussian_deviation(1.0, 1e-6) < 1.1
    drawn = np.abs(noise(scale, 20_000)) / 1000
    counts = np.array([20_000])
    assert drawn.mean() == pytest.approx(expected_mean(scale, counts, 1000)[0], rel=0.03)
    assert drawn.max() == pytest.approx(expected_largest(scale, counts, 1000)[0], rel=0.2)


@pytest.mark.parametrize(
    ("ours_", "theirs", "expected"), [([1, 1, 1], [0, 2, 2], 2), ([3, 3], [1, 1], None), ([0, 0], [1, 1], 1)]
)
def test_the_crossover_lasts(ours_, theirs, expected):
    """It is where the other one is worse from then on."""
    assert crossover(np.array(ours_), np.array(theirs)) == expected


def test_mwem_learns_what_it_is_told():
    """With much budget it errs far less than uniform shares do; with hardly any it does not."""
    table = _small()
    questions = draw(table.attributes, 300, 2)
    truth = shares(counted(table), questions)
    rich, poor = (np.abs(mwem(table, questions, rho, 15, 1) - truth).mean() for rho in (10.0, 1e-7))
    assert rich < 0.02 < poor


def test_flights_are_answered_within_the_promise():
    """Twelve thousand questions: errors below 2 % and 0.3 % on average, few are paid; counts lose before the end."""
    table = flights()
    plan = planned(table)
    (run,) = ours(plan, table, draw(table.attributes, 12_000, 5), [3])
    assert run.largest <= plan.alpha
    assert run.mean <= 0.003
    assert run.paid is not None
    assert run.paid < plan.paid / 2
    made = markdown(table, plan, [run, Outcome("bad", "all", run.errors + 1.0, None, 1.0)])
    assert "**no**: 0 of 1" in made
    (line,) = crossings(plan, run, {"OpenDP": opendp_scale(1.0, 1e-6)})
    assert "by the mean error from" in line
    assert not math.isnan(run.seconds)
