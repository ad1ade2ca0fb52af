"""PRIVACY.md, Lemma 16: a step with discrete Laplace noise is one randomized response at most, and its mediums."""

import numpy as np
import pytest

from oracle.accounting.between_thresholds import log_answer_law

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
    """Always one RR: where it says f, low with probability w, else high with probability w2; the law in both worlds."""
    truth = 1.0 / (1.0 + np.exp(-scale))
    inside = (DEPTHS >= LOW) & (LOW + gap > DEPTHS)
    w, w2 = (weight[inside] for weight in weights(scale, gap))
    assert w * w2 == pytest.approx(np.exp(-scale * (gap + 1)), rel=1e-9)
    for depth, says_here in ((DEPTHS[inside], truth), (DEPTHS[inside] + 1, 1.0 - truth)):
        low, high = says_here * w, (1.0 - says_here) * w2
        assert np.stack([low, 1.0 - low - high, high]) == pytest.approx(answers(scale, gap, depth), abs=1e-12)


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("scale", SCALES)
def test_a_used_response_costs_a_medium_with_probability_q(scale: float, gap: int) -> None:
    """At every depth, in both worlds: outside the zone it is used with probability w or w2, inside always."""
    q = -np.expm1(-scale * (gap + 1)) / (1.0 + np.exp(scale))
    w, w2 = weights(scale, gap)
    outside = (DEPTHS < LOW) | (LOW + gap <= DEPTHS)
    used = np.where(outside, np.maximum(w, w2), 1.0)
    least = [answers(scale, gap, depth)[1] / used for depth in (DEPTHS, DEPTHS + 1)]
    assert min(part.min() for part in least) == pytest.approx(q, rel=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_a_response_used_with_the_larger_weight_only_would_not_do(scale: float) -> None:
    """Midway between thresholds an odd gap apart w is w2: an RR used that rarely is never medium."""
    gap = 5
    middle = LOW + gap // 2 == DEPTHS
    w, w2 = (weight[middle] for weight in weights(scale, gap))
    assert w == pytest.approx(w2)
    medium = answers(scale, gap, DEPTHS[middle])[1]
    assert medium == pytest.approx(1.0 - w)  # that is all there is: the rounds in which no RR is used
