"""What a hypothesis starts from: how noisy marginals become a distribution, and how near to the rows it is."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.predictors.statistics.start import _shares, others, start_of
from tests.predictors.plans import tiny_statistics_plan
from tests.support.tables import ATTRIBUTES, statistics_plan


@given(st.lists(st.integers(-2000, 5000), min_size=1, max_size=40), st.integers(1, 10_000))
def test_noisy_counts_become_a_distribution(counts, rows):
    """It sums to 1, nothing is 0, order is kept, and all that stays above 0 is lowered by one number."""
    shares = _shares(np.array(counts), rows)
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    assert shares.min() > 0.0
    kept = shares > 2e-9
    lowered = np.array(counts)[kept] - shares[kept] * (1.0 + 1e-9 * len(counts)) * rows
    assert np.ptp(lowered) <= 1e-4 * rows
    assert shares[np.argsort(counts, kind="stable")].tolist() == sorted(shares.tolist())


def test_empty_cells_do_not_add_up():
    """Where most cells are empty, cutting noise off at 0 alone would take a third of the rows from the others."""
    generator = np.random.default_rng(3)
    truth = np.zeros(2000)
    truth[:20] = 5000.0
    noisy = np.rint(truth + generator.laplace(0.0, 60.0, 2000)).astype(np.int64)
    cut = np.maximum(noisy, 0) / np.maximum(noisy, 0).sum()
    assert cut[:20].sum() < 0.7
    assert _shares(noisy, 100_000)[:20].sum() > 0.95


def test_others_are_told_beyond_the_noise_only():
    """More than a hundredth of the rows, by four deviations: exact counts of a plan with little noise."""
    plan = msgspec.structs.replace(
        statistics_plan(ATTRIBUTES[:1]), start=((0,),), start_slope=1.0, declared=10_000, examples=10_000
    )
    cells = len(ATTRIBUTES[0].labels)
    for other, share in ((0, None), (100, None), (104, None), (120, 0.012), (6_000, 0.6), (20_000, 1.0)):
        counts = np.full(cells, 1000)
        counts[ATTRIBUTES[0].other] = other
        assert others(plan, counts) == ([] if share is None else [("carrier", share)])
    assert others(statistics_plan(ATTRIBUTES[:1]), np.empty(0, dtype=np.int64)) == []


def test_a_start_says_how_far_it_is():
    """In parts that rise to the whole; nothing where it starts from nothing."""
    plan = tiny_statistics_plan(100, paid=5)
    parts: list[float] = []
    sizes = sum(int(np.prod([plan.layout.shape[place] for place in about])) for about in plan.start)
    start_of(plan, np.full(sizes, 100), parts.append)
    assert parts == sorted(parts)
    assert parts[-1] == 1.0
    assert len(parts) > 5
