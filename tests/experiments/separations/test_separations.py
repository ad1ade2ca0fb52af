"""A cut of `python -m tests.experiments.separations`: the separations at small size, and what they rest on."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.experiments.separations import report
from tests.experiments.separations.copying import Own, copied, medians, vectors
from tests.experiments.separations.median import Search, hard_rows, median, median_fails, packing_epsilon, rows_needed
from tests.experiments.separations.plot import draw_medians, draw_prefix, draw_vectors
from tests.experiments.separations.prefix import (
    Asked,
    blr,
    blr_rows,
    hard_questions,
    longest_prefix,
    prefix_shares,
    questions_allowed,
    tell_once,
    trace_sums,
)
from tests.experiments.separations.tracing import games, offline, online, stops, toys
from tests.experiments.separations.vectors import (
    Correlated,
    answers_needed,
    attack,
    is_right,
    respond,
    response_epsilon,
)

_TEXTS = st.text("01", max_size=8)


@given(st.lists(_TEXTS, min_size=1, max_size=12), st.lists(st.lists(_TEXTS, min_size=1, max_size=4), min_size=1))
def test_rows_may_be_replaced_by_their_longest_prefixes(rows, questions):
    """No answer changes (Proposition 4, a)."""
    known = {text for one in questions for text in one} | {""}
    short = [longest_prefix(known, text) for text in rows]
    assert set(short) <= known
    assert (prefix_shares(short, questions) == prefix_shares(rows, questions)).all()


def test_the_hard_questions_ask_for_columns_and_tell_of_those_before():
    """Each answer is the share of 1s; a question holds the rows' columns before its own, and not its own."""
    signs = np.where(np.random.default_rng(3).random((6, 9)) < 0.5, 1, -1).astype(np.int8)
    rows, questions = hard_questions(signs)
    assert prefix_shares(rows, questions) == pytest.approx((signs.mean(axis=0) + 1.0) / 2.0)
    for column, one in enumerate(questions):
        assert [text[:-1] for text in one] == [row[: 3 + column] for row in rows]
        assert {text[-1] for text in one} == {"1"}


@pytest.mark.parametrize("people", [1, 2, 3, 4])
def test_the_fingerprinting_lemma_by_enumeration(people):
    """E[f sum (c_i - p)] + 2 E|f - mean| is two thirds at least, and exactly for the mean (Proposition 2)."""
    random = np.random.default_rng(people)
    signs = np.array(list(product((-1.0, 1.0), repeat=people)))
    nodes, weights = np.polynomial.legendre.leggauss(people + 3)  # exact for such polynomials
    chances = np.array([np.prod((1.0 + p * signs) / 2.0, axis=1) for p in nodes])
    for number in range(200):
        f = signs.mean(axis=1) if number == 0 else signs.mean(axis=1) + random.normal(0.0, random.random(), len(signs))
        traced = [
            float((chance * f) @ (signs.sum(axis=1) - people * p)) for p, chance in zip(nodes, chances, strict=True)
        ]
        lost = chances @ np.abs(f - signs.mean(axis=1))
        both = float(weights @ (np.array(traced) + 2.0 * lost)) / 2.0
        assert both >= 2.0 / 3.0 - 1e-12
        assert number or both == pytest.approx(2.0 / 3.0)


def test_what_is_allowed_falls_with_the_error_and_grows_with_epsilon():
    """Proposition 3 at the paper's figures: 3.47 n^2 at an error of 0.03."""
    asked = Asked(10_000, 1, 1.0)
    assert questions_allowed(asked, 0.03) / asked.rows**2 == pytest.approx(3.47, abs=0.01)
    assert questions_allowed(asked, 0.0) < questions_allowed(asked, 0.03) < questions_allowed(asked, 0.3)
    assert questions_allowed(asked, 0.0) < questions_allowed(Asked(10_000, 1, 2.0), 0.0)
    assert math.isinf(questions_allowed(asked, 0.4))


@pytest.mark.parametrize("seed", [501, 502])
def test_online_answers_of_small_error_give_the_rows_away_and_private_ones_do_not(seed):
    """As theory says, and only where there are more questions than a private answerer may have."""
    asked = Asked(60, 30_000, 1.0)
    found, sums = online(asked, seed)
    by_name = {one.name: one for one in found}
    assert by_name["exact"].seen == pytest.approx(by_name["exact"].least, abs=0.6)
    assert by_name["exact"].caught > 0.8
    assert by_name["exact"].allowed < by_name["within 0.1"].allowed < asked.questions
    assert by_name["within 0.1"].seen > by_name["within 0.1"].least - 0.6
    assert abs(by_name["Gaussian noise"].seen) < 0.8
    assert by_name["Gaussian noise"].caught < 0.05
    assert by_name["Gaussian noise"].error > 0.8
    assert sums.shape == (2, 60)


