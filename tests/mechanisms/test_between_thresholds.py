"""BetweenThresholds: its answers are comparisons of depth + draw with the thresholds, and follow the stated law."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from oracle.accounting.between_thresholds import log_answer_law
from oracle.errors import InputError
from oracle.mechanisms.noise.tables import Law, sample
from oracle.mechanisms.thresholds.paid import HIGH, LOW, PAID, BetweenThresholds
from tests.mechanisms.test_noise_edges import LAWS, below


def words_for(count: int, seed: int) -> np.ndarray:
    """Return uniform words of a seed."""
    return np.random.default_rng(seed).integers(0, 2**64, size=(count, 2), dtype=np.uint64)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.sampled_from(LAWS),
    st.floats(0.02, 4.0),
    st.integers(1, 30),
    st.integers(0, 20),
    st.integers(0, 30),
    st.integers(0, 2**32 - 1),
)
def test_answers_are_the_definition_on_the_same_words(  # noqa: PLR0913, PLR0917 -- the parameters of an instance
    law: Law, scale: float, low: int, gap: int, beyond: int, seed: int
) -> None:
    """Low is f + Z < t_l, high is f + Z > t_h, medium is the rest, with Z = draw of the same words."""
    instance = BetweenThresholds(law, scale, low, low + gap, low + gap + beyond)
    depths = np.random.default_rng(seed).integers(0, instance.points + 1, size=300)
    words = words_for(300, seed)
    noisy = depths + sample(law, scale, words)
    wanted = np.where(noisy < low, LOW, np.where(noisy > low + gap, HIGH, PAID))
    assert np.array_equal(instance.answers(depths, words), wanted)


def test_laplace_noise_lies_between_the_integers() -> None:
    """With Z real and Z' its floor, f + Z > t_h if f + Z' >= t_h, and f + Z < t_l if f + Z' < t_l."""
    instance = BetweenThresholds("laplace", 0.7, 4, 9, 15)
    depths, words = np.random.default_rng(2).integers(0, 16, size=5000), words_for(5000, 2)
    noisy = depths + sample("laplace", 0.7, words)
    wanted = np.where(noisy < 4, LOW, np.where(noisy >= 9, HIGH, PAID))
    assert np.array_equal(instance.answers(depths, words), wanted)


def test_laplace_noise_has_no_answer_law() -> None:
    """No accountant covers it, so its law is not given out."""
    with pytest.raises(InputError, match="law = 'laplace': must be logistic or discrete-laplace"):
        log_answer_law("laplace", 1.0, 1, 2, np.array([0]))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("depth", [0, 6, 9, 15])
def test_frequencies_follow_the_stated_law(law: Law, depth: int) -> None:
    """Thirty thousand answers at one depth fit log_answer_law, and not the law of the next depth."""
    instance = BetweenThresholds(law, 0.4, 6, 9, 15)
    answers = instance.answers(np.full(30_000, depth), words_for(30_000, depth))
    observed = np.bincount(answers, minlength=3)

    def p_value(at: int) -> float:
        law_there = np.exp([part[0] for part in log_answer_law(law, 0.4, 6, 9, np.array([at]))])
        return float(stats.chisquare(observed, 30_000 * law_there / law_there.sum()).pvalue)

    assert p_value(depth) > 1e-3
    assert p_value(depth + 1) < 1e-6


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("scale", "gap"), [(1e-3, 4000), (0.05, 0), (0.3, 7), (2.0, 1), (8.0, 3)])
def test_the_logarithms_of_the_law_are_accurate_in_every_tail(law: Law, scale: float, gap: int) -> None:
    """From 40 nats below to 40 nats above the zone each logarithm is right to 1e-10."""
    reach = round(40.0 / scale) + 1
    depths = np.unique(np.linspace(-reach, gap + reach, 41).astype(np.int64))
    parts = log_answer_law(law, scale, 0, gap, depths)
    with mpmath.workprec(300):
        for column, depth in enumerate(depths.tolist()):
            low = below(law, scale, -depth)
            high = 1 - below(law, scale, gap - depth + 1)
            for part, exact in zip(parts, (low, 1 - low - high, high), strict=True):
                assert abs(part[column] - mpmath.log(exact)) <= 1e-10


@pytest.mark.parametrize("thresholds", [(0, 1, 2), (3, 2, 5), (1, 4, 3)])
def test_thresholds_out_of_order_are_refused(thresholds: tuple[int, int, int]) -> None:
    """The message states the order that is wanted."""
    with pytest.raises(InputError, match="must satisfy 0 < low <= high <= points"):
        BetweenThresholds("logistic", 1.0, *thresholds)
