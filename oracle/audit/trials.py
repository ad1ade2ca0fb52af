"""Predictors that checks are made on: trained on made-up rows, and asked made-up queries."""

import numpy as np
from numpy.typing import NDArray

from oracle.planning.plan import BoxPlan
from oracle.predictors.base import Predictor
from oracle.predictors.kinds import new_trainer

__all__ = ["asked", "rows", "stream", "trained"]

Floats = NDArray[np.float64]


def rows(plan: BoxPlan) -> tuple[Floats, NDArray[np.bool_]]:
    """Return as many rows as a plan declares, in [-0.9, 0.9], and their labels: a box, or a stump."""
    values = np.linspace(-0.9, 0.9, plan.declared)
    return values, np.abs(values) < 0.6 if plan.predictor == "rectangles" else values > 0.0  # noqa: PLR2004 -- a box


def trained(plan: BoxPlan, secret: bytes) -> Predictor:
    """Return a predictor that was trained on `rows`."""
    values, labels = rows(plan)
    trainer = new_trainer(plan, secret)
    trainer.add(values[:, None], labels)
    return trainer.finish()


def stream(plan: BoxPlan, count: int) -> Floats:
    """Return queries all over the place, no two of them equal or each other's mirror image."""
    spread = np.linspace(-0.9, 0.9 + 0.4 / count, count)[np.argsort(np.arange(count) * 0.618033988749895 % 1.0)]
    return np.column_stack([spread] * len(plan.features))


def asked(count: int) -> NDArray[np.bool_]:
    """Return that so many rounds have a query each."""
    return np.ones(count, dtype=np.bool_)
