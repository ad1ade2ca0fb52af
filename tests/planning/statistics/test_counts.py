import math

import numpy as np
import pytest
import scipy.stats

from oracle.planning.statistics.counts import counts_error, gaussian_deviation, questions_to_win


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3])
def test_the_deviation_is_the_least(epsilon, delta):
    """By numerical integration of (p - exp(eps) q)_+ of two normal laws delta is met, and missed by 1 % less noise."""

    def found(deviation):
        grid = np.linspace(-40.0 * deviation, 40.0 * deviation, 400_001)
        gap = scipy.stats.norm.logpdf(grid, 1.0, deviation) - scipy.stats.norm.logpdf(grid, 0.0, deviation) - epsilon
        density = scipy.stats.norm.pdf(grid, 1.0, deviation) * -np.expm1(np.minimum(-gap, 0.0))
        return float(np.trapezoid(density, grid))

    deviation = gaussian_deviation(epsilon, delta)
    assert found(deviation) == pytest.approx(delta, rel=1e-3)
    assert found(0.99 * deviation) > 1.01 * delta


def test_the_error_is_the_worst_of_all_counts():
    """Of 200 counts, missed with probability beta: by simulation."""
    wanted = counts_error(200, 1_000, 1.0, 1e-6, 0.2) * 1_000
    noise = np.random.default_rng(1).normal(0.0, math.sqrt(200) * gaussian_deviation(1.0, 1e-6), (20_000, 200))
    assert np.mean(np.abs(noise).max(axis=1) > wanted) == pytest.approx(0.2, abs=0.01)


def test_the_lines_cross_where_it_is_said():
    """One question fewer, and counts err by no more than alpha."""
    win = questions_to_win(0.02, 327_000, 1.0, 1e-6, 0.05)
    assert 90_000 < win < 100_000
    assert counts_error(win - 1, 327_000, 1.0, 1e-6, 0.05) <= 0.02 < counts_error(win, 327_000, 1.0, 1e-6, 0.05)
    assert questions_to_win(1e-5, 100, 1.0, 1e-6, 0.05) == 1
    assert questions_to_win(0.02, 2 * 327_000, 1.0, 1e-6, 0.05) > 3.5 * win
