"""Statistical tests of the noise: the right scale passes, and scales wrong by a factor 3/2 are rejected."""

import numpy as np
import pytest
from scipy import stats

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.noise.tables import Law, sample

COUNT = 20_000
SCALE = 0.25


def cumulative(law: Law, scale: float, z: np.ndarray) -> np.ndarray:
    """Return P(Z <= z) by double arithmetic."""
    if law == "logistic":
        return np.asarray(1.0 / (1.0 + np.exp(-scale * (z + 0.5))))
    tail = np.exp(-scale * np.abs(z + 0.5) - scale / 2.0) / (1.0 + np.exp(-scale))
    return np.asarray(np.where(z >= 0, 1.0 - tail, tail))


def p_value(law: Law, scale: float, sampled: np.ndarray) -> float:
    """Chi-square over 40 cells of whole integers."""
    ends = np.unique(np.linspace(-20, 20, 40).round())
    probability = np.diff(np.concatenate(([0.0], cumulative(law, scale, ends), [1.0])))
    observed = np.bincount(np.searchsorted(ends, sampled), minlength=len(ends) + 1)
    return float(stats.chisquare(observed, probability * len(sampled)).pvalue)


@pytest.fixture(scope="module", params=["logistic", "discrete-laplace"])
def sampled(request: pytest.FixtureRequest) -> tuple[Law, np.ndarray]:
    """Draw from keyed words, as a run does."""
    words = Addresses(PhaseKey(bytes(range(32))), 1).words(
        Purpose.DEPTH, np.arange(COUNT, dtype=np.uint64), np.zeros(1, dtype=np.uint64), None
    )
    return request.param, sample(request.param, SCALE, words)[0]


def test_the_right_scale_is_accepted(sampled: tuple[Law, np.ndarray]) -> None:
    """Twenty thousand draws fit their own law."""
    law, numbers = sampled
    assert p_value(law, SCALE, numbers) > 1e-3


@pytest.mark.parametrize("factor", [2.0 / 3.0, 3.0 / 2.0])
def test_a_wrong_scale_is_rejected(sampled: tuple[Law, np.ndarray], factor: float) -> None:
    """The same draws do not fit two thirds or three halves of the scale."""
    law, numbers = sampled
    assert p_value(law, factor * SCALE, numbers) < 1e-12


def test_the_other_law_is_rejected(sampled: tuple[Law, np.ndarray]) -> None:
    """The test tells the two laws apart at the same scale."""
    law, numbers = sampled
    assert p_value("logistic" if law == "discrete-laplace" else "discrete-laplace", SCALE, numbers) < 1e-12


def test_successive_draws_are_uncorrelated(sampled: tuple[Law, np.ndarray]) -> None:
    """Neighbouring rounds share nothing that a rank correlation would see."""
    _, numbers = sampled
    assert abs(stats.spearmanr(numbers[:-1], numbers[1:]).statistic) < 4.0 / np.sqrt(COUNT)
