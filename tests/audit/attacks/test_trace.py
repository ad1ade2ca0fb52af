"""The tracing attack and the majority attack themselves."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.audit.attacks.coins import judge
from oracle.audit.attacks.majority import agreement_bound, correlations, majority
from oracle.audit.attacks.trace import draw_design, predicted_share, trace
from oracle.audit.randomness import Draws, Randomness


def _design(coins, questions, seed, *, pairs=True):
    return draw_design(Draws(Randomness(bytes([seed] * 16), "test"), 0), coins, questions, pairs=pairs)


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_exact_answers_give_all_coins_away(seed, pairs):
    """Forty questions a coin are enough; the line through the answers changes nothing of it."""
    design = _design(80, 3200, seed, pairs=pairs)
    for answers in (design.exact, 3.0 + 0.2 * design.exact):
        assert ((trace(design.bits, answers) > 0.0) == design.coins).mean() > 0.98
    assert judge(trace(design.bits, design.exact), design.coins, 0.0, 1e-3).lowest > 2.0


@pytest.mark.parametrize("pairs", [True, False])
def test_a_design_has_fair_coins_and_the_rows_that_they_chose(pairs):
    """One of each pair, or about half of the single candidates."""
    design = _design(400, 50, 3, pairs=pairs)
    assert design.rows.shape == ((400 if pairs else int(design.coins.sum())), 50)
    assert 140 < design.coins.sum() < 260
    assert (design.present.sum(axis=1) == (1 if pairs else design.coins)).all()
    assert design.exact == pytest.approx(design.rows.mean(axis=0))


@pytest.mark.parametrize("deviation", [0.05, 0.2, 1.0])
def test_normal_noise_gives_away_what_theory_says(deviation):
    """Over six designs, within four standard deviations."""
    random, right, predicted = np.random.default_rng(8), [], []
    for seed in range(20, 26):
        design = _design(200, 2000, seed)
        answers = design.exact + random.normal(0.0, deviation, 2000)
        right.append(((trace(design.bits, answers) > 0.0) == design.coins).mean())
        predicted.append(predicted_share(design.bits, answers, 200))
    share = float(np.mean(predicted))
    assert abs(np.mean(right) - share) < 4.0 * math.sqrt(share * (1.0 - share) / 1200) + 0.005


def test_questions_without_an_answer_count_for_nothing():
    """The others give the score that they give alone; without any there is none."""
    design = _design(50, 400, 9)
    answers = np.where(np.arange(400) < 300, design.exact, np.nan)
    means = design.bits.mean(axis=(0, 1))
    line = np.column_stack([means, np.ones(400)])[:300]
    left = design.exact[:300] - line @ np.linalg.lstsq(line, design.exact[:300], rcond=None)[0]
    alone = (design.bits[:, 1, :300].astype(float) - design.bits[:, 0, :300]) @ left
    assert trace(design.bits, answers) == pytest.approx(alone)
    nothing = np.full(400, np.nan)
    assert (trace(design.bits, nothing) == 0.0).all()
    assert predicted_share(design.bits, nothing, 50) == 0.5


@settings(max_examples=60)
@given(st.integers(1, 9), st.integers(0, 2**32 - 1), st.floats(0.2, 3.0))
def test_the_majority_is_never_below_its_bound(count, seed, noise):
    """Whatever the answers are: responses, numbers, all alike (Proposition 5)."""
    random = np.random.default_rng(seed)
    bits = random.random(200) < 0.5
    answers = bits + noise * random.normal(size=(count, 200)) * random.random(200)
    if seed % 3 == 0:
        answers = (answers > 0.5).astype(float)
    if seed % 5 == 0:
        answers[:] = answers[0]
    bound = agreement_bound(correlations(answers, bits), count)
    assert ((majority(answers) > 0.0) == bits).mean() >= bound - 1e-9
    assert bound <= 1.0 + 1e-9


def test_the_bound_is_reached_where_it_can_be():
    """Of one answer that is right in all places it is 1, and 0 of one that goes the wrong way."""
    bits = np.array([True, False, True, True])
    assert agreement_bound(correlations(bits[None].astype(float), bits), 1) == pytest.approx(1.0)
    assert agreement_bound(correlations((~bits)[None].astype(float), bits), 1) == 0.0
