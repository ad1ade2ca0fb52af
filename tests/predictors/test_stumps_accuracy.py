"""DecisionPERP with labels that no stump fits. Its error over phases: `tests.experiments.adversaries`."""

from functools import cache

import numpy as np
import pytest

from oracle.planning.planner import plan_sufficient
from oracle.planning.stumps.model import StumpsModel, StumpsPlan
from oracle.predictors.stumps import StumpsPERP, StumpsTrainer
from tests.predictors.plans import feature
from tests.predictors.suite import Features, Present

EDGE = 0.4
BATCH = 8192


@cache
def plan() -> StumpsPlan:
    """Return a real plan: six features, half of the stream hostile, short phases."""
    model = StumpsModel(
        name="stump",
        predictor="stumps",
        epsilon=8.0,
        alpha=0.2,
        gamma=0.5,
        examples=1,
        first_share=0.5,
        features=tuple(feature(name) for name in "abcdef"),
    )
    made = plan_sufficient(model)
    assert isinstance(made, StumpsPlan)
    return made


def labels_of(features: Features, generator: np.random.Generator, kind: str) -> Present:
    """Label by feature c; three of ten positive ones are labelled 0 ("missed"), or three of ten negative ones 1."""
    right = features[:, 2] >= EDGE
    wrong = generator.random(len(features)) < 0.3
    return right & ~wrong if kind == "missed" else right | wrong


def trained(generator: np.random.Generator, kind: str) -> StumpsPERP:
    """Return a predictor trained on uniform examples."""
    trainer = StumpsTrainer(plan(), bytes(range(32)))
    rows = generator.random((plan().declared, 6))
    trainer.add(rows, labels_of(rows, generator, kind))
    return trainer.finish()


@pytest.mark.parametrize("kind", ["missed", "false"])
def test_wrong_labels_do_not_move_the_edge(kind):
    """The side's outermost point lies where the best stump cuts, however many labels are 1."""
    generator = np.random.default_rng(8)
    outermost = float(trained(generator, kind).export()["points"][0, 0])
    assert abs(outermost) == pytest.approx(EDGE, abs=0.03)


@pytest.mark.parametrize("first", ["label 1", "label 0", "any"])
def test_equal_values_are_not_parted_by_the_order_of_the_rows(first):
    """Of eight in ten rows feature c is the same, with three of ten labelled 1: a file may be sorted by label."""
    generator = np.random.default_rng(3)
    count = plan().declared
    rows = generator.random((count, 6))
    place = generator.random(count)
    rows[:, 2] = np.where(place < 0.1, 0.4 * rows[:, 2], np.where(place < 0.9, 0.5, 0.6 + 0.4 * rows[:, 2]))
    labels = (place >= 0.9) | ((place >= 0.1) & (place < 0.34))
    if first != "any":
        order = np.argsort(labels != (first == "label 1"), kind="stable")
        rows, labels = rows[order], labels[order]
    trainer = StumpsTrainer(plan(), bytes(range(32)))
    trainer.add(rows, labels)
    some = generator.permutation(count)[:BATCH]
    answers = trainer.finish().answer(rows[some], np.ones(len(some), dtype=np.bool_))
    assert ((answers.labels == 1) != labels[some]).mean() <= 0.24 + plan().alpha
