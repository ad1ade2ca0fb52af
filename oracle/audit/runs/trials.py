"""Predictors for checks: trained on synthetic rows and asked synthetic queries."""

import numpy as np
from numpy.typing import NDArray

from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.base import Answers, Predictor
from oracle.predictors.distribution.base import AT
from oracle.predictors.kinds import new_trainer

__all__ = ["ask", "rows", "stream", "trained"]

Floats = NDArray[np.float64]

_STEP = 2_654_435_761
"""Odd, so that multiples of it are different modulo a power of 2 (Knuth's multiplicative hashing)."""


def rows(plan: Plan) -> tuple[Floats, NDArray[np.bool_]]:
    """Return as many rows as a plan declares, of a table float64[n, A], else float64[n], and their labels.

    Of sides that are armed they are in [-0.9, 0.9], labelled by a box or a stump; of other predictors in (0, 1], all
    positive, and the last one is 1. Of a table half of them are in the first cell, and the others in all of them; of an
    ensemble the upper half of them is of another class.
    """
    if isinstance(plan, TablePlan):
        numbers = np.arange(plan.declared)
        cells = np.unravel_index(np.where(numbers % 2, numbers % plan.layout.size, 0), plan.layout.shape)
        return np.stack(cells, axis=1).astype(np.float64), np.ones(plan.declared, np.bool_)
    if not isinstance(plan, BoxPlan):
        values = np.linspace(1.0, 0.05, plan.declared)[::-1]
        return values, values > 0.5 if isinstance(plan, EnsemblePlan) else np.ones(plan.declared, dtype=np.bool_)  # noqa: PLR2004
    values = np.linspace(-0.9, 0.9, plan.declared)
    return values, np.abs(values) < 0.6 if plan.predictor == "rectangles" else values > 0.0  # noqa: PLR2004 -- a box


def trained(plan: Plan, secret: bytes, left_out: int | None = None) -> Predictor:
    """Return a predictor that was trained on `rows`, one of them labelled 0 if it is left out."""
    values, labels = rows(plan)
    if left_out is not None:
        labels[left_out] = False
    trainer = new_trainer(plan, secret)
    trainer.add(values.reshape(len(values), -1), labels)
    return trainer.finish()


def stream(plan: Plan, count: int) -> Floats:
    """Return well-spread queries, no two equal or mirror images of each other: float64[count, width].

    Of a table of a few attributes of few cells: different sets of cells of each, and thresholds. Of a
    distribution they ask for shares.
    """
    if isinstance(plan, TablePlan):
        numbers, columns = np.arange(1, count + 1) * _STEP % 2 ** sum(plan.layout.shape), []
        for cells in plan.layout.shape:
            columns.append((numbers % 2**cells).astype(np.float64))
            numbers >>= cells
        return np.column_stack([*columns, np.linspace(0.0, 0.5, count)])[:, : plan.width]
    spread = np.linspace(-0.9, 0.9 + 0.4 / count, count)[np.argsort(np.arange(count) * 0.618033988749895 % 1.0)]
    if isinstance(plan, DistributionPlan):
        return np.column_stack([spread, np.full(count, AT)])
    return np.column_stack([spread] * len(plan.features))


def ask(predictor: Predictor, queries: Floats) -> Answers:
    """Ask each query in a round of its own."""
    return predictor.answer(queries, np.ones(len(queries), dtype=np.bool_))