@pytest.mark.parametrize(
    ("name", "least", "most"), [("exact", 1.5, 9.0), ("Gaussian noise", 0.0, 1.0), ("offline", 0.0, 1.0)]
)
def test_games_of_both_worlds(name, least, most):
    """Online exact answers lose; private noise and the offline guess do not, though the row's sum is as large there."""
    played = games(name, Asked(30, 9_000, 1.0), 120, 503)
    assert least <= played.proved <= most
    if name == "offline":
        assert min(played.there, played.gone) > 4.0
        assert played.error <= 1.0 / 30 + 1e-9


def test_a_wrong_guess_is_found_and_a_right_one_stands():
    """In far more than 95 of 100 runs, at gaps beyond the window; the large instance is answered offline."""
    random, asked = np.random.default_rng(4), Asked(300, 2_000, 1.0)
    truth = random.random(2_000)
    window = tell_once(truth, truth, asked, random).window
    wrong = truth.copy()
    wrong[77] += window
    assert sum(tell_once(truth, truth, asked, random).passed for _ in range(200)) >= 185
    assert sum(tell_once(wrong, truth, asked, random).passed for _ in range(200)) <= 15
    assert offline(Asked(200, 280_000, 1.0), 1).window < 0.32


def test_batches_of_prefix_questions():
    """Blum, Ligett and Roth keep their promise; multiplicative weights answer what that cannot be run on."""
    found = toys(4_000, 100, (30,), 1.0, 505)
    assert found[0].seen <= found[0].promised
    assert found[1].seen < 0.15
    size, rows = blr_rows(3, 4, 0.8, 1.0, 0.05)
    assert (size, rows) == (4, 65)
    random, asked = np.random.default_rng(7), [["0"], ["10"], ["1"]]
    texts = ["0"] * 49 + ["101"] * 16
    errors = [np.abs(blr(texts, asked, size, 1.0, random) - prefix_shares(texts, asked)).max() for _ in range(60)]
    assert np.mean(np.array(errors) <= 0.8) >= 0.95
    assert np.mean(errors) < 0.25


def test_where_tracing_stops():
    """Gaussian noise follows theory; no answerer passes what its epsilon allows, nor proves more than it."""
    traced = stops(300, 5_000, (4.0, 24.0), bytes([7] * 16))
    assert {one.name for one in traced.guessed} == {"Gaussian noise", "sparse-vector", "statistics"}
    for one in traced.guessed:
        assert one.share <= one.cap + 4.0 * math.sqrt(0.25 / 300)
        assert one.proved <= one.epsilon
        if one.name == "Gaussian noise":
            assert one.share == pytest.approx(one.predicted, abs=4.0 * math.sqrt(0.25 / 300))
    assert ("statistics", 4.0) in traced.refused
    shares = {(one.name, one.epsilon): one.share for one in traced.guessed}
    assert shares["Gaussian noise", 24.0] > 0.75


def test_what_a_response_is_right_for():
    """In whole numbers: of two signs out of eight that are wrong, correlations of one half."""
    secret = np.ones(8, dtype=np.int8)
    answer = np.array([1, 1, 1, 1, 1, 1, -1, -1], dtype=np.int8)
    asked = Correlated(0.5, 0.1)
    assert is_right(answer, secret, [], asked)
    assert not is_right(answer, secret, [answer], asked)
    assert is_right(answer, secret, [np.array([1, 1, 1, -1, -1, -1, 1, -1], dtype=np.int8)], asked)
    kept = (respond(np.ones(40_000, dtype=np.int8), 0.4, np.random.default_rng(5)) > 0).mean()
    assert kept == pytest.approx(0.7, abs=0.012)
    assert response_epsilon(0.4) == pytest.approx(math.log(0.7 / 0.3))
    assert answers_needed(Correlated(0.3, 0.01)) * 0.09 < 3.5


@pytest.mark.parametrize("seed", [511, 512])
def test_vectors_beforehand_and_adaptive(seed):
    """Right for all fixed sets; repeated wrong for itself; drawn anew right, and lost to the majority."""
    found = vectors(120_000, Correlated(0.4, 0.12), (1, 5, 22, 40), seed)
    assert found.beforehand == (60, 60)
    assert (found.repeated, found.fresh) == (1, 40)
    for one in found.steps:
        assert one.chebyshev <= one.bound <= one.share
        assert one.proved <= one.claimed
    assert found.steps[-1].share > 0.99
    assert found.steps[-1].proved > 5.0
    assert found.same == pytest.approx(0.7, abs=0.01)
    again = attack(np.ones(1000, dtype=np.int8), found.asked, 3, np.random.default_rng(seed), fresh=False)
    assert (again.answers[0] == again.answers[2]).all()


def test_where_the_majority_stops():
    """Fresh responses add up; Perpetua's own answers in other words tell no more than one."""
    found = copied(300, (1, 9), (4.0, 32.0), 513)
    assert {one.name for one in found} == {"fresh responses", "sparse-vector", "statistics"}
    for one in found:
        if one.name == "fresh responses":
            assert one.shares[9] > 0.99
            assert one.proved <= one.composed == 9 * one.epsilon
        else:
            assert one.composed == one.epsilon
            assert one.shares[9] <= one.shares[1] + 0.1
            assert one.proved <= one.epsilon


