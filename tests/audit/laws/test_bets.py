"""Bets at the claimed odds: they gain nothing where the claim is true, and much where it is not."""

import numpy as np
import pytest

from oracle.audit.laws.bets import Bets, _bets_on
from oracle.audit.randomness import Draws, Randomness

_COUNT = 400


def _part(places):
    bets = Bets()
    for place in places:
        bets.on_place("noise", place)
    return bets.most()[0]


def test_each_bet_is_fair():
    """What a bet gives has the mean 1 where the place is uniform."""
    grid = (np.arange(20_000) + 0.5) / 20_000
    gained = np.exp([_bets_on(place) for place in grid.tolist()]).mean(axis=0)
    assert gained == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_uniform_places_gain_little(seed):
    """Where the law is the claimed one, gains stay far from a refutation."""
    places = Draws(Randomness(bytes(16), "bets"), seed).uniform(_COUNT)
    assert _part(places) < 0.5


@pytest.mark.parametrize(
    "change",
    [
        lambda places: 1.0 - (1.0 - places) ** 0.6,
        lambda places: places**1.7,
        lambda places: 0.3 + 0.7 * places,
        np.zeros_like,
        lambda places: np.where(places < 0.5, 0.4, 0.6),
    ],
    ids=["steeper", "other end", "never small", "no noise", "two values"],
)
def test_another_law_loses(change):
    """Noise of another slope, with a gap, or none at all is refuted."""
    places = Draws(Randomness(bytes(16), "bets"), 1).uniform(_COUNT)
    assert _part(change(places)) > 1.0


@pytest.mark.parametrize(("real", "refuted"), [(0.1, False), (0.2, True), (0.03, True)])
def test_chances_are_bet_on(real, refuted):
    """What is claimed to happen once in ten times is refuted where it happens twice as often, or seldom."""
    bets, draws = Bets(), Draws(Randomness(bytes(16), "chances"), 1)
    for place in draws.uniform(1_000).tolist():
        bets.on_chance("paid", 0.1, happened=place < real)
    assert (bets.most()[0] > 1.0) == refuted


def test_draws_are_their_own():
    """Numbers of different runs, and calls, differ; the same call gives the same again."""
    randomness = Randomness(bytes(16), "draws")
    one, again, other = (Draws(randomness, number) for number in (0, 0, 1))
    first = one.uniform(50)
    assert np.array_equal(first, again.uniform(50))
    assert not np.isin(first, other.uniform(50)).any()
    assert not np.isin(first, one.uniform(50)).any()
    assert len(set(one.some(3, 7))) == 3


def test_no_bets_are_no_evidence():
    """Where nothing came to bet on, nothing is gained, nothing is refuted, and nothing has passed."""
    bets = Bets()
    assert bets.most() == (0.0, "nothing")
    assert bets.verdict("paid answers") == (False, "there were no paid answers to bet on")
