"""What a hypothesis starts from: how noisy marginals become a distribution, and how near to the rows it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.predictors.statistics.start import _shares


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
