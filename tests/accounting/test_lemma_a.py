"""Lemma A: a step with discrete Laplace noise is randomized response at most, and what it costs in mediums."""

import numpy as np
import pytest

from oracle.mechanisms.between_thresholds import log_answer_law

SCALES = (0.02, 0.3, 1.0, 3.0)
GAPS = (0, 1, 2, 5, 40)
LOW = 50
DEPTHS = np.arange(0, 160)


def answers(scale: float, gap: int, depths: np.ndarray) -> np.ndarray:
    """Return P(low), P(medium), P(high): float64[3, n]."""
    return np.exp(log_answer_law("discrete-laplace", scale, LOW, LOW + gap, depths))


def weights(scale: float, gap: int) -> tuple[np.ndarray, np.ndarray]:
    """Return w and w2 of every depth."""
    return np.exp(-scale * np.abs(LOW - 1 - DEPTHS)), np.exp(-scale * np.abs(LOW + gap - DEPTHS))


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("scale", SCALES)
def test_each_threshold_is_a_diluted_randomized_response(scale: float, gap: int) -> None:
    """With probability w the event is one RR(e0) on the world's bit, else it is a constant."""
    truth = 1.0 / (1.0 + np.exp(-scale))
    here, deeper = answers(scale, gap, DEPTHS), answers(scale, gap, DEPTHS + 1)
    w, w2 = weights(scale, gap)
    always_low = (LOW - 1 >= DEPTHS) * (1.0 - w)
    always_high = (LOW + gap <= DEPTHS) * (1.0 - w2)
    assert here[0] == pytest.approx(always_low + w * truth, abs=1e-12)
    assert deeper[0] == pytest.approx(always_low + w * (1.0 - truth), abs=1e-12)
    assert here[2] == pytest.approx(always_high + w2 * (1.0 - truth), abs=1e-12)
    assert deeper[2] == pytest.approx(always_high + w2 * truth, abs=1e-12)


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("scale", SCALES)
def test_outside_the_zone_the_other_threshold_adds_nothing(scale: float, gap: int) -> None:
    """Given "not low" below the zone, and given "not high" above it, the rest has one law in both worlds."""
    here, deeper = answers(scale, gap, DEPTHS), answers(scale, gap, DEPTHS + 1)
    below, above = DEPTHS < LOW, LOW + gap <= DEPTHS
    beyond = np.exp(-scale * (gap + 1))
    for world in (here, deeper):
        assert (world[2] / (world[1] + world[2]))[below] == pytest.approx(beyond, rel=1e-9)
        assert (world[0] / (world[1] + world[0]))[above] == pytest.approx(beyond, rel=1e-9)


@pytest.mark.parametrize("gap", GAPS[1:])
@pytest.mark.parametrize("scale", SCALES)
def test_inside_the_zone_one_randomized_response_makes_the_whole_answer(scale: float, gap: int) -> None:
    """RR with probability max(w, w2), thinned on the weaker threshold's side, is the law in both worlds."""
    truth = 1.0 / (1.0 + np.exp(-scale))
    inside = (DEPTHS >= LOW) & (LOW + gap > DEPTHS)
    w, w2 = (weight[inside] for weight in weights(scale, gap))
    used = np.maximum(w, w2)
    for depth, says_here in ((DEPTHS[inside], truth), (DEPTHS[inside] + 1, 1.0 - truth)):
        low = used * says_here * (w / used)
        high = used * (1.0 - says_here) * (w2 / used)
        rebuilt = np.stack([low, 1.0 - low - high, high])
        assert rebuilt == pytest.approx(answers(scale, gap, depth), abs=1e-12)
        assert (rebuilt[1] >= 0.0).all()


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("scale", SCALES)
def test_a_used_response_costs_a_medium_with_probability_q(scale: float, gap: int) -> None:
    """Outside the zone a step that used its RR is medium with probability at least q; inside, every step is.

    Inside it may be medium less often than q given that the RR was used; that does not help an adversary, since then
    the unused steps are all medium (see `test_no_step_beats_the_negative_binomial`).
    """
    q = -np.expm1(-scale * (gap + 1)) / (1.0 + np.exp(scale))
    w, w2 = weights(scale, gap)
    outside = (DEPTHS < LOW) | (LOW + gap <= DEPTHS)
    used = np.maximum(w, w2)
    for depth in (DEPTHS, DEPTHS + 1):
        medium = answers(scale, gap, depth)[1]
        assert (medium[outside] >= (used * q * (1.0 - 1e-9))[outside]).all()
        assert (medium[~outside] >= q * (1.0 - 1e-9)).all()
    least = answers(scale, gap, DEPTHS)[1][outside] / used[outside]
    assert least.min() == pytest.approx(q, rel=1e-9)


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("scale", SCALES)
def test_no_step_beats_the_negative_binomial(scale: float, gap: int) -> None:
    """P(N >= n) of the responses used until the K-th medium, as a value function, no step inside the zone raises."""
    truth = 1.0 / (1.0 + np.exp(-scale))
    q = -np.expm1(-scale * (gap + 1)) * (1.0 - truth)
    inside = (DEPTHS >= LOW) & (LOW + gap > DEPTHS)
    w, w2 = (weight[inside, None] for weight in weights(scale, gap))
    used, thinned = np.maximum(w, w2), np.minimum(w, w2) / np.maximum(w, w2)
    fewer = np.zeros(60)
    fewer[0] = 1.0  # no medium left: N >= n only for n = 0
    for _ in range(5):
        value = np.ones(60)
        for n in range(1, 60):
            value[n] = q * fewer[n - 1] + (1.0 - q) * value[n - 1]
        for medium in (truth * (1.0 - thinned), (1.0 - truth) * (1.0 - thinned)):  # given that the RR was used
            step = (1.0 - used) * fewer[1:] + used * (medium * fewer[:-1] + (1.0 - medium) * value[:-1])
            assert (step <= value[1:] + 1e-12).all()
        fewer = value
