"""Classical private classifiers: diffprivlib's, which release one model and post-process it for every query.

They are seeded so that the figures can be had again. (A release with a known seed protects nobody.)
"""

import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from diffprivlib import models  # type: ignore[import-untyped]
from diffprivlib.utils import PrivacyLeakWarning  # type: ignore[import-untyped]

from tests.experiments.comparison.setting import Setting
from tests.experiments.comparison.task import Bools, Floats, Task

_TREES, _DEPTH = 10, 10
"""Of the forest. The default depth of 5 errs more on the demo's data."""

_TOLERANCE: Final = 1e-3
"""Of the logistic regression's solver. The default of 1e-4 takes longer and errs alike."""


def _bounds(task: Task) -> tuple[Floats, Floats]:
    low, high = zip(*(side.bounds for side in task.sides), strict=True)
    return np.array(low), np.array(high)


def _released(task: Task, make: Callable[[int], Any], scale: Callable[[Floats], Floats]) -> Setting:
    """Return a setting that fits a model on all rows and asks it each distinct query once."""
    rows = scale(task.rows)
    distinct, where = np.unique(task.queries, axis=0, return_inverse=True)

    def answer(seed: int) -> Bools:
        with warnings.catch_warnings():
            warnings.simplefilter("error", PrivacyLeakWarning)
            # diffprivlib 0.6 hands SciPy an option that has no effect any more.
            warnings.filterwarnings("ignore", message="scipy.optimize: The `disp`", category=DeprecationWarning)
            fitted = make(seed).fit(rows, task.labels)
        answers: Bools = fitted.predict(scale(distinct))[where.ravel()]
        return answers

    return Setting(answer)


def _as_is(rows: Floats) -> Floats:
    return rows


def naive_bayes(task: Task, epsilon: float) -> Setting:
    """Gaussian naive Bayes, with the declared bounds."""

    def make(seed: int) -> Any:
        return models.GaussianNB(epsilon=epsilon, bounds=_bounds(task), random_state=seed)

    return _released(task, make, _as_is)


def logistic(task: Task, epsilon: float) -> Setting:
    """Logistic regression, on features scaled from the declared bounds to [-1, 1]."""
    low, high = _bounds(task)

    def make(seed: int) -> Any:
        return models.LogisticRegression(
            epsilon=epsilon, data_norm=float(len(low)) ** 0.5, tol=_TOLERANCE, random_state=seed
        )

    return _released(task, make, lambda rows: 2.0 * (rows - low) / (high - low) - 1.0)


def forest(task: Task, epsilon: float) -> Setting:
    """A random forest, with the declared bounds and classes."""

    def make(seed: int) -> Any:
        return models.RandomForestClassifier(
            n_estimators=_TREES,
            max_depth=_DEPTH,
            epsilon=epsilon,
            bounds=_bounds(task),
            classes=np.array([False, True]),
            random_state=seed,
        )

    return _released(task, make, _as_is)
