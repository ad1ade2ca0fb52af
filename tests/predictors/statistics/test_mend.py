"""A hypothesis whose marginal is off what was released: one call brings it within the slack, and as near as can be."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.predictors.statistics.hypothesis import Hypothesis

WHOLE = 2.0**52
SEEDS = st.integers(0, 2**32 - 1)
SHAPES = st.lists(st.integers(1, 7), min_size=1, max_size=4)
SKEWS = st.floats(-3.0, 1.0).map(lambda power: 10.0**power)
SLACKS = st.one_of(st.just(0.0), st.floats(-12.0, 1.0).map(lambda power: 10.0**power))
QUICK = settings(derandomize=True, max_examples=300, deadline=None)


def drawn(generator: np.random.Generator, shape: tuple[int, ...], skew: float) -> np.ndarray:
    """Return shares; nearly all of them in one cell where `skew` is small, and some of them 0 then."""
    gammas = generator.standard_gamma(np.full(shape, skew)) + 1e-300
    shares: np.ndarray = gammas / gammas.sum()
    return shares


def made(generator: np.random.Generator, shape: tuple[int, ...], skew: float) -> Hypothesis:
    """Return a hypothesis, with weights of 1 where there are no shares."""
    return Hypothesis(np.maximum(np.ceil(drawn(generator, shape, skew) * WHOLE), 1.0))


def marginal(hypothesis: Hypothesis, about: tuple[int, ...]) -> np.ndarray:
    """Return the shares of a marginal, by numpy's own sums."""
    others = tuple(axis for axis in range(hypothesis.weights.ndim) if axis not in about)
    shares: np.ndarray = hypothesis.weights.sum(axis=others) / hypothesis.weights.sum()
    return shares


def rounding(hypothesis: Hypothesis) -> float:
    """Return what the docstring allows for."""
    return (4.0 * hypothesis.weights.size + 16.0) / WHOLE


@QUICK
@given(SEEDS, SHAPES, SKEWS, SKEWS, SLACKS)
def test_one_call_brings_every_share_within_the_slack(
    seed: int, sizes: list[int], start: float, target: float, slack: float
) -> None:
    """Whatever had weight before, and whatever is wanted; weights stay whole, and their sum is what it was."""
    generator = np.random.default_rng(seed)
    hypothesis = made(generator, tuple(sizes), start)
    chosen = generator.choice(len(sizes), generator.integers(1, len(sizes) + 1), replace=False)
    about = tuple(sorted(chosen.tolist()))
    wanted = drawn(generator, tuple(sizes[axis] for axis in about), target)
    hypothesis.mend(about, wanted, slack)
    weights = hypothesis.weights.copy()
    assert np.abs(marginal(hypothesis, about) - wanted).max() <= slack + rounding(hypothesis)
    assert weights.min() >= 1.0
    assert (weights == np.floor(weights)).all()
    assert hypothesis.total == weights.sum()
    assert abs(hypothesis.total / WHOLE - 1.0) <= rounding(hypothesis)
    hypothesis.mend(about, wanted, slack)
    assert (hypothesis.weights == weights).all()  # what is within stays as it is


@QUICK
@given(SEEDS, st.integers(2, 40), SKEWS, SKEWS, st.floats(-5.0, -0.5).map(lambda power: 10.0**power))
def test_what_is_within_was_multiplied_by_one_number(
    seed: int, cells: int, start: float, target: float, slack: float
) -> None:
    """A share at its lower end would be less by it, one at its upper end more: the conditions for the least KL."""
    generator = np.random.default_rng(seed)
    hypothesis = made(generator, (cells, 3), start)
    wanted, before = drawn(generator, (cells,), target), hypothesis.weights.copy()
    hypothesis.mend((0,), wanted, slack)
    after, sums, near = marginal(hypothesis, (0,)), before.sum(axis=1) / before.sum(), 2.0 * rounding(hypothesis)
    inside = (after > np.maximum(wanted - slack, 0.0) + near) & (after < wanted + slack - near)
    clear = inside & (after > 1e-6) & (sums > 1e-6)  # where rounding is nothing
    if not clear.any():
        return
    factors = after[clear] / sums[clear]
    assert np.ptp(factors) <= 1e-6 * factors.max()
    goal = np.clip(factors[0] * sums, np.maximum(wanted - slack, 0.0), wanted + slack)
    assert goal == pytest.approx(after, rel=1e-6, abs=1e-9)


@QUICK
@given(SEEDS, st.integers(2, 30), SKEWS)
def test_whatever_else_is_within_comes_no_further_away(seed: int, cells: int, start: float) -> None:
    """By KL to any distribution whose marginal is within the slack, the least of which was taken (Pythagoras)."""
    generator = np.random.default_rng(seed)
    hypothesis, wanted = made(generator, (cells, 4), start), drawn(generator, (cells,), 1.0)
    data = wanted[:, None] * generator.dirichlet(np.ones(4), cells)
    before = hypothesis.weights / hypothesis.total
    hypothesis.mend((0,), wanted, 0.01)
    after = hypothesis.weights / hypothesis.total
    moved = math.fsum((after * np.log(after / before)).reshape(-1).tolist())
    gained = math.fsum((data * np.log(after / before)).reshape(-1).tolist())
    assert gained >= moved - 1e-9


def test_what_is_cut_off_does_not_come_back() -> None:
    """One cell far too heavy, all others too light: once in proportion to all it would stay too heavy."""
    wanted = np.full(101, 0.005)
    wanted[0] = 0.5
    hypothesis = Hypothesis.product([np.where(np.arange(101) == 0, 0.9, 0.001)], 0.0)
    hypothesis.mend((0,), wanted, 0.01)
    shares = hypothesis.weights / hypothesis.total
    assert shares[0] == pytest.approx(0.51, abs=1e-12)
    assert shares[1:] == pytest.approx(0.0049, abs=1e-12)


def test_what_nobody_has_keeps_a_weight() -> None:
    """Shares of 0 that have to be met exactly: weights of 1 stay, so that later moves can use them."""
    hypothesis = Hypothesis.uniform((4, 5))
    hypothesis.mend((0,), np.array([1.0, 0.0, 0.0, 0.0]), 0.0)
    assert hypothesis.weights[1:].tolist() == np.ones((3, 5)).tolist()
    assert hypothesis.weights[0].sum() == pytest.approx(WHOLE)
