"""The comparison on real tables: its learners, PATE's accounting, and its tables."""

import math

import msgspec
import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import erfc

from tests.experiments.peers import ours, pate, released
from tests.experiments.peers.report import short_table, table
from tests.experiments.peers.run import EPSILONS, Found, read, run
from tests.experiments.peers.sets import SETS, Task, task_of

ROWS, QUERIES = 12_000, 1_500


@pytest.fixture(scope="module")
def made() -> Task:
    """Return a table whose label follows from a number and a category, but for one row in twenty."""
    generator = np.random.default_rng(3)
    size = ROWS + QUERIES
    table = pd.DataFrame(
        {"size": generator.uniform(0.0, 10.0, size), "other": generator.uniform(-1.0, 1.0, size)}
    ).assign(kind=generator.choice(["a", "b", "c"], size))
    label = ((table["size"] > 6.0) | (table["kind"] == "b")) ^ (generator.random(size) < 0.05)
    table = table.assign(label=label)
    return task_of(
        "a rule?",
        table[:ROWS],
        table[ROWS:],
        ranges={"size": (0.0, 10.0), "other": (-1.0, 1.0)},
        sides={"size": "lower"},
    )


def test_scaled_rows_stay_within_what_is_declared(made):
    """Numbers lie in [-1, 1], each category has a column, and no row is longer than the norm, whatever is asked."""
    rows = made.scaled(np.vstack([made.rows, [1e9, -1e9, 3.0]]))
    assert rows.shape == (ROWS + 1, 5)
    low, high = made.box
    assert (rows >= low).all()
    assert (rows <= high).all()
    assert np.linalg.norm(rows, axis=1).max() <= made.norm
    assert rows[:-1, 2:].sum(axis=1).tolist() == [1.0] * ROWS


def test_learners_beat_the_majority(made):
    """Each of diffprivlib's does at a large epsilon, but for its trees at times; so do those that are not private."""
    worst = released.majority(made)
    assert released.open_error(made, "boosting") < 0.1
    for name in ("logistic", "naive-bayes"):
        assert released.private_error(made, name, 8.0, 1) < 0.8 * worst, name
    for name in ("forest-10", "tree-10"):
        assert released.private_error(made, name, 8.0, 1) <= 1.05 * worst, name


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("learner", list(ours.LEARNERS))
def test_an_ensemble_answers_where_rows_are_enough(made, learner):
    """At epsilon 8 it does, and errs little; at 1 it says what it wants."""
    came = ours.ensemble(made, learner, 8.0, 1, votes=True)
    assert came.wrong is not None
    assert came.wrong < 0.7 * released.majority(made)
    assert 0.9 * QUERIES < came.answered <= QUERIES
    assert came.votes is not None
    assert came.votes.shape == (QUERIES, 2)
    refused = ours.ensemble(made, learner, 1.0, 1)
    assert refused.wrong is None
    assert refused.wanted > ROWS


@pytest.mark.slow
def test_boxes_and_stumps_take_what_the_rows_buy(made):
    """At epsilon 8 each has a plan for so many rows, and answers."""
    for method in (ours.box, ours.stump, ours.classical):
        came = method(made, 8.0, 1)
        assert came.wanted <= ROWS
        assert came.wrong is not None
        assert came.wrong < 0.5


@pytest.mark.parametrize(("gap", "deviation"), [(0, 5.0), (3, 5.0), (20, 5.0), (45, 6.0), (200, 20.0)])
def test_the_loss_of_an_answer_is_no_less_than_it_is(gap, deviation):
    """Of neighbours whose two counts each differ by 1, the exact Renyi divergence of the answer is within the bound."""
    votes = np.array([[500 + gap, 500]], dtype=np.int32)
    bound = pate.losses(votes, deviation)[0]
    for shift in (-1, 1):
        p = 0.5 * erfc(-gap / (2.0 * deviation))
        q = 0.5 * erfc(-(gap + 2 * shift) / (2.0 * deviation))
        for order, allowed in zip(pate.ORDERS, bound, strict=True):
            parts = order * np.log([p, 1.0 - p]) + (1.0 - order) * np.log([q, 1.0 - q])
            assert np.logaddexp(*parts) / (order - 1.0) <= allowed + 1e-12, (order, shift)


