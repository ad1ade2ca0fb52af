"""Two hundred runs of those who know the rows, against small distributions: nobody finds a larger error."""

import pytest

from tests.experiments.adversaries.distributions import planned, run, table
from tests.predictors.distribution.values import FEATURES
from tests.predictors.plans import tiny_distribution_plan


@pytest.mark.slow
def test_two_hundred_runs_hold():
    """Ten runs of each adversary against each kind of data; beta is 0.05, and none breaks, as union bounds have it."""
    plan = tiny_distribution_plan(2**40, questions=10_000)
    cells = list(run(plan, range(10)))
    assert sum(cell.runs for cell in cells) == 200
    assert sum(cell.broken for cell in cells) == 0
    assert all(cell.paid <= plan.paid for cell in cells)
    assert max(cell.error for cell in cells) > 0.8
    assert max(cell.missed for cell in cells) > 0.3
    assert len(table(cells).splitlines()) == len(cells) + 1


@pytest.mark.parametrize("kind", FEATURES)
def test_real_sizes_hold(kind):
    """One run of each at epsilon 1, alpha 0.1 and a million questions."""
    plan = planned(0.1, 1.0, FEATURES[kind])
    cells = list(run(plan, (7,)))
    assert [cell for cell in cells if cell.broken] == []
    assert plan.paid // 2 < max(cell.paid for cell in cells) <= plan.paid
