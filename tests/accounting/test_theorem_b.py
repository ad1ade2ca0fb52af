"""PRIVACY.md, Theorem 4 (discrete Laplace noise) against a privacy-loss-distribution library and every adversary."""

import math

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import stats

from oracle.accounting.between_thresholds import laplace_log_delta, randomized_response_log_delta
from tests.accounting.worst_case import worst_delta

CASES = [(0.3, 9, 10, 6.0), (0.3, 9, 20, 8.0), (0.5, 1, 10, 8.0), (1.0, 1, 5, 14.0)]


@pytest.mark.parametrize(
    ("count", "scale", "epsilon"), [(1, 0.5, 0.2), (10, 0.5, 2.0), (200, 0.1, 3.0), (60, 0.3, 9.0)]
)
def test_randomized_responses_compose_as_the_reference_says(count: int, scale: float, epsilon: float) -> None:
    """The closed form agrees with the composed privacy loss distribution of dp-accounting."""
    one = pld.from_privacy_parameters(
        pld.common.DifferentialPrivacyParameters(scale, 0.0), value_discretization_interval=scale / 100.0
    )
    reference = one.self_compose(count).get_delta_for_epsilon(epsilon)
    ours = math.exp(randomized_response_log_delta(count, scale, epsilon))
    assert ours == pytest.approx(reference, rel=1e-3)


def test_few_responses_cost_nothing_beyond_their_sum() -> None:
    """Below the sum of their epsilons there is no delta at all."""
    assert randomized_response_log_delta(4, 0.25, 1.0) == -math.inf
    assert randomized_response_log_delta(5, 0.25, 1.0) > -math.inf


@pytest.mark.parametrize(("scale", "gap", "mediums", "epsilon"), CASES)
def test_no_adversary_exceeds_the_bound(scale: float, gap: int, mediums: int, epsilon: float) -> None:
    """The exact worst case over adaptive strategies is below the bound, and above that of K bare responses."""
    exact = worst_delta("discrete-laplace", scale, gap, mediums, epsilon, cells=4, reach=3)
    assert exact <= math.exp(laplace_log_delta(scale, gap, mediums, epsilon))
    assert exact >= math.exp(randomized_response_log_delta(mediums, scale, epsilon))


def test_the_bound_is_near_the_worst_case() -> None:
    """At 40 mediums the bound is within a factor 2 in delta, which is 6 % in the scale."""
    exact = worst_delta("discrete-laplace", 0.1, 29, 40, 4.0, cells=2, reach=2)
    assert math.exp(laplace_log_delta(0.1, 29, 40, 4.0)) < 2.0 * exact
    assert math.exp(laplace_log_delta(0.094, 31, 40, 4.0)) < exact


def test_the_bound_is_the_best_split_of_its_two_terms() -> None:
    """A full search over n0 finds nothing better, and a fixed n0 nothing smaller."""
    scale, gap, mediums, epsilon = 0.2, 14, 12, 5.0
    q = (1.0 - math.exp(-scale * (gap + 1))) / (1.0 + math.exp(scale))
    splits = [
        math.exp(randomized_response_log_delta(n0, scale, epsilon)) + float(stats.binom.cdf(mediums - 1, n0, q))
        for n0 in range(mediums, 300)
    ]
    assert math.exp(laplace_log_delta(scale, gap, mediums, epsilon)) == pytest.approx(min(splits), rel=1e-6)


def test_the_bound_moves_the_right_way() -> None:
    """More mediums, more scale, less epsilon or a narrower gap never cost less."""
    base = laplace_log_delta(0.1, 20, 50, 4.0)
    assert laplace_log_delta(0.1, 20, 60, 4.0) > base
    assert laplace_log_delta(0.12, 20, 50, 4.0) > base
    assert laplace_log_delta(0.1, 20, 50, 3.5) > base
    assert laplace_log_delta(0.1, 2, 50, 4.0) > base
