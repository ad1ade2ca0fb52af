"""Those who know the rows, against distributions of real sizes: nobody finds a larger error."""

import pytest

from tests.experiments.adversaries.distributions import planned, run
from tests.predictors.distribution.values import FEATURES


@pytest.mark.parametrize("kind", FEATURES)
def test_real_sizes_hold(kind):
    """One run of each at epsilon 1, alpha 0.1 and a million questions."""
    plan = planned(0.1, 1.0, FEATURES[kind])
    cells = list(run(plan, (7,)))
    assert [cell for cell in cells if cell.broken] == []
    assert plan.paid // 2 < max(cell.paid for cell in cells) <= plan.paid
