"""Learners that protect nothing: what the others are measured against."""

import numpy as np
from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-untyped]

from tests.experiments.comparison.setting import Setting
from tests.experiments.comparison.task import Bools, Task

_DEPTH = 4
"""Of the tree: two features need two splits each at most."""


def majority(task: Task, _epsilon: float) -> Setting:
    """Give the label that is more frequent among the rows, always."""
    answers = np.full(len(task.queries), task.labels.mean() >= 0.5)
    return Setting(lambda _seed: answers)


def tightest_box(task: Task, _epsilon: float) -> Setting:
    """Learn the tightest box around the positive rows."""

    def answer(_seed: int) -> Bools:
        positive = task.rows[task.labels]
        edges = [float((np.min if side.lower else np.max)(positive[:, side.column])) for side in task.sides]
        return task.box(edges)

    return Setting(answer)


def tree(task: Task, _epsilon: float) -> Setting:
    """Learn scikit-learn's decision tree."""

    def answer(seed: int) -> Bools:
        fitted = DecisionTreeClassifier(max_depth=_DEPTH, random_state=seed).fit(task.rows, task.labels)
        answers: Bools = fitted.predict(task.queries)
        return answers

    return Setting(answer)
