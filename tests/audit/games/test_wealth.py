"""Bets against a claim: fair where it is true, rich where it is not, whenever and wherever games are stopped."""

import math

import numpy as np
import pytest

from oracle.audit.games import wealth as bets
from oracle.audit.games.sequence import Arm, detection_limit, play_out
from oracle.audit.games.wealth import Wealth, ceiling
from tests.audit.games.recorded import recorded


def responses(epsilon: float, games: int, seed: int) -> list[np.ndarray]:
    """Return both worlds' views of one randomized response."""
    rng = np.random.default_rng(seed)
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    return [(rng.random(games) < probability).astype(float)[:, None] for probability in (1.0 - truth, truth)]


def audited(views: list[np.ndarray], epsilon: float, delta: float = 0.0, miss: float = 1e-3) -> Wealth:
    """Return the money after these games, or as soon as the claim is refuted."""
    wealth = Wealth(epsilon, delta, miss)
    play_out([recorded(*views)], wealth, len(views[0]))
    return wealth


def live(epsilons: list[float], seed: int) -> list[Arm]:
    """Return randomized responses, one for each aim."""
    rng = np.random.default_rng(seed)

    def arm(epsilon):
        truth = 1.0 / (1.0 + math.exp(-epsilon))
        chances = (1.0 - truth, truth)
        return Arm(f"{epsilon}", lambda _purpose, games, world: (rng.random((games, 1)) < chances[world]).astype(float))

    return [arm(epsilon) for epsilon in epsilons]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (2.0, 0.01), (4.0, 0.2)])
def test_no_stake_gains_on_average_where_the_claim_holds(monkeypatch, epsilon, delta):
    """Of the worst laws that a claim allows the mean of what one pair of games gives is 1, and less of all others."""
    claims = []

    def settle(wealth, absent, present, chosen):
        for stakes in chosen.stakes:
            for claim, stake in zip(wealth._claims, stakes, strict=True):
                rarer = (1.0 - delta) / (1.0 + math.exp(claim))
                for q in (rarer, rarer / 3.0, 0.0):
                    p = math.exp(claim) * q + delta
                    gives = [1.0 + stake * (x - math.exp(claim) * y - delta) for x in (1, 0) for y in (1, 0)]
                    assert min(gives) > 0.0
                    mean = sum(
                        a * b for a, b in zip(gives, (p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)), strict=True)
                    )
                    assert mean == pytest.approx(1.0, abs=1e-9)
                    claims.append(stake)
        del absent, present

    monkeypatch.setattr(Wealth, "_settle", settle)
    audited(responses(epsilon + 2.0, 400, 1), epsilon, delta)
    assert max(claims) > 0.0


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_randomized_response_is_found_out(epsilon):
    """The bound is below the truth, and within a fifth of it with many games."""
    assert 0.8 * epsilon < audited(responses(epsilon, 20_000, 1), epsilon).lowest < epsilon


def test_games_stop_once_a_claim_is_refuted():
    """A response of 3 nats that claims 1 is refuted long before all games are played, and one of 1 nat is not."""
    wealth = Wealth(1.0, 0.0, 1e-3)
    assert play_out(live([3.0], 2), wealth, 20_000) < 400
    assert wealth.refuted
    assert wealth.lowest > 1.0
    assert not audited(responses(1.0, 2_000, 3), 1.0).refuted


def test_false_alarms_are_as_rare_as_stated():
    """Of 80 audits of three aims at the worst law, stopped at the first alarm, no more than 1 in 20 raise one."""
    alarms = 0
    for run in range(80):
        wealth = Wealth(1.0, 0.0, 0.05)
        play_out(live([1.0, 0.3, 1.0], 100 + run), wealth, 300)
        alarms += wealth.refuted
    assert alarms <= 4 + 4 * math.sqrt(4)


