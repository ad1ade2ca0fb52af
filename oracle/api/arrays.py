"""Rows and queries as predictors take them."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracle.errors import InputError
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import TablePlan

__all__ = ["BATCH", "as_features"]

BATCH = 16_384
"""Most rows handed to a trainer or a predictor at once; no result depends on it."""


def as_features(plan: Plan, name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return values as float64[n, D], without -0.0.

    Args:
        plan: Has D features.
        name: What to call them in an error.
        values: Numbers, [n, D], finite.

    Raises:
        InputError: The shape is another, or a value is no finite number.
    """
    try:
        features = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as exc:
        raise InputError(name, "...", "must be an array of numbers") from exc
    if features.ndim != 2 or features.shape[1] != plan.width:  # noqa: PLR2004 -- rows and columns
        raise InputError(f"{name}: shape", features.shape, f"must be (n, {plan.width})")
    if not np.isfinite(features).all():
        raise InputError(name, "...", "every value must be a finite number")
    if isinstance(plan, TablePlan):
        _check_questions(plan, name, features)
    return np.ascontiguousarray(features + 0.0)


def _check_questions(plan: TablePlan, name: str, rows: NDArray[np.float64]) -> None:
    """Refuse rows that no question has.

    Raises:
        InputError: One is.
    """
    words = rows[:, : plan.layout.width]
    if not plan.layout.holds(words):
        raise InputError(name, "...", "must be rows of plan.layout.row")
    if not ((rows[:, words.shape[1] :] >= 0.0) & (rows[:, words.shape[1] :] <= 1.0)).all():
        raise InputError(name, "...", "thresholds must be shares of the rows, from 0 to 1")
