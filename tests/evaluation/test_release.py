import math
from fractions import Fraction

import numpy as np
import pytest

from oracle.errors import InputError, RefusedError
from oracle.evaluation.release import _scale, check_release, cost_of, noise_reach, release
from oracle.evaluation.trial import Trial
from oracle.mechanisms.noise.exact import discrete_laplace
from tests.support.folders import long_plan


class _Seeded:
    def __init__(self, seed):
        self._generator = np.random.default_rng(seed)

    def take(self, count):
        return int.from_bytes(self._generator.bytes(-(-count // 8)), "big") >> (-count % 8)


def _trial(wrong, rounds):
    truth = np.zeros(rounds, dtype=np.bool_)
    labels = np.arange(rounds) < wrong
    return Trial(labels, truth, np.ones(rounds, dtype=np.int64), np.arange(rounds), (), rounds)


@pytest.mark.parametrize("predictor", ["rectangles", "stumps", "classical"])
def test_cost(predictor):
    """A training row pays the plan; a test row the score too, and the plan only where other answers depend on it."""
    plan = long_plan(predictor)
    cost = cost_of(plan, 0.25)
    own = 0.0 if predictor == "classical" else plan.epsilon
    assert cost.training == plan.epsilon
    assert cost.test == own + 0.25
    assert cost.delta == plan.phases[0].delta
    event = release(plan, _trial(3, 10), 0.25, "rows")
    assert event.epsilon == max(cost.training, cost.test)
    assert event.delta_sum <= plan.delta


@pytest.mark.parametrize("epsilon", [0.1, 0.001, 0.3, 1 / 3, 7.7])
def test_what_is_told_is_what_is_paid(epsilon):
    """The sum is a float, and the noise is such that what a test row pays is not above it: exactly, in fractions."""
    plan = long_plan()
    scale = _scale(plan, epsilon)
    assert Fraction(plan.epsilon) + scale <= Fraction(cost_of(plan, epsilon).test)
    assert scale == pytest.approx(epsilon)
    assert _scale(long_plan("classical"), epsilon) == Fraction(epsilon)


@pytest.mark.parametrize("predictor", ["bisection"])
def test_what_is_not_proved(predictor):
    """Where queries are not protected, no claim for a test row is made."""
    with pytest.raises(RefusedError, match="is not proved"):
        cost_of(long_plan(predictor), 0.25)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 51.0, math.nan, math.inf])
def test_epsilon_out_of_range(epsilon):
    """Refused, and no noise is looked for without an end."""
    with pytest.raises(InputError, match=r"must be from 0\.001 to 50"):
        cost_of(long_plan(), epsilon)


@pytest.mark.parametrize("order", [[0, 1, 1], [0, 1, 2, 3, 0], [2, 2]])
def test_a_row_asked_twice(order):
    """It would pay twice."""
    check_release(4, np.array([3, 1, 0]))
    with pytest.raises(RefusedError, match="asked once only"):
        check_release(4, np.array(order))


def test_neighbours_are_close():
    """One wrong answer more or less changes no outcome's frequency by more than e^epsilon, at the ends either."""
    plan, epsilon, games = long_plan(), 1.0, 20_000
    bits = _Seeded(5)
    counts = np.zeros((2, 6))
    for world in range(2):
        for _ in range(games):
            counts[world, release(plan, _trial(2 + world, 5), epsilon, "rows", bits).wrong] += 1
    ratios = counts[0] / counts[1]
    assert (np.abs(np.log(ratios)) < epsilon + 0.1).all()
    assert np.log(ratios).max() > epsilon - 0.1  # and it is used up
    assert counts[0].argmax() == 2


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 5.0])
def test_reach_of_the_noise(epsilon):
    """It is the least that 95 of 100 draws do not pass."""
    reach = noise_reach(epsilon)
    bits = _Seeded(6)
    sizes = np.array([abs(discrete_laplace(epsilon, bits)) for _ in range(5_000)])
    assert (sizes > reach).mean() < 0.065
    assert reach == 0 or 2 * math.exp(-epsilon * reach) / (1 + math.exp(-epsilon)) > 0.05
