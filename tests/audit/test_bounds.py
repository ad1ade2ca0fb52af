"""The lower bound itself: right where the truth is known, honest where there is nothing to find."""

import math

import numpy as np
import pytest
from scipy import stats

from oracle.audit.bounds import Bound, clopper_pearson, epsilon_bound
from oracle.errors import InputError


def responses(epsilon: float, games: int, seed: int) -> list[np.ndarray]:
    """Return both worlds' views of one randomized response."""
    rng = np.random.default_rng(seed)
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    return [(rng.random(games) < probability).astype(float)[:, None] for probability in (1.0 - truth, truth)]


@pytest.mark.parametrize(("count", "games"), [(0, 20), (3, 20), (20, 20), (500, 1000)])
def test_intervals_are_those_of_clopper_and_pearson(count, games):
    """Both ends agree with SciPy's exact binomial interval."""
    low, high = clopper_pearson(np.array([count]), games, 0.025)
    reference = stats.binomtest(count, games).proportion_ci(0.95, method="exact")
    assert (low[0], high[0]) == pytest.approx((reference.low, reference.high), abs=1e-12)


def bound_of(views: list[np.ndarray], miss: float) -> Bound:
    """Return the bound at delta = 0."""
    return epsilon_bound(views[0], views[1], 0.0, miss)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_randomized_response_is_found_out(epsilon):
    """The bound is below the truth, and within a tenth of it with many games."""
    bound = bound_of(responses(epsilon, 40_000, 1), 1e-3)
    assert 0.9 * epsilon < bound.lowest < epsilon < bound.highest


def test_a_wrong_scale_is_refuted():
    """A response of 1.3 nats that claims 1 is caught."""
    assert bound_of(responses(1.3, 20_000, 2), 1e-3).lowest > 1.0


def test_false_alarms_are_as_rare_as_stated():
    """Of 400 audits with a stated probability of 1/20, at most 20 + 4 standard deviations exceed the truth."""
    alarms = sum(bound_of(responses(1.0, 400, 100 + run), 0.05).lowest > 1.0 for run in range(400))
    assert alarms <= 20 + 4 * math.sqrt(20)


def test_searching_many_features_costs_nothing():
    """Ten features of pure noise prove nothing: the event is chosen on games that it is not counted in."""
    rng = np.random.default_rng(3)
    proved = [epsilon_bound(rng.random((100, 10)), rng.random((100, 10)), 0.0, 0.05).lowest > 0.0 for _ in range(30)]
    assert sum(proved) <= 6


def test_delta_is_taken_off():
    """What happens with probability delta only proves nothing; without delta it would."""
    rng = np.random.default_rng(4)
    absent, present = np.zeros((20_000, 1)), (rng.random((20_000, 1)) < 0.01).astype(float)
    assert epsilon_bound(absent, present, 0.0, 1e-3).lowest > 1.0
    assert epsilon_bound(absent, present, 0.015, 1e-3).lowest == 0.0


def test_features_are_weighed_together():
    """Where no single feature tells much, their weighted sum does."""
    rng = np.random.default_rng(5)
    absent, present = rng.normal(0.0, 1.0, (6_000, 12)), rng.normal(0.35, 1.0, (6_000, 12))
    together = epsilon_bound(absent, present, 0.0, 1e-3)
    alone = epsilon_bound(absent[:, :1], present[:, :1], 0.0, 1e-3)
    assert together.event.feature == 12
    assert together.lowest > 2.0 * alone.lowest


@pytest.mark.parametrize("total", [64, 109, 213, 399])
def test_an_event_of_all_greater_values_is_found_in_any_number_of_games(total):
    """What might be counted is no whole number, and must not be taken for more than all games."""
    rng = np.random.default_rng(total)
    absent, present = (rng.random((total, 1)) < 0.05).astype(float), (rng.random((total, 1)) < 0.95).astype(float)
    assert epsilon_bound(absent, present, 0.0, 0.05).lowest > 0.7


def test_too_few_games_are_refused():
    """Nothing is said of a handful of games, or of worlds with different numbers of them."""
    with pytest.raises(InputError, match="games"):
        epsilon_bound(np.zeros((4, 1)), np.zeros((4, 1)), 0.0, 0.05)
    with pytest.raises(InputError, match="games"):
        epsilon_bound(np.zeros((40, 1)), np.zeros((41, 1)), 0.0, 0.05)


def test_an_event_chosen_elsewhere_is_counted_in_all_games():
    """Games that the event is chosen on may be other ones, in any number; then all of the given ones count."""
    views, others = responses(2.0, 400, 5), responses(2.0, 5_000, 6)
    bound = epsilon_bound(views[0], views[1], 0.0, 1e-3, chosen_on=(others[0], others[1]))
    assert bound.games == 400
    assert bound_of(views, 1e-3).lowest < bound.lowest < 2.0
