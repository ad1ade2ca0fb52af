"""PRIVACY.md, Theorem 5 (logistic noise): kappa by brute force, the supermartingale, delta against every adversary."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from oracle.accounting.between_thresholds import kappa, log_answer_law, logistic_log_delta
from oracle.errors import InputError
from tests.accounting.worst_case import worst_delta


def price(theta: mpmath.mpf, scale: mpmath.mpf, gap: int, depth: int, *, deeper_first: bool) -> mpmath.mpf:
    """Return -ln((1 - r_L - r_H)/r_M) at one depth and order, from the definition."""

    def law(at: int) -> tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]:
        low = 1 / (1 + mpmath.exp(scale * (at + mpmath.mpf(0.5))))  # thresholds 0 and gap
        high = 1 / (1 + mpmath.exp(scale * (gap - at + mpmath.mpf(0.5))))
        return low, 1 - low - high, high

    worlds = (law(depth), law(depth + 1))
    first, second = worlds[::-1] if deeper_first else worlds
    low, medium, high = (p ** (1 + theta) * q ** (-theta) for p, q in zip(first, second, strict=True))
    free = 1 - low - high
    return mpmath.inf if free <= 0 else -mpmath.log(free / medium)


@pytest.mark.parametrize("scale", [1e-3, 0.03, 0.3, 2.0])
@pytest.mark.parametrize("gap_nats", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("part", [0.003, 0.05, 0.4, 0.9])
def test_kappa_is_the_maximum_over_depths(scale: float, gap_nats: float, part: float) -> None:
    """No depth up to 60 nats out, in either order, exceeds kappa (PRIVACY.md, Theorem 5); it is attained to 1e-6."""
    theta, gap = part / math.expm1(scale), round(gap_nats / scale)
    found = kappa(theta, scale, gap)
    reach = round(60.0 / scale)
    depths = {*np.linspace(-reach, gap + reach, 41).astype(int).tolist(), -1, 0, gap // 2, gap - 1, gap}
    with mpmath.workdps(80):
        prices = [
            price(mpmath.mpf(theta), mpmath.mpf(scale), gap, depth, deeper_first=order)
            for depth in depths
            for order in (False, True)
        ]
        worst = max(prices)
        if math.isinf(found):
            assert worst > 1 or part > 0.3
        else:
            assert worst <= found <= worst * (1 + mpmath.mpf(1e-6))


def test_kappa_rises_with_theta_and_falls_with_the_gap() -> None:
    """A higher moment and a narrower gap cost more."""
    assert kappa(3.0, 0.1, 30) > kappa(2.0, 0.1, 30) > kappa(2.0, 0.1, 60) > 0.0
    assert kappa(1.0 / math.expm1(0.1), 0.1, 30) == math.inf


def test_theta_must_be_positive() -> None:
    """The order of a moment is above 0."""
    with pytest.raises(InputError, match=r"theta = 0\.0: must be above 0"):
        kappa(0.0, 0.1, 3)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.floats(0.01, 0.7), st.floats(0.05, 3.0), st.integers(0, 40), st.floats(-20.0, 20.0), st.booleans())
def test_a_step_is_a_supermartingale(part: float, scale: float, gap: int, nats: float, order: bool) -> None:  # noqa: FBT001
    """E exp(theta loss - kappa [medium]) is at most 1 at every depth and in both orders."""
    theta = part / math.expm1(scale)
    cost = kappa(theta, scale, gap)
    assume(math.isfinite(cost))
    depth = round(nats / scale)
    logs = np.stack(log_answer_law("logistic", scale, 0, gap, np.array([depth, depth + 1])))
    first, second = (logs[:, 1], logs[:, 0]) if order else (logs[:, 0], logs[:, 1])
    moments = np.exp((1.0 + theta) * first - theta * second)
    assert moments[0] + moments[2] + moments[1] * math.exp(-cost) <= 1.0 + 1e-11


@pytest.mark.parametrize(
    ("scale", "gap", "mediums", "epsilon", "reach"),
    [(0.5, 3, 1, 1.0, 6), (0.5, 3, 3, 3.0, 4), (1.0, 2, 3, 6.0, 3), (1.0, 0, 2, 5.0, 3), (2.0, 1, 2, 7.0, 2)],
)
def test_no_adversary_exceeds_the_bound(scale: float, gap: int, mediums: int, epsilon: float, reach: int) -> None:
    """The exact worst case over adaptive strategies is below the bound, and within a factor 6 of it."""
    exact = worst_delta("logistic", scale, gap, mediums, epsilon, cells=30, reach=reach)
    bound = math.exp(logistic_log_delta(scale, gap, mediums, epsilon))
    assert exact <= bound <= 6.0 * exact


def gamma_delta(scale: float, mediums: int, epsilon: float) -> float:
    """Return the exact delta of one threshold far away: Gamma(K) waiting times at rates 1 and exp(e), both orders."""
    law, growth = stats.gamma(mediums), math.expm1(scale)
    late = (epsilon + mediums * scale) / growth
    early = (mediums * scale - epsilon) / growth
    ratio = math.exp(epsilon)
    return max(
        float(law.sf(late) - ratio * law.sf(late * (1.0 + growth))),
        float(law.cdf(early * (1.0 + growth)) - ratio * law.cdf(early)),
    )


@pytest.mark.parametrize(
    ("scale", "mediums", "epsilon"),
    [(0.5, 2, 2.0), (0.3, 20, 6.0), (0.05, 300, 4.0), (0.013, 1500, 3.6), (1e-3, 30_000, 1.0), (1e-4, 100_000, 0.2)],
)
def test_a_single_threshold_is_a_gamma_draw(scale: float, mediums: int, epsilon: float) -> None:
    """With the other threshold out of reach the bound is above the exact delta and within a factor 25 of it."""
    exact = gamma_delta(scale, mediums, epsilon)
    bound = math.exp(logistic_log_delta(scale, math.ceil(60.0 / scale), mediums, epsilon))
    assert exact <= bound <= 25.0 * exact


@pytest.mark.parametrize(
    ("scale", "gap", "mediums", "epsilon"), [(0.013, 200, 1500, 3.6), (1e-4, 25_000, 100_000, 0.2)]
)
def test_large_instances_agree_with_high_precision(scale: float, gap: int, mediums: int, epsilon: float) -> None:
    """With thousands of mediums the doubles are above the exact optimum of the tail form, by less than 1e-6."""
    found = logistic_log_delta(scale, gap, mediums, epsilon)
    with mpmath.workdps(60):
        e, cut = mpmath.mpf(scale), mpmath.exp(-mpmath.mpf(scale) * (gap + 1))

        def log_delta(theta: mpmath.mpf) -> mpmath.mpf:
            inner = mpmath.exp(theta * e) * (1 - theta * mpmath.expm1(e)) - cut
            cost = -mpmath.log(inner / (1 - cut))
            return mediums * cost - theta * epsilon + (1 + theta) * mpmath.log(theta / (1 + theta)) - mpmath.log(theta)

        theta = mpmath.findroot(lambda t: mpmath.diff(log_delta, t), epsilon / (mediums * scale * scale))
        best = log_delta(theta)
        assert best <= found <= best + mpmath.mpf(1e-6)


def test_the_bound_moves_the_right_way() -> None:
    """More mediums, more scale, less epsilon or a narrower gap never cost less; nothing is above 0."""
    base = logistic_log_delta(0.013, 200, 1500, 3.6)
    assert logistic_log_delta(0.013, 200, 1600, 3.6) > base
    assert logistic_log_delta(0.014, 200, 1500, 3.6) > base
    assert logistic_log_delta(0.013, 200, 1500, 3.4) > base
    assert logistic_log_delta(0.013, 100, 1500, 3.6) > base
    assert logistic_log_delta(3.0, 0, 1000, 0.01) == 0.0


@pytest.mark.long
@pytest.mark.parametrize(("scale", "gap", "mediums", "epsilon"), [(0.8, 4, 2, 3.0)])
@pytest.mark.parametrize("choice", [0.3])
def test_a_choice_before_is_paid_by_its_rho(
    scale: float, gap: int, mediums: int, epsilon: float, choice: float
) -> None:
    """Against the exact composition: the worst adversary's delta, over the choice's exact law, for both orders."""
    losses = np.array([0, 0, 1, 2, 3, 5]), np.array([1, -1, 1, 2, 4, 4])
    laws = [np.exp(-choice * loss) / np.exp(-choice * loss).sum() for loss in losses]
    bound = math.exp(logistic_log_delta(scale, gap, mediums, epsilon, rho=choice * choice / 2.0))
    alone = math.exp(logistic_log_delta(scale, gap, mediums, epsilon))
    assert alone < bound < math.exp(logistic_log_delta(scale, gap, mediums, epsilon - 2.0 * choice))
    for here, there in (laws, laws[::-1]):
        exact = sum(
            chance * worst_delta("logistic", scale, gap, mediums, epsilon - math.log(chance / other), cells=10)
            for chance, other in zip(here, there, strict=True)
        )
        assert exact <= bound
