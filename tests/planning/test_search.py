"""The planner's short cuts decide as the sums they stand for."""

import math

import numpy as np
import pytest
from scipy import stats

from oracle.accounting import between_thresholds
from oracle.accounting.between_thresholds import logistic_fits, logistic_log_delta
from oracle.errors import PlanError
from oracle.planning.boxes.harvest import trials_for


def instances(count: int) -> list[tuple[float, int, int, float]]:
    """Return scales, gaps, mediums and epsilons such as plans have, and wilder ones."""
    generator = np.random.default_rng(5)
    scales = np.exp(generator.uniform(math.log(1e-3), math.log(2.0), count))
    gaps = np.maximum(np.exp(generator.uniform(-1.0, 2.5, count)) / scales, 1).astype(int)
    epsilons = np.exp(generator.uniform(math.log(0.05), math.log(50.0), count))
    spread = np.exp(generator.uniform(-3.0, 1.0, count))
    mediums = np.maximum(spread * epsilons / scales**2, 1).astype(int)
    return list(zip(scales.tolist(), gaps.tolist(), mediums.tolist(), epsilons.tolist(), strict=True))


def test_the_quick_comparison_is_the_slow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """At, just above, just below and far from the value, whatever the instance; far from it the slow one rests."""
    asked: list[float] = []

    def counted(*arguments: float, rho: float) -> float:
        asked.append(arguments[0])
        return logistic_log_delta(*arguments, rho=rho)  # type: ignore[arg-type]

    monkeypatch.setattr(between_thresholds, "logistic_log_delta", counted)
    below = 0
    for instance in instances(400):
        rho = 1e-3 * (len(asked) % 3)
        value = logistic_log_delta(*instance, rho=rho)
        for shift in (-3.0, -1e-4, -1e-5, -1e-12, 0.0, 1e-12, 1e-5, 1e-4, 3.0):
            assert logistic_fits(*instance, value + shift, rho) == (value <= value + shift)
        below += value < 0.0
    assert below > 200
    assert len(asked) < 400 * 9 / 2


@pytest.mark.parametrize("successes", [1, 2, 7, 300, 20_000])
@pytest.mark.parametrize("probability", [0.9, 0.02, 1e-6, 1e-10])
@pytest.mark.parametrize("miss", [0.2, 1e-3, 1e-9])
def test_trials_are_the_least_that_suffice(successes: int, probability: float, miss: float) -> None:
    """With them the chance of too few successes is small enough, and with one trial less it is not."""
    trials = trials_for(successes, probability, miss)
    tail = np.asarray(stats.binom.cdf(successes - 1, [trials - 1, trials], probability))
    assert tail[1] <= miss
    assert trials == successes or tail[0] > miss


@pytest.mark.parametrize("probability", [0.0, 1e-300, 1e-18])
def test_what_takes_too_many_trials_is_refused(probability):
    """In words, and not by whatever a number beyond 64 bits meets first."""
    with pytest.raises(PlanError, match=r"model\.alpha, gamma or a share"):
        trials_for(1000, probability, 0.1)
    with pytest.raises(PlanError, match=r"model\.beta"):
        trials_for(1, 1e-18, 1e-12)
