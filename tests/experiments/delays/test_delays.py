"""The delays' experiment: its data, what it is measured against, and its own way through the commands, on few rows."""

import numpy as np
import pytest

from tests.experiments.delays.data import FEATURES, Delays
from tests.experiments.delays.learners import best_stump, logistic
from tests.experiments.delays.plot import Point, draw
from tests.experiments.delays.served import model_text, serve_killed, write_rows

COLUMN = list(FEATURES).index("dep_delay")


def few(rows: int = 12_000, queries: int = 3_000) -> Delays:
    """Return made-up flights, late if they leave 20 minutes late, of which a tenth makes it all the same."""
    generator = np.random.default_rng(1)
    low, high = np.array(list(FEATURES.values())).T
    features = generator.uniform(low, high, (rows + queries, len(low)))
    late = (features[:, COLUMN] >= 20.0) & (generator.random(rows + queries) < 0.9)
    return Delays(features[:rows], late[:rows], features[rows:], late[rows:])


def test_best_stump_is_found():
    """Its feature and its edge; its error is that of the flights that make it all the same."""
    feature, edge, answers = best_stump(few())
    assert feature == "dep_delay"
    assert edge == pytest.approx(20.0, abs=1.0)
    assert np.mean(answers != few().truth) == pytest.approx(0.1 * 280 / 360, abs=0.02)


def test_best_stump_cuts_between_values_only():
    """With many flights of one delay, no cut goes through them."""
    rows = np.zeros((40, len(FEATURES)))
    rows[10:, COLUMN] = 5.0
    labels = np.arange(40) >= 30
    _, edge, answers = best_stump(Delays(rows, labels, rows, labels))
    assert edge == np.inf
    assert np.mean(answers != labels) == 0.25


def test_logistic_regression_learns_something():
    """At a large epsilon it errs less than always giving the more frequent label."""
    task = few()
    assert np.mean(logistic(task, 8.0, 0) != task.truth) < min(task.truth.mean(), 1.0 - task.truth.mean()) - 0.05


def test_served_through_the_commands_and_killed(tmp_path):
    """Trained, killed, gone on: every query has one answer, and the error is near the best stump's."""
    task = few()
    write_rows(task, tmp_path)
    labels = serve_killed(tmp_path, model_text(8.0, 0.3, len(task.rows)), 800)
    assert len(labels) == len(task.truth)
    best = np.mean(best_stump(task)[2] != task.truth)
    assert best - 0.02 < np.mean(labels != task.truth) < best + 0.3


def test_plot_is_the_same_each_time(tmp_path):
    """The same figures give the same bytes, with every method named."""
    points = [Point("perpetua", 1.0, (0.1, 0.2), "alpha 0.1"), Point("logistic", 1.0, (0.15,))]
    for name in ("one.svg", "two.svg"):
        draw(points, [("best stump, not private", 0.1)], "Late?", tmp_path / name)
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "two.svg").read_text()
    assert all(name in text for name in ("Perpetua, DecisionPERP", "logistic regression", "alpha 0.1", "best stump"))
