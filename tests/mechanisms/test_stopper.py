"""The Stopper and an armed side against their plain definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.errors import InputError
from oracle.mechanisms.noise.tables import sample
from oracle.mechanisms.thresholds.challenge import ArmedSide
from oracle.mechanisms.thresholds.paid import BetweenThresholds
from oracle.mechanisms.thresholds.stopper import Stopper

THRESHOLDS = BetweenThresholds("logistic", 1.0, 2, 3, 5)
POINTS = np.array([-1.0, 0.0, 0.0, 2.5, np.inf])


def words_for(count: int, seed: int) -> np.ndarray:
    """Return uniform words of a seed."""
    return np.random.default_rng(seed).integers(0, 2**64, size=(count, 2), dtype=np.uint64)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.floats(0.03, 5.0), st.integers(1, 200), st.integers(0, 2**32 - 1))
def test_halts_is_the_definition_on_the_same_words(epsilon: float, threshold: int, seed: int) -> None:
    """Halt exactly if c + nu >= k + rho, with nu and rho drawn from the same words."""
    stopper = Stopper(epsilon, threshold)
    level = stopper.level(words_for(1, seed + 1)[0])
    assert level == threshold + sample("discrete-laplace", epsilon, words_for(1, seed + 1))[0]
    counts = np.random.default_rng(seed).integers(0, 2 * threshold + 50, size=200)
    nu = sample("discrete-laplace", epsilon, words_for(200, seed))
    assert np.array_equal(stopper.halts(counts, level, words_for(200, seed)), counts + nu >= level)


def test_counts_far_from_the_level_are_decided() -> None:
    """A count out of the table's reach halts surely above and never below."""
    halts = Stopper(1.0, 10_000).halts(np.array([0, 20_000]), 10_000, words_for(2, 0))
    assert halts.tolist() == [False, True]


def test_a_threshold_below_one_is_refused() -> None:
    """The message names the bound."""
    with pytest.raises(InputError, match="stopper threshold = 0: must be at least 1"):
        Stopper(1.0, 0)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(
    st.lists(st.booleans(), max_size=40),
    st.integers(0, 8),
    st.integers(-2, 12),
    st.integers(0, 2**32 - 1),
    st.integers(95, 130),
)
def test_first_halt_is_a_plain_loop(medium: list[bool], mediums: int, level: int, seed: int, armed: int) -> None:
    """The Stopper is asked before each query with the mediums before it, from the round after arming on."""
    stopper = Stopper(1.5, 8)
    side = ArmedSide(THRESHOLDS, stopper, POINTS, mediums, level, armed)
    words = words_for(len(medium), seed)
    nu = sample("discrete-laplace", 1.5, words)
    wanted, count = None, mediums
    for row, is_medium in enumerate(medium):
        if 100 + row > armed and count + nu[row] >= level:
            wanted = row
            break
        count += is_medium
    rounds = np.arange(100, 100 + len(medium), dtype=np.uint64)
    assert side.first_halt(np.array(medium, dtype=np.bool_), rounds, words) == wanted


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_depths_are_the_same_for_few_and_for_many(count: int, seed: int) -> None:
    """Whether fewer keys than points are asked or more, each is answered by the points at or before it."""
    thresholds = BetweenThresholds("logistic", 64.0, 1, 5, 5)
    side = ArmedSide(thresholds, Stopper(1.0, 3), POINTS, 0, 3, 0)
    keys = np.random.default_rng(seed).choice([-np.pi, -1.0, -5e-324, 0.0, 5e-324, 2.5, 1e300], size=count)
    words = words_for(count, seed)
    depths = np.array([sum(point <= key for point in POINTS.tolist()) for key in keys.tolist()], dtype=np.intp)
    assert np.array_equal(side.answers(keys, words), thresholds.answers(depths, words))


def test_depth_counts_ties_and_never_reaches_padding() -> None:
    """A query at a point's key reaches past it; no finite query reaches past +inf."""
    side = ArmedSide(BetweenThresholds("logistic", 64.0, 2, 2, 5), Stopper(1.0, 3), POINTS, 0, 3, 0)
    keys = np.array([-2.0, -1.0, -0.5, 0.0, 2.0, 1e300])
    answers = side.answers(keys, np.full((6, 2), 2**63, dtype=np.uint64))  # the median: Z = 0
    assert answers.tolist() == [0, 0, 0, 2, 2, 2]
    assert side.points.searchsorted(keys, side="right").tolist() == [0, 1, 1, 3, 3, 4]
