"""A row that is blanked counts to the declared number and to no cell: what neighbours differ by."""

import numpy as np
import pytest

from oracle.planning.statistics.model import StatisticsPlan
from tests.predictors.plans import tiny_sparse_plan, tiny_statistics_plan
from tests.predictors.suite import train
from tests.predictors.tables import random_rows


@pytest.mark.parametrize("plan", [tiny_statistics_plan(2000, paid=20, epsilon=8.0), tiny_sparse_plan(2000, paid=12)])
def test_a_blanked_row_is_in_no_cell(plan):
    """Its place is held by -1, and no count has it."""
    rows, there = random_rows(plan, 3)
    there[[5, 70, 200]] = False
    cells = train(plan, rows, there).export()["cells"]
    whole = np.ravel_multi_index(tuple(rows[there].astype(np.int64).T), plan.layout.shape)
    assert len(cells) == plan.declared
    assert cells.tolist() == [-1, -1, -1, *np.sort(whole).tolist()]


def test_a_blanked_row_is_in_no_marginal():
    """Of the same noise, one row moves one count of each marginal by 1."""
    plan = tiny_statistics_plan(2000, paid=20, epsilon=8.0)
    assert isinstance(plan, StatisticsPlan)
    rows, there = random_rows(plan, 3)
    with_it = train(plan, rows, there).export()["start"].astype(np.int64)
    there[70] = False
    without = train(plan, rows, there).export()["start"].astype(np.int64)
    assert sorted((with_it - without).tolist()) == [0] * (len(without) - len(plan.start)) + [1] * len(plan.start)