@settings(max_examples=50)
@given(st.integers(2, 500), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_the_search_ends_at_a_median(values, rows, seed):
    """With exact shares, and after at most ceil(log2(T)) of them; also with errors within alpha."""
    random = np.random.default_rng(seed)
    data = np.sort(random.integers(1, values + 1, rows))
    asked = []

    def share(value, error=0.0):
        asked.append(value)
        return np.searchsorted(data, value, side="right") / rows + random.uniform(-error, error)

    assert not median_fails(data, median(share, values), 0.0)
    assert len(asked) <= math.ceil(math.log2(values))
    assert not median_fails(data, median(lambda value: share(value, 0.1), values), 0.1)


@pytest.mark.parametrize("target", [1, 2, 40, 63, 64])
def test_hard_rows_have_one_median(target):
    """The target; and they differ in at most 2 alpha n + 2 rows."""
    search = Search(64)
    rows = hard_rows(search, 41, target)
    assert [value for value in range(1, 65) if not median_fails(rows, value, 0.05)] == [target]
    assert np.count_nonzero(rows == 64) - (41 if target == 64 else 0) <= 0.45 * 41
    assert np.count_nonzero(rows != hard_rows(search, 41, 64)) <= 2 * 0.05 * 41 + 2 or target == 64


def test_medians_by_laplace_noise_lie_between_the_bounds():
    """They fail below the lower one and do above the upper one; without noise few rows prove more than epsilon 1."""
    found = medians(Search(2**20), (140, 2400), 300, Own(Search(256), 1_500, 6, (16.0,)), 521)
    assert found.needed == pytest.approx(148.07, abs=0.01)
    assert found.enough == pytest.approx(2396.6, abs=0.1)
    assert found.told[0].failures > 0.9
    assert found.told[1].failures <= 0.05
    assert found.packed[1] > 1.5
    failures = {one.name: one.failures for one in found.ours}
    assert failures == {"Laplace noise": 0.0, "statistics": 0.0, "distribution": pytest.approx(0.0, abs=0.5)}
    assert found.least == packing_epsilon(Search(256), 1_500, 0, 6)
    assert packing_epsilon(Search(2**20), 60, 300, 300) == 0.0
    assert packing_epsilon(Search(2**20), 2400, 3, 300) < 0.1
    assert rows_needed(Search(2**20), 2.0) < rows_needed(Search(2**20), 1.0)


def test_the_report_and_the_plots_are_of_the_runs(tmp_path):
    """A line for each figure, and the same bytes each time."""
    asked = Asked(20, 2_000, 1.0)
    found, sums = online(asked, 1)
    played = [games(name, asked, 24, 1) for name in ("exact", "offline")]
    text = "\n".join(report.prefix_lines(asked, found, offline(asked, 1), (asked, played), toys(500, 20, (5,), 1.0, 1)))
    assert f"| exact | 0.000 | {found[0].seen:.2f} |" in text
    traced = stops(200, 1_000, (2.0, 24.0), bytes(16))
    assert f"| Gaussian noise | 24 | {100.0 * traced.guessed[-3].share:.1f} |" in "\n".join(report.stop_lines(traced))
    assert "No plan for so few rows: statistics at 2" in "\n".join(report.stop_lines(traced))
    assert "from epsilon 24 on" in "\n".join(report.stop_lines(traced))
    lost, again = vectors(2_000, Correlated(0.4, 0.5), (1, 4), 1), copied(200, (1, 3), (4.0, 24.0), 1)
    assert f"{100.0 * lost.steps[1].share:.2f}" in "\n".join(report.vector_lines(lost, again))
    middle = medians(Search(64), (50, 500), 20, Own(Search(32), 1_500, 1, (16.0,)), 1)
    assert f"| Laplace noise | 64 | 500 | 1 | {100.0 * middle.told[1].failures:.1f} |" in "\n".join(
        report.median_lines(middle)
    )
    for name in ("a", "b"):
        draw_prefix(asked, sums, traced, tmp_path / f"prefix {name}")
        draw_vectors(lost, again, tmp_path / f"vectors {name}")
        draw_medians(middle, tmp_path / f"medians {name}")
    for plot in ("prefix", "vectors", "medians"):
        assert (tmp_path / f"{plot} a").read_bytes() == (tmp_path / f"{plot} b").read_bytes()


def test_sums_of_chunks_are_the_sums_of_all():
    """Columns are taken some at a time."""
    random = np.random.default_rng(9)
    signs = np.where(random.random((3, 120_000)) < 0.5, 1, -1).astype(np.int8)
    means, answers = random.uniform(-1.0, 1.0, 120_000), random.uniform(-1.0, 1.0, 120_000)
    assert trace_sums(signs, means, answers) == pytest.approx((signs - means) @ answers, abs=0.1)