def test_a_bettor_that_sees_the_future_is_caught_by_this_test(monkeypatch):
    """Were games bet on that had a part in choosing the bets, the same audits would raise many more alarms."""
    real = Wealth.show

    def show(wealth, absent, present, source=0):
        real(wealth, absent, present, source)
        wealth._settle(absent, present, wealth._bets[source])

    monkeypatch.setattr(Wealth, "show", show)
    refuted = []
    for run in range(40):
        wealth = Wealth(1.0, 0.0, 0.05)
        play_out(live([1.0, 0.3, 1.0], 100 + run), wealth, 300)
        refuted.append(wealth.refuted)
    assert sum(refuted) > 12


def test_most_games_are_played_where_money_grows():
    """Of five aims the one that tells most is played more than all others, and the claim is refuted sooner for it."""
    played = dict.fromkeys(range(5), 0)
    arms = []
    for number, arm in enumerate(live([0.1, 0.1, 4.0, 0.1, 0.1], 5)):

        def play(purpose, games, world, number=number, arm=arm):
            played[number] += games
            return arm.play(purpose, games, world)

        arms.append(Arm(arm.name, play))
    wealth = Wealth(2.0, 0.0, 1e-5)
    play_out(arms, wealth, 5_000)
    assert wealth.refuted
    assert played[2] > sum(played.values()) / 2
    assert wealth.best().source == 2


def test_games_that_promise_nothing_are_given_up():
    """Where the worlds look the same, a fifth of the games is enough to see that the others would not help."""
    wealth = Wealth(4.0, 0.0, 1e-5)
    assert play_out(live([0.0], 6), wealth, 2_000) < 1_000
    assert wealth.lowest == 0.0


def test_delta_is_taken_off():
    """What happens with probability delta only proves nothing; without delta it would."""
    rng = np.random.default_rng(4)
    views = [np.zeros((20_000, 1)), (rng.random((20_000, 1)) < 0.01).astype(float)]
    assert audited(views, 1.0).refuted
    assert audited(views, 1.0, delta=0.015).lowest == 0.0


def test_features_are_weighed_together():
    """Where no single feature tells much, their weighted sum does; features of noise prove nothing."""
    rng = np.random.default_rng(5)
    views = [rng.normal(mean, 1.0, (4_000, 12)) for mean in (0.0, 0.35)]
    together = audited(views, 4.0)
    assert together.best().event.feature == 12
    assert together.lowest > audited([view[:, :1] for view in views], 4.0).lowest + 0.3
    assert audited([rng.random((1_000, 10)), rng.random((1_000, 10))], 1.0).lowest == 0.0


def test_the_ceiling_is_what_is_reached_without_privacy():
    """With views that always differ, the bound is close to what so many games can prove at most, and never above."""
    views = [np.zeros((500, 1)), np.ones((500, 1))]
    most = ceiling(500, 0.0, 1e-3)
    assert 0.8 * most < audited(views, 3.0 * most).lowest < most


def test_the_detection_limit_is_where_claims_begin_to_be_refuted():
    """Of responses of multiples of the claim the limit says which would be refuted: with more games, closer ones."""
    limits = []
    for games in (400, 4_000):
        limit = detection_limit(lambda more: live([more], 7), lambda part: Wealth(1.0, 0.0, 1e-4**part), games)
        assert limit is not None
        limits.append(limit)
        for multiple, refuted in ((limit * 1.35, True), (1.0 + (limit - 1.0) / 5.0, False)):
            wealth = Wealth(1.0, 0.0, 1e-4)
            play_out(live([multiple], 8), wealth, games)
            assert wealth.refuted == refuted, (games, multiple)
    assert limits[1] < limits[0]
    assert detection_limit(lambda _more: live([0.9], 7), lambda part: Wealth(1.0, 0.0, 1e-4**part), 400) is None


def test_what_is_bet_against_holds_the_claim():
    """The claim itself is among the steps that are bet against, in their order."""
    assert 1.0 in bets._STEPS
    assert (np.diff(bets._STEPS) > 0.0).all()
