"""What one run's guesses prove: Proposition 1 of docs/explanation/separations.md."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from oracle.audit.attacks.coins import cap, chance, coins_needed, judge, least_epsilon


def test_the_bound_is_the_exact_tail_of_randomized_responses():
    """Nothing pure tells more than one response for each coin, and that reaches it."""
    for epsilon in (0.3, 1.0, 3.0):
        kept = math.exp(epsilon) / (1.0 + math.exp(epsilon))
        for right in range(13):
            exact = sum(math.comb(12, more) * kept**more * (1 - kept) ** (12 - more) for more in range(right, 13))
            assert chance(right, 12, 12, epsilon, 0.0) == pytest.approx(exact, rel=1e-9)


def test_the_cap_is_reached_by_a_response_that_fails_with_probability_delta():
    """It tells the coin with probability delta, and is a randomized response else."""
    for epsilon, delta in ((0.5, 0.0), (1.0, 0.2), (3.0, 0.01)):
        kept = math.exp(epsilon) / (1.0 + math.exp(epsilon))
        assert cap(epsilon, delta) == pytest.approx(delta + (1.0 - delta) * kept)


@pytest.mark.parametrize("coins", [5, 40, 300])
@pytest.mark.parametrize("delta", [1e-4, 0.01, 0.2])
def test_delta_may_be_spent_on_one_coin_or_on_all_at_once(coins, delta):
    """Both kinds of (epsilon, delta)-private releases stay within the bound, at every number of right guesses."""
    for epsilon in (0.0, 1.0):
        kept = cap(epsilon, 0.0)
        for right in range(coins + 1):
            each = stats.binom.sf(right - 1, coins, delta + (1.0 - delta) * kept)
            together = delta + (1.0 - delta) * stats.binom.sf(right - 1, coins, kept)
            assert chance(right, coins, coins, epsilon, delta) >= max(each, together) * (1.0 - 1e-9)


@given(st.integers(1, 200), st.integers(0, 200), st.floats(0.0, 0.1), st.floats(1e-6, 0.5))
def test_the_least_epsilon_is_where_the_chance_passes(guessed, wrong, delta, miss):
    """Just below it the claim is refuted, just above it is not; more right guesses never prove less."""
    right = max(guessed - wrong, 0)
    found = least_epsilon(right, guessed, 200, delta, miss)
    if found > 0.0:
        assert chance(right, guessed, 200, found, delta) <= miss
    assert chance(right, guessed, 200, found + 1e-6, delta) > miss
    if right < guessed:
        assert least_epsilon(right + 1, guessed, 200, delta, miss) >= found


@pytest.mark.parametrize(("epsilon", "noise"), [(1.0, 0.0), (2.0, 1.5)])
def test_true_claims_are_rarely_refuted(epsilon, noise):
    """Of 600 releases, with scores that say how sure they are, at most so many as `miss` says. Smaller ones are."""
    random, wrong, seen = np.random.default_rng(91), 0, 0
    kept = cap(epsilon, 0.0)
    for _ in range(600):
        coins = random.random(150) < 0.5
        told = np.where(random.random(150) < kept, coins, ~coins)
        scores = np.where(told, 1.0, -1.0) * (1.0 + noise * random.random(150))
        wrong += judge(scores, coins, 0.0, 0.1).lowest > epsilon
        seen += judge(scores, coins, 0.0, 0.1).lowest > 0.3 * epsilon
    assert stats.binom.sf(wrong - 1, 600, 0.1) > 1e-6
    assert seen > 400


def test_the_surest_guesses_count():
    """An eighth of the coins is known: guessing all proves little, guessing these much."""
    random = np.random.default_rng(5)
    coins = random.random(800) < 0.5
    scores = random.normal(0.0, 0.1, 800)
    scores[:100] = np.where(coins[:100], 5.0, -5.0)
    found = judge(scores, coins, 0.0, 1e-3)
    assert (found.guessed, found.guessed_right) == (100, 100)
    assert found.lowest > least_epsilon(found.right, 800, 800, 0.0, 1e-3)
    assert found.share == found.right / 800


@pytest.mark.parametrize("epsilon", [1.0, 12.0, 20.0])
def test_without_delta_the_coins_needed_are_the_fewest(epsilon):
    """However many these are: of one fewer, all guessed right, the chance is above a quarter of `miss`."""
    coins = coins_needed(epsilon, 0.0, 1e-3) or 0
    one = math.log1p(math.exp(-epsilon))
    assert coins * one >= math.log(4000.0) > (coins - 1.5) * one


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(9.0, 1e-6), (42.0, 1e-6), (745.0, 1e-6), (math.inf, 1e-6), (math.inf, 0.0)]
)
def test_no_number_of_coins_is_named_where_none_is_enough(epsilon, delta):
    """Whatever their number, delta alone lets guesses be right too often; or a float cannot hold the number."""
    assert coins_needed(epsilon, delta, 1e-3) is None
    if epsilon < 40.0:
        assert all(chance(n, n, n, epsilon, delta) > 1e-3 / 4 for n in (10, 10**4, 10**6))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (2.0, 1e-5), (5.0, 1e-6), (7.0, 1e-8)])
def test_with_delta_the_coins_needed_are_enough(epsilon, delta):
    """And a tenth fewer are not."""
    coins = coins_needed(epsilon, delta, 1e-3) or 0
    fewer = int(0.9 * coins)
    assert chance(coins, coins, coins, epsilon, delta) <= 1e-3 / 4 < chance(fewer, fewer, fewer, epsilon, delta)
