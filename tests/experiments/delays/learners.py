"""What the oracle is measured against: the best stump, which protects nothing, and a private logistic regression."""

import warnings

import numpy as np
from diffprivlib import models  # type: ignore[import-untyped]
from diffprivlib.utils import PrivacyLeakWarning  # type: ignore[import-untyped]
from numpy.typing import NDArray

from oracle.mechanisms.choice.stumps import cut_losses, least_losses, ranking
from tests.experiments.delays.data import FEATURES, Delays

_TOLERANCE = 1e-3
"""Of the solver; the default of 1e-4 takes longer and errs alike."""


def best_stump(task: Delays) -> tuple[str, float, NDArray[np.bool_]]:
    """Return the feature and the edge that err least on the rows, and that stump's answers to the queries."""
    losses = least_losses(iter(np.ascontiguousarray(task.rows.T)), task.labels)
    column, down = divmod(int(losses.argmin()), 2)
    values = task.rows[:, column]
    order = ranking(values, upward=not down)
    changes = np.append(np.diff(values[order]) != 0, [True])
    cuts = np.append([0], np.flatnonzero(changes) + 1)  # between different values only
    cut = cuts[cut_losses(task.labels[order])[cuts].argmin()]
    nowhere = -np.inf if down else np.inf
    edge = float(values[order][cut - 1]) if cut else nowhere
    answers: NDArray[np.bool_] = task.queries[:, column] <= edge if down else task.queries[:, column] >= edge
    return list(FEATURES)[column], edge, answers


def logistic(task: Delays, epsilon: float, seed: int) -> NDArray[np.bool_]:
    """Return the answers of diffprivlib's logistic regression, on features scaled from their ranges to [-1, 1].

    It is seeded so that the figures can be had again. (A release with a known seed protects nobody.)
    """
    low, high = np.array(list(FEATURES.values())).T

    def scaled(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        inside: NDArray[np.float64] = np.clip(2.0 * (rows - low) / (high - low) - 1.0, -1.0, 1.0)
        return inside

    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        # diffprivlib 0.6 hands SciPy an option that has no effect any more.
        warnings.filterwarnings("ignore", message="scipy.optimize: The `disp`", category=DeprecationWarning)
        model = models.LogisticRegression(
            epsilon=epsilon, data_norm=float(len(low)) ** 0.5, tol=_TOLERANCE, random_state=seed
        ).fit(scaled(task.rows), task.labels)
    answers: NDArray[np.bool_] = model.predict(scaled(task.queries)).astype(np.bool_)
    return answers
