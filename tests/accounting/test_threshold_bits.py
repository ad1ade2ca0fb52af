import math

import pytest
import scipy.stats

from oracle.accounting.accountant import UnsupportedEventError, delta_at
from oracle.accounting.between_thresholds import randomized_response_log_delta
from oracle.accounting.events import BetweenThresholdsEvent, Composed, ThresholdBitsEvent
from oracle.accounting.threshold_bits import bits_rho
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.bisection.tight import row_event
from oracle.planning.model_file import parse_model
from oracle.planning.planner import plan_model


def _event(law, *, bits, ratio=0.01, dimension=3):
    return ThresholdBitsEvent(law, scale=1.0, shift=ratio, bits=bits, dimension=dimension)


def _randomized_response_delta(bits, each, epsilon):
    """Return the exact delta of so many (each, 0)-private bits, the worst there are (Kairouz, Oh, Viswanath, 2015)."""
    likely = math.exp(each) / (1.0 + math.exp(each))
    return math.fsum(
        scipy.stats.binom.pmf(up, bits, likely) * max(-math.expm1(epsilon - each * (2 * up - bits)), 0.0)
        for up in range(bits + 1)
    )


def _gaussian_delta(bits, ratio, epsilon):
    """Return the exact delta of so many Gaussian mechanisms (Balle and Wang, 2018, Theorem 8)."""
    mu = ratio * math.sqrt(bits)
    upper, lower = (float(scipy.stats.norm.logcdf(place - epsilon / mu)) for place in (mu / 2, -mu / 2))
    return math.exp(upper) - math.exp(epsilon + lower)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("bits", [400, 2_000])
def test_the_bound_is_above_the_worst_case_and_not_far(epsilon, bits):
    """Exact composition of randomized responses, and of Gaussians is below it; of twice the cost above, if small."""
    for law, exact in (("laplace", _randomized_response_delta), ("gaussian", _gaussian_delta)):
        proved = delta_at(_event(law, bits=bits), epsilon)
        assert exact(bits, 0.01, epsilon) <= proved
        assert proved > 1e-3 or exact(bits, 0.02, epsilon) > proved


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("epsilon", "factor"), [(4.0, 155), (1.0, 550), (0.3, 1_800)])
def test_how_far_from_tight_the_conversion_is(noise, epsilon, factor):
    """What PRIVACY.md, Theorem 12 says: a plan's delta over that of exact composition, to two digits."""
    plan = plan_model(_model(noise, epsilon))
    assert isinstance(plan, BisectionPlan)
    event = row_event(plan)
    if noise == "laplace":
        exact = math.exp(randomized_response_log_delta(event.bits, event.shift / event.scale, epsilon))
    else:
        exact = _gaussian_delta(event.bits, event.shift / event.scale, epsilon)
    assert delta_at(event, epsilon) / exact == pytest.approx(factor, rel=0.02)


def _model(noise, epsilon):
    features = [{"name": name} for name in "abc"]
    sizes = {"alpha": 0.4, "examples": 20_000, "rounds": 100_000}
    table = {"name": "mix", "predictor": "bisection", "noise": noise, "epsilon": epsilon, "features": features, **sizes}
    return parse_model({"model": table})


def test_laplace_bits_are_pure_too():
    """Where the epsilons add up to no more than epsilon, delta is 0; one bit more, and it is not."""
    assert delta_at(_event("laplace", bits=99), 1.0) == 0.0
    assert delta_at(_event("laplace", bits=101), 1.0) > 0.0
    assert delta_at(_event("gaussian", bits=99), 1.0) > 0.0


def test_no_bits_cost_nothing():
    """No bits, no delta; and a rho of 0."""
    for law in ("laplace", "gaussian"):
        assert delta_at(_event(law, bits=0), 0.0) == 0.0
        assert bits_rho(_event(law, bits=0)) == 0.0


def test_delta_is_monotone():
    """It rises with the bits and the shift, and falls with epsilon; at epsilon below rho it is 1."""
    for law in ("laplace", "gaussian"):
        by_bits = [delta_at(_event(law, bits=bits), 1.0) for bits in (10, 1_000, 10_000, 30_000, 10**6)]
        assert by_bits == sorted(by_bits)
        assert by_bits[-1] == 1.0
        by_epsilon = [delta_at(_event(law, bits=10_000), epsilon) for epsilon in (0.5, 1.0, 2.0, 4.0)]
        assert by_epsilon == sorted(by_epsilon, reverse=True)
        by_shift = [delta_at(_event(law, bits=10_000, ratio=ratio), 1.0) for ratio in (0.001, 0.005, 0.01, 0.02)]
        assert by_shift == sorted(by_shift)


def test_rounding_is_paid_for():
    """A dot product of many doubles under little noise costs more than one of few; enough of it and nothing is left."""
    few, many = (
        delta_at(ThresholdBitsEvent("laplace", 1e-9, 1e-11, 10_000, dimension), 1.0) for dimension in (1, 10**6)
    )
    assert few < many
    assert delta_at(ThresholdBitsEvent("laplace", 1e-15, 1e-17, 10_000, 1000), 1.0) == 1.0


def test_two_trading_events_are_refused():
    """No theorem at hand composes bits with an instance."""
    between = BetweenThresholdsEvent("logistic", 1.0, 10, 5)
    with pytest.raises(UnsupportedEventError):
        delta_at(Composed((_event("laplace", bits=10), between)), 1.0)
