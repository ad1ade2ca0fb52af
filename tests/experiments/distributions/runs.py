"""What a distribution answers about a real column, and how far from the truth."""

import time
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.planning.distribution.model import DistributionModel, DistributionPlan
from oracle.planning.kinds import KINDS
from oracle.predictors.base import Predictor
from oracle.predictors.distribution.base import AT
from oracle.predictors.kinds import new_trainer
from tests.experiments.distributions.sets import Column

EPSILON: Final = 1.0
QUESTIONS: Final = 1_000_000
"""That the error is promised for."""

_SHARES: Final = 999
_BATCH: Final = 16_384


@dataclass(frozen=True)
class Seen:
    """One run under one key.

    Attributes:
        largest: Largest error of a share, as a share of the rows.
        mean: Mean error of a share.
        quantile: How far the share of rows at or below a quantile, or below it, is on the wrong side of what was asked.
        paid: Paid answers, at last.
        verified: Whether every answer says that it is.
        rate: Answers a second, when all was asked already.
    """

    largest: float
    mean: float
    quantile: float
    paid: int
    verified: bool
    rate: float


def planned(column: Column) -> DistributionPlan:
    """Return the plan of a column, for all its rows."""
    model = DistributionModel(
        name="column",
        predictor="distribution",
        epsilon=EPSILON,
        alpha=column.alpha,
        examples=len(column.values),
        rounds=QUESTIONS,
        features=(column.feature,),
    )
    plan: DistributionPlan = KINDS["distribution"].profiles["tight"].plan(model, lambda _step: None)
    assert plan.declared == len(column.values), "its rows are too few"
    return plan


def run(column: Column, plan: DistributionPlan, questions: int, seed: int) -> Seen:
    """Train on a column, ask for shares at its values and beside them, then for quantiles, then for all once more."""
    rows = column.rows
    trainer = new_trainer(plan, seed.to_bytes(32, "big"))
    trainer.add(rows, np.ones(len(rows), dtype=np.bool_))
    predictor, generator = trainer.finish(), np.random.default_rng(seed)
    at = rows[generator.integers(0, len(rows), questions)]
    if column.feature.kind == "number":  # beside the values, too: between them, and ever closer to them
        at[::2, 0] += generator.choice([-1.0, 1.0], len(at[::2])) * 2.0 ** generator.uniform(-40.0, 4.0, len(at[::2]))
    shares = np.linspace(0.0, 1.0, _SHARES + 2)[1:-1]
    asked = np.concatenate([np.column_stack([at, np.full(questions, AT)]), _quantiles(shares, plan.width)])
    values, found, verified = _answers(predictor, asked)
    keys = np.sort(column.keys(rows))
    truth = np.searchsorted(keys, column.keys(at), side="right") / len(keys)
    off = np.abs(values[:questions] - truth)
    told = column.keys(found[questions:])
    reach, below = (np.searchsorted(keys, told, side=side) / len(keys) for side in ("right", "left"))
    wrong = np.maximum(shares - reach, below - shares).max()
    start = time.perf_counter()
    _answers(predictor, asked)
    rate = len(asked) / (time.perf_counter() - start)
    paid = predictor.facts().paid
    return Seen(float(off.max()), float(off.mean()), float(max(wrong, 0.0)), paid, bool(verified.all()), rate)


def _quantiles(shares: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    return np.column_stack([np.zeros((len(shares), width - 1)), shares])


def _answers(
    predictor: Predictor, asked: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return shares, quantiles and whether they are verified."""
    parts = []
    for start in range(0, len(asked), _BATCH):
        rows = asked[start : start + _BATCH]
        answers = predictor.answer(rows, np.ones(len(rows), dtype=np.bool_))
        predictor.settle()
        parts.append((answers.values, answers.found, answers.verified))
    values, found, verified = (np.concatenate(column) for column in zip(*parts, strict=True))
    return values, found, verified
