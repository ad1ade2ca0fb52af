import dataclasses
import functools
import re

import numpy as np
import opendp.prelude as dp
import pytest

from oracle.demo.model import allowed
from tests.experiments.comparison.boxes import (
    BOXES_A_SIDE,
    LEVEL,
    best_box,
    quantile_box,
    quantile_measurements,
    wrong_rows,
)
from tests.experiments.comparison.methods import METHODS, Outcome, compare
from tests.experiments.comparison.plot import draw
from tests.experiments.comparison.report import advice, markdown, notes
from tests.experiments.comparison.task import Task, flight_sides

ROWS, QUERIES = 20_000, 2_000
SEEDS = (0, 1)
SEEDED = ("tree", "forest", "logistic", "naive-bayes")
LARGEST_SVG = 60_000


@functools.cache
def task() -> Task:
    """Return uniform rows and queries under the demo's rule."""
    generator = np.random.default_rng(3)
    features = generator.uniform([0.0, 0.0], [10.0, 40.0], (ROWS + QUERIES, 2))
    labels = allowed(features[:, 0], features[:, 1])
    return Task(flight_sides(), features[:ROWS], labels[:ROWS], features[ROWS:], labels[ROWS:])


@functools.cache
def outcomes() -> list[Outcome]:
    """Return every method's outcome, Perpetua's at epsilon 8 and the others' at 1."""
    methods = [
        method
        if method.epsilons == (None,)
        else dataclasses.replace(method, epsilons=(8.0 if "perpetua" in method.key else 1.0,))
        for method in METHODS
    ]
    return compare(task(), SEEDS, methods=methods)


def of(key: str) -> Outcome:
    """Return a method's outcome."""
    return next(one for one in outcomes() if one.method == key)


def test_every_method_answers_or_says_what_it_wants():
    """Each method errs less than always giving one label, or refuses for want of rows and is without figures."""
    assert {one.method for one in outcomes()} == {method.key for method in METHODS}
    assert [one.method for one in outcomes() if one.refused] == ["perpetua-short"]
    refused = of("perpetua-short")
    assert refused.wanted is not None
    assert refused.wanted > ROWS
    for one in outcomes():
        if one.method != "majority" and not one.refused:
            assert one.mean < 0.8 * of("majority").mean, one.method


def test_boxes_keep_what_they_promise():
    """The boxes whose error is bounded stay below it, and no box beats the tightest one by more than chance."""
    for key in ("box", "best-box", "best-box-few", "perpetua"):
        assert max(of(key).errors) <= 0.1, key
    assert of("box").mean <= 0.002


def test_table_is_well_formed():
    """Every method has one row of as many cells as there are heads; a refusal is a cell with the size it asks for."""
    lines = markdown(outcomes()).splitlines()
    assert len(lines) == 2 + len(METHODS)
    assert len({line.count("|") for line in lines}) == 1
    row = next(line for line in lines if "short phases" in line)
    assert f"| refuses: wants {of('perpetua-short').wanted:,} rows |" in row
    assert not any("refuses" in line for line in lines if line != row)
    assert re.search(r"training rows and queries \| \de1\d queries \(\d+ years", row)


def test_words_hold_the_figures():
    """Paragraph and notes are made of this run's figures."""
    text = advice(task(), outcomes())
    assert f"{of('best-box-few').wanted:,} rows drawn at random" in text
    assert f"{100.0 * of('perpetua').mean:.2f} % wrong answers at 8" in text
    refusing = [dataclasses.replace(one, errors=()) if one.method == "perpetua" else one for one in outcomes()]
    assert f"Perpetua wants {of('perpetua').wanted:,} rows at epsilon 8, and refuses" in advice(task(), refusing)
    assert f"{QUERIES:,} queries" in notes(task(), outcomes(), len(SEEDS))


@pytest.mark.parametrize("key", SEEDED)
def test_seeded_methods_repeat(key: str):
    """A seed gives the same answers again, so far as their error tells."""
    method = next(method for method in METHODS if method.key == key)
    answer = method.at(task(), 1.0).answer
    assert answer is not None
    assert task().error(answer(SEEDS[0])) == of(key).errors[0]


def test_other_seeds_differ():
    """Perpetua and the forest draw other noise for another seed."""
    for key in ("forest", "perpetua"):
        assert of(key).errors[0] != of(key).errors[1]


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_quantiles_split_epsilon(monkeypatch, epsilon: float):
    """OpenDP's own private quantile is made once a side, and its own map gives each side half of epsilon."""
    calls, made = [], dp.m.make_private_quantile

    def record(*space, **arguments):
        calls.append(arguments)
        return made(*space, **arguments)

    monkeypatch.setattr(dp.m, "make_private_quantile", record)
    measurements = quantile_measurements(task(), epsilon)
    losses = [measurement.map(1) for measurement in measurements]
    assert losses == pytest.approx([epsilon / 2.0] * 2)
    assert sum(losses) <= epsilon
    assert {call["alpha"] for call in calls} == {LEVEL, 1.0 - LEVEL}
    assert {max(call["candidates"]) for call in calls} == {10.0, 40.0}
    assert [str(measurement.output_measure) for measurement in measurements] == ["MaxDivergence"] * 2


@pytest.mark.parametrize("method", [best_box, quantile_box])
def test_private_boxes_are_noisy(method):
    """With next to no epsilon the released boxes are anything but right."""
    answer = method(task(), 1e-6).answer
    assert np.mean([task().error(answer(seed)) for seed in range(20)]) > 0.1  # 20 lucky boxes: below one in 1e9


def test_wrong_rows_are_counted():
    """The table of wrong rows is what counting gives, and one row more adds at most 1 to each number."""
    small = task().sample(300, 1)
    small = dataclasses.replace(small, rows=np.round(small.rows))  # some lie on edges of the grid
    table = wrong_rows(small)
    assert table.shape == (BOXES_A_SIDE, BOXES_A_SIDE)
    for place in [(0, 0), (30, 70), (90, 3), (100, 100)]:
        edges = [small.sides[0].grid(BOXES_A_SIDE)[place[0]], small.sides[1].grid(BOXES_A_SIDE)[100 - place[1]]]
        inside = np.all([side.keeps(small.rows, edge) for side, edge in zip(small.sides, edges, strict=True)], axis=0)
        assert table[place] == np.count_nonzero(inside != small.labels)
    less = dataclasses.replace(small, rows=small.rows[1:], labels=small.labels[1:])
    assert set(np.unique(table - wrong_rows(less))) == {0, 1}


def test_plot_is_small_and_the_same_again(tmp_path):
    """The SVG tells its title to screen readers, shows a refusal, stays small and comes out the same twice."""
    shown = [dataclasses.replace(one, errors=()) if one.method == "perpetua" else one for one in outcomes()]
    paths = [tmp_path / "first.svg", tmp_path / "second.svg"]
    for path in paths:
        draw(shown, "A title", path)
    text = paths[0].read_text(encoding="utf-8")
    assert paths[1].read_text(encoding="utf-8") == text
    assert "<title>A title</title>" in text
    assert f"{of('perpetua').wanted:,} rows" in text
    assert len(text) < LARGEST_SVG
