"""Predictors for checks: trained on synthetic rows and asked synthetic queries."""

import numpy as np
from numpy.typing import NDArray

from oracle.planning.plan import BoxPlan, Plan
from oracle.predictors.base import Answers, Predictor
from oracle.predictors.kinds import new_trainer

__all__ = ["ask", "rows", "stream", "trained"]

Floats = NDArray[np.float64]


def rows(plan: Plan) -> tuple[Floats, NDArray[np.bool_]]:
    """Return as many rows as a plan declares, and their labels.

    Of sides that are armed they are in [-0.9, 0.9], labelled by a box or a stump; of other predictors in (0, 1], all
    positive, and the last one is 1.
    """
    if not isinstance(plan, BoxPlan):
        return np.linspace(1.0, 0.05, plan.declared)[::-1], np.ones(plan.declared, dtype=np.bool_)
    values = np.linspace(-0.9, 0.9, plan.declared)
    return values, np.abs(values) < 0.6 if plan.predictor == "rectangles" else values > 0.0  # noqa: PLR2004 -- a box


def trained(plan: Plan, secret: bytes, left_out: int | None = None) -> Predictor:
    """Return a predictor that was trained on `rows`, one of them labelled 0 if it is left out."""
    values, labels = rows(plan)
    if left_out is not None:
        labels[left_out] = False
    trainer = new_trainer(plan, secret)
    trainer.add(values[:, None], labels)
    return trainer.finish()


def stream(plan: Plan, count: int) -> Floats:
    """Return well-spread queries, no two equal or mirror images of each other: float64[count, width]."""
    spread = np.linspace(-0.9, 0.9 + 0.4 / count, count)[np.argsort(np.arange(count) * 0.618033988749895 % 1.0)]
    return np.column_stack([spread] * len(plan.features))


def ask(predictor: Predictor, queries: Floats) -> Answers:
    """Ask each query in a round of its own."""
    return predictor.answer(queries, np.ones(len(queries), dtype=np.bool_))
