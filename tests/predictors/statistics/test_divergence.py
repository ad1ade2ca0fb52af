"""PRIVACY.md, Theorem 24 and Theorem 25: what moves of the hypothesis take off its divergence from the rows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.predictors.statistics.hypothesis import Hypothesis

SHAPE = (4, 3, 5)
ROUNDING = math.prod(SHAPE) * 2.0**-52 + 2.0**-50
SEEDS = st.integers(0, 2**32 - 1)
QUICK = settings(derandomize=True, max_examples=150, deadline=None)


def divergence(data: np.ndarray, hypothesis: Hypothesis) -> float:
    """Return KL(data || hypothesis) in nats, its sum taken exactly but for a rounding of each term."""
    there = data > 0.0
    weights = hypothesis.weights[there] / hypothesis.total
    return math.fsum((data[there] * np.log(data[there] / weights)).tolist())


def table(generator: np.random.Generator, sparse: float) -> np.ndarray:
    """Return the shares of a table's cells, few of them large where `sparse` is small."""
    return generator.dirichlet(np.full(math.prod(SHAPE), sparse)).reshape(SHAPE)


def question(generator: np.random.Generator) -> list[np.ndarray]:
    """Return a random product of sets of cells, neither empty nor everything."""
    while True:
        masks = [generator.random(cells) < 0.6 for cells in SHAPE]
        if all(mask.any() for mask in masks) and not all(mask.all() for mask in masks):
            return masks


@QUICK
@given(SEEDS, st.sampled_from([0.003, 0.1, 3.0]), st.sampled_from([0.003, 0.1, 3.0]), st.floats(0.01, 1.0))
def test_a_move_towards_the_data_takes_off_what_it_moves(seed: int, sparse: float, start: float, part: float) -> None:
    """At least KL(new || old), which is at least twice the square of the step; weights of 1 too lose nothing."""
    generator = np.random.default_rng(seed)
    data = table(generator, sparse)
    weights = np.maximum(np.ceil(table(generator, start) * 2.0**52), 1.0)
    hypothesis, masks = Hypothesis(weights), question(generator)
    before, own = divergence(data, hypothesis), hypothesis.share(masks)
    wanted = float(data[np.ix_(*map(np.flatnonzero, masks))].sum())
    target = own + part * (wanted - own)
    if not 0.0 < target < 1.0:
        return
    moved = hypothesis.move(masks, target)
    assert moved >= 2.0 * (target - own) ** 2 * (1.0 - 1e-9)
    assert divergence(data, hypothesis) <= before - moved + ROUNDING + 1e-13 * before
    assert hypothesis.share(masks) == pytest.approx(target, abs=1e-13)
    assert hypothesis.weights.min() >= 1.0
    assert (hypothesis.weights == np.floor(hypothesis.weights)).all()


def test_weights_of_few_units_never_fall_by_rounding() -> None:
    """Data in one cell that other moves leave with a weight of 1 or 2: to the nearest, each might take half of it."""
    data = np.zeros(SHAPE)
    data[0, 0, 0] = 1.0
    weights = np.full(SHAPE, 2.0**46)
    weights[0, 0, 0] = 3.0
    hypothesis = Hypothesis(weights)
    before = divergence(data, hypothesis)
    within = [np.array([False, True, True, True]), np.ones(3, bool), np.ones(5, bool)]
    for _ in range(50):
        own = hypothesis.share(within)
        hypothesis.move(within, own - 1e-4 * own)  # the data have none within
        after = divergence(data, hypothesis)
        assert after <= before + ROUNDING
        before = after


@QUICK
@given(SEEDS, st.sampled_from([0.01, 1.0]), st.floats(0.01, 0.9))
def test_an_update_of_the_lecture_takes_off_15_32nds(seed: int, sparse: float, gap: float) -> None:
    """With eta = a/2 and a gap of a at least: eta a - eta^2/8 = (15/32) a^2; the wrong way it does not."""
    generator = np.random.default_rng(seed)
    data, masks = table(generator, sparse), question(generator)
    hypothesis = Hypothesis(np.ceil(table(generator, 1.0) * 2.0**52))
    before, own = divergence(data, hypothesis), hypothesis.share(masks)
    wanted = float(data[np.ix_(*map(np.flatnonzero, masks))].sum())
    if abs(own - wanted) < gap:
        return
    shrunk = math.exp(-gap / 2.0)
    within, beyond = (shrunk, 1.0) if wanted < own else (1.0, shrunk)
    other = Hypothesis(hypothesis.weights.copy())
    hypothesis.weigh(masks, within, beyond)
    assert before - divergence(data, hypothesis) >= 15.0 / 32.0 * gap**2 - ROUNDING
    other.weigh(masks, beyond, within)
    assert divergence(data, other) > before
