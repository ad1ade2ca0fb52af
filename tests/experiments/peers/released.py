"""Learners that release one model, which answers for ever: diffprivlib's, and such as protect nothing.

Those of diffprivlib are seeded so that the figures can be had again. (A release with a known seed protects nobody.)
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from diffprivlib import models  # type: ignore[import-untyped]
from diffprivlib.utils import PrivacyLeakWarning  # type: ignore[import-untyped]
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-untyped]

from tests.experiments.peers.sets import Task

_TREES: Final = 10
_TOLERANCE: Final = 1e-3
"""Of the solver; the default of 1e-4 takes longer and errs alike."""

PRIVATE: Final = ("logistic", "naive-bayes", "forest-5", "forest-10", "tree-5", "tree-10")
"""diffprivlib's learners; of trees with their depth."""

OPEN: Final[dict[str, Any]] = {
    "tree": DecisionTreeClassifier(max_depth=2, random_state=0),
    "logistic": LogisticRegression(max_iter=200),
    "boosting": HistGradientBoostingClassifier(random_state=0),
}
"""Of scikit-learn, and not private: the teachers' learners on all rows, and a strong one."""


def majority(task: Task) -> float:
    """Return the error of the label that is more frequent among the rows, always."""
    return task.error(np.full(len(task.truth), task.labels.mean() >= 0.5, dtype=np.int8))


def open_error(task: Task, name: str) -> float:
    """Return the error of a learner that protects nothing."""
    with _calm():
        fitted = OPEN[name].fit(task.scaled(task.rows), task.labels)
    return task.error(fitted.predict(task.scaled(task.queries)))


def student_error(task: Task, answers: NDArray[np.int8]) -> float:
    """Return the error of a tree like a teacher's, fitted to answers of the first queries, as if these were public."""
    rows = task.scaled(task.queries)
    if len(set(answers.tolist())) < 2:
        return task.error(np.full(len(rows), answers[0]))
    return task.error(OPEN["tree"].fit(rows[: len(answers)], answers).predict(rows))


def private_error(task: Task, name: str, epsilon: float, seed: int) -> float:
    """Return the error of one of `PRIVATE`, told the public ranges and categories."""
    with _calm():
        warnings.simplefilter("error", PrivacyLeakWarning)
        fitted = _private(task, name, epsilon, seed).fit(task.scaled(task.rows), task.labels)
    return task.error(fitted.predict(task.scaled(task.queries)))


@contextmanager
def _calm() -> Iterator[None]:
    with warnings.catch_warnings():
        # These versions hand SciPy an option that has no effect any more.
        warnings.filterwarnings("ignore", message="scipy.optimize: The `disp`", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="lbfgs failed to converge")
        warnings.filterwarnings("ignore", message="Could not find the number of physical cores")  # nor need anybody
        yield


def _private(task: Task, name: str, epsilon: float, seed: int) -> Any:
    kind, _, depth = name.partition("-")
    if kind == "logistic":
        return models.LogisticRegression(epsilon=epsilon, data_norm=task.norm, tol=_TOLERANCE, random_state=seed)
    low, high = task.box
    if kind == "naive":
        return models.GaussianNB(epsilon=epsilon, bounds=(low, high), random_state=seed)
    told = {"epsilon": epsilon, "bounds": (low, high), "classes": [0, 1], "random_state": seed}
    if kind == "tree":
        return models.DecisionTreeClassifier(max_depth=int(depth), **told)
    return models.RandomForestClassifier(n_estimators=_TREES, max_depth=int(depth), **told)
