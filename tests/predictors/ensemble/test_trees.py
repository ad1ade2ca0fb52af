"""Trees that are evaluated together vote as scikit-learn's own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-untyped] # it has no types
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier  # type: ignore[import-untyped] # as above

from oracle.predictors.ensemble.trees import Forest, is_small_tree

_LARGE = 3e38


def _counted(trees, queries: np.ndarray, classes: int) -> np.ndarray:
    votes = np.zeros((len(queries), classes), dtype=np.int64)
    for tree in trees:
        with np.errstate(invalid="ignore"):  # it sums huge ones to see whether any is not finite
            votes[np.arange(len(queries)), tree.predict(queries)] += 1
    return votes


def _queries(trees, random: np.random.Generator, width: int) -> np.ndarray:
    """Return queries around the trees' own thresholds, on both sides of what float32 and float64 tell apart."""
    cuts = np.concatenate([tree.tree_.threshold[tree.tree_.feature >= 0] for tree in trees] + [[0.0]])
    near = cuts.astype(np.float32)
    steps = [np.nextafter(near, np.float32(side)).astype(np.float64) for side in (-np.inf, np.inf)]
    halves = [(near + step) / 2.0 for step in steps]
    values = np.concatenate([cuts, near, np.nextafter(cuts, np.inf), *steps, *halves, [-_LARGE, _LARGE, -0.0]])
    return random.choice(values, size=(500, width))


@st.composite
def _trees(draw):
    """Return trees on few rows, with leaves that tie and classes that some lack, and how many classes there are."""
    random, classes = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.integers(2, 32))
    kind = draw(st.sampled_from([DecisionTreeClassifier, ExtraTreeClassifier]))
    depth, weight = draw(st.sampled_from([1, 2, 3, None])), draw(st.sampled_from([None, "balanced"]))
    whole, scale = draw(st.booleans()), draw(st.sampled_from([1.0, 1e-38, 1e-30, 1e-7, 1e9, 1e37]))
    few = draw(st.booleans())
    trees = []
    for number in range(draw(st.integers(1, 8))):
        rows = random.normal(size=(int(random.integers(2, 40)), 3))
        labels = (
            random.integers(0, 2, size=len(rows)) * (classes - 1) if few else random.integers(0, classes, len(rows))
        )
        tree = kind(max_depth=depth, class_weight=weight, random_state=number)
        trees.append(tree.fit((np.round(rows) if whole else rows) * scale, labels))
    return trees, classes, random


@given(_trees())
def test_votes_are_scikit_learn_s(drawn):
    """Of any trees and queries, exactly, at thresholds too; and however queries are dealt to batches."""
    trees, classes, random = drawn
    assert all(map(is_small_tree, trees))
    queries, forest = _queries(trees, random, 3), Forest(trees, classes)
    votes = forest.votes(queries)
    assert votes.tolist() == _counted(trees, queries, classes).tolist()
    cut = int(random.integers(1, 499))
    assert np.concatenate((forest.votes(queries[:cut]), forest.votes(queries[cut:]))).tolist() == votes.tolist()


def test_many_trees_in_many_blocks():
    """More trees than a byte counts or are evaluated together, more queries than a block holds."""
    random = np.random.default_rng(1)
    rows, trees = random.normal(size=(30, 5)), []
    for number in range(700):
        labels = (rows[:, number % 5] + random.normal(size=30) > 0.0).astype(np.int64)
        trees.append(DecisionTreeClassifier(random_state=number).fit(rows, labels))
    assert sum(tree.tree_.node_count for tree in trees) > 8_192
    queries = random.normal(size=(5_000, 5))
    votes = Forest(trees, 2).votes(queries)
    assert votes.max() > 255
    assert votes.tolist() == _counted(trees, queries, 2).tolist()
    assert Forest(trees, 2).votes(queries[:0]).shape == (0, 2)


@pytest.mark.parametrize("count", [1, 3])
def test_trees_that_say_one_thing_of_all(count):
    """No comparison is left of a tree whose leaves all have one class."""
    rows, labels = np.array([[0.0], [0.0], [0.0], [1.0], [1.0]]), np.array([1, 1, 2, 1, 1])
    trees = [DecisionTreeClassifier(random_state=0).fit(rows, labels)] * count
    assert trees[0].tree_.node_count == 3
    assert Forest(trees, 4).votes(np.array([[0.0], [5.0]])).tolist() == [[0, count, 0, 0]] * 2


def test_what_is_no_small_tree():
    """A forest takes no others, no tree that scikit-learn walks more quickly, and no other class of that name."""
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(2_000, 2)), random.integers(0, 2, size=2_000)
    odd = type("DecisionTreeClassifier", (DecisionTreeClassifier,), {})
    assert not is_small_tree(DecisionTreeClassifier().fit(rows, labels))
    assert not is_small_tree(RandomForestClassifier(2).fit(rows[:9], labels[:9]))
    assert not is_small_tree(odd().fit(rows[:9], labels[:9]))
