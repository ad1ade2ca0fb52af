"""Perpetua's own answers: planned, trained and asked as the daemon does it."""

import hashlib
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.planning.statistics.model import StatisticsModel, StatisticsPlan
from oracle.planning.statistics.tight import plan_statistics
from oracle.predictors.statistics.trainer import StatisticsTrainer
from tests.experiments.statistics.questions import Questions
from tests.experiments.statistics.tables import Table

EPSILON, DELTA, ALPHA, PAID = 1.0, 1e-6, 0.02, 200
_BATCH = 4096


@dataclass(frozen=True)
class Answered:
    """One run.

    Attributes:
        values: float64[k].
        paid: int64[k], paid answers so far.
        verified: bool[k].
        starting: Seconds until the first answer.
        answering: Seconds for all answers.
    """

    values: NDArray[np.float64]
    paid: NDArray[np.int64]
    verified: NDArray[np.bool_]
    starting: float
    answering: float


def planned(table: Table, paid: int = PAID) -> StatisticsPlan:
    """Return the plan for a table, all of whose rows are declared."""
    model = StatisticsModel(
        name="experiment",
        predictor="statistics",
        epsilon=EPSILON,
        delta=DELTA,
        alpha=ALPHA,
        examples=len(table.cells),
        attributes=table.attributes,
        paid=paid,
    )
    return plan_statistics(model, lambda _done: None)


def answered(plan: StatisticsPlan, table: Table, questions: Questions, key: int) -> Answered:
    """Train on the rows and answer the questions, under a key of its own."""
    rows = questions.rows(plan.layout)
    started = time.process_time()
    trainer = StatisticsTrainer(plan, hashlib.sha256(f"statistics {key}".encode()).digest())
    trainer.add(table.cells.astype(np.float64), np.ones(len(table.cells), dtype=np.bool_))
    predictor = trainer.finish()
    begun = time.process_time()
    given = []
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        given.append(predictor.answer(batch, np.ones(len(batch), dtype=np.bool_)))
        predictor.settle()
    ended = time.process_time()
    values, paid, verified = (
        np.concatenate([np.asarray(getattr(one, name)) for one in given]) for name in ("values", "paid", "verified")
    )
    return Answered(values, paid, verified, begun - started, ended - begun)