def test_the_chance_of_the_other_answer_is_that_of_the_noise():
    """Proposition 7: the difference of two normal draws is beyond the gap."""
    gap, deviation = 7.0, 5.0
    density = lambda x: math.exp(-x * x / (4.0 * deviation**2)) / (2.0 * deviation * math.sqrt(math.pi))  # noqa: E731
    assert quad(density, gap, np.inf)[0] == pytest.approx(0.5 * erfc(gap / (2.0 * deviation)))


def test_pate_spends_no_more_than_its_budget():
    """Contested votes end it; more epsilon answers more; what all agree about costs next to nothing."""
    contested = np.tile(np.array([[510, 490]], dtype=np.int32), (5_000, 1))
    few, more = (pate.answer(contested, epsilon, 1e-8, 1) for epsilon in (1.0, 4.0))
    assert 0 < len(few.answers) < len(more.answers) < 5_000
    plain = few.deviation
    order = pate.ORDERS
    total = len(few.answers) * order / plain**2  # Gaussian noise: sums of order/sigma^2
    spare = np.log(1e8) / (order - 1.0) + np.log1p(-1.0 / order) - np.log(order) / (order - 1.0)
    assert (total + spare).min() > 0.5  # and it is about spent
    agreed = np.tile(np.array([[1_000, 0]], dtype=np.int32), (5_000, 1))
    assert len(pate.answer(agreed, 1.0, 1e-8, 1).answers) == 5_000
    assert pate.answer(agreed, 1.0, 1e-8, 1).plainly < 1_000


@pytest.mark.slow
@pytest.mark.long
def test_results_are_kept_and_not_run_again(tmp_path, monkeypatch, made):
    """What was found is read back; a second run runs nothing."""
    monkeypatch.setitem(SETS, "made", lambda: made)
    monkeypatch.setattr(released, "PRIVATE", ("logistic",))
    monkeypatch.setattr("tests.experiments.peers.run.EPSILONS", (8.0,))
    told: list[str] = []
    run("made", 1, tmp_path, told.append)
    found = read("made", tmp_path)
    assert {one.method for one in found} >= {"majority", "logistic", "ensemble tree", "ensemble logistic", "our stump"}
    run("made", 1, tmp_path, pytest.fail)
    assert read("made", tmp_path) == found
    assert "made: logistic, 8" in told
    run("made", 1, tmp_path / "few", pytest.fail, ["no such method"])
    assert not read("made", tmp_path / "few")


def _found(method: str, epsilon: float, wrong: float | None, *, wanted: int = 0, answered: int = 0) -> Found:
    sizes = Found(method=method, epsilon=epsilon, seed=0, rows=100, asked=50, wrong=wrong)
    return msgspec.structs.replace(sizes, wanted=wanted, answered=answered)


def test_tables_show_the_better_of_two_forests_and_what_is_wanted():
    """One cell a table, an error each epsilon; a refusal is a dash, and below stands what would do."""
    found = [_found("majority", 0.0, 0.3)]
    found += [_found("forest-5", epsilon, 0.2) for epsilon in EPSILONS]
    found += [_found("forest-10", epsilon, 0.1 + 0.05 * epsilon) for epsilon in EPSILONS]
    found += [
        _found("ensemble tree", 1.0, None, wanted=1_234),
        _found("ensemble tree", 4.0, 0.125, wanted=56, answered=40),
    ]
    lines = table({"one": found}).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert any("random forest" in line and "| 15.0 / 20.0 / 20.0 |" in line for line in lines)
    assert any("depth-2 trees |" in line and "| – / not run / 12.5 |" in line for line in lines)
    assert any("rows that ensembles of trees want" in line and "| 1,234 / – / 56 |" in line for line in lines)
    assert any("trees of an ensemble answer" in line and "| – / – / 40 |" in line for line in lines)
    assert "| always the more frequent label | 30.0 |" in short_table({"one": found})
    assert "ensemble of depth-2 trees | 12.5 |" in short_table({"one": found})
