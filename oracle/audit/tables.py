"""Attacks on questions about a table: small plans, and adversaries who know all rows but one.

Questions and paid answers are public, so the adversary has the hypothesis at hand and asks where a threshold lies just
beyond the hidden row's count.
"""

import math
from collections.abc import Iterable
from functools import cache
from itertools import combinations, islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import AnswerPaid, MarginalsReleased
from oracle.audit.games import Game
from oracle.errors import PlanError
from oracle.planning.attributes import Attribute
from oracle.planning.statistics.model import (
    SparseVectorModel,
    SparseVectorPlan,
    StatisticsModel,
    StatisticsPlan,
    TablePlan,
)
from oracle.planning.statistics.tight import plan_sparse_vector, plan_statistics
from oracle.predictors.statistics.predictor import Statistics

__all__ = [
    "ask_at_thresholds",
    "complete_plan",
    "few_sparse_plan",
    "marginal_plan",
    "read_marginals",
    "sparse_plan",
    "where_h_is_wrong",
]

Floats = NDArray[np.float64]

_BINS: Final = 12
_ASKED: Final = 24
"""Questions of a game; a paid answer ends it where the plan has no more."""

_BEYOND: Final = 1.0
"""Noise units by which the threshold lies above the count without the hidden row."""

_MODEL: Final[dict[str, Any]] = {
    "name": "audited",
    "delta": 0.01,
    "alpha": 0.3,
    "beta": 0.5,
    "examples": 1,
    "rounds": 100,
    "attributes": (Attribute(name="a", bounds=(0.0, float(_BINS)), bins=_BINS),),
}


def _statistics(epsilon: float, paid: int | None) -> StatisticsPlan:
    model = StatisticsModel(predictor="statistics", epsilon=epsilon, paid=paid, **_MODEL)
    return plan_statistics(model, lambda _: None)


@cache
def marginal_plan(epsilon: float) -> StatisticsPlan:
    """Return a plan that starts from the noisy counts of all cells."""
    return _statistics(epsilon, 2)


@cache
def complete_plan(epsilon: float) -> StatisticsPlan:
    """Return a plan that knows nothing at its start."""
    return _statistics(epsilon, None)


@cache
def sparse_plan(epsilon: float, paid: int = 8) -> SparseVectorPlan:
    """Return a plan of threshold questions: Gumbel noise."""
    model = SparseVectorModel(predictor="sparse-vector", epsilon=epsilon, paid=paid, **_MODEL)
    return plan_sparse_vector(model, lambda _: None)


def few_sparse_plan(epsilon: float) -> SparseVectorPlan:
    """Return a plan of two paid answers: one-sided noise, where epsilon is large."""
    return sparse_plan(epsilon, 2)


def _train(game: Game[Any], known: int) -> None:
    """Put so many known rows and the hidden one into the first cell, and all others into the second."""
    rest = game.plan.declared - 1 - known
    cells = np.concatenate([np.ones(rest), np.zeros(known + 1)])
    game.train(cells, np.ones(game.plan.declared, dtype=np.bool_), challenge=game.plan.declared - 1)


def _cells(plan: TablePlan, more: Iterable[int] = ()) -> Floats:
    """Return the question for the first cell, and for some of those that no row is in."""
    mask = np.zeros(plan.layout.shape[0], dtype=np.bool_)
    mask[[0, *more]] = True
    return plan.layout.row([mask])


def _view(plan: TablePlan, known: int, paid: list[AnswerPaid], free: int) -> Floats:
    """Return what tells the worlds apart: the sufficient statistic of Gumbel noise, and what others need."""
    noise = plan.paid_noise
    over = np.array([event.count - known for event in paid if event.above], dtype=np.float64)
    return np.array(
        [
            float(np.exp(np.minimum(-noise.slope * over, 40.0)).sum()),
            float(over.sum()),
            float(over.min()) if len(over) else math.inf,
            float(free),
        ]
    ).clip(-1e12, 1e12)


def ask_at_thresholds(game: Game[SparseVectorPlan]) -> Floats:
    """Ask for one cell again and again, at a threshold that lies just above its count without the hidden row.

    Half of the empty cells come with it, other ones each time: so no question is known, or follows from another one.
    """
    plan = game.plan
    known = plan.declared // 2
    _train(game, known)
    wanted = known + round(_BEYOND / plan.paid_noise.slope) - plan.shift
    empty = range(2, _BINS)
    rows = [_cells(plan, some) for some in islice(combinations(empty, len(empty) // 2), _ASKED)]
    thresholds = np.full(_ASKED, min(max(wanted / plan.declared, 0.0), 1.0))
    answers = game.predictor.answer(np.column_stack([rows, thresholds]), np.ones(_ASKED, dtype=np.bool_))
    paid = [event for event in answers.events if isinstance(event, AnswerPaid)]
    free = (paid[-1].round + 1 if len(paid) == plan.paid else _ASKED) - len(paid)
    return _view(plan, known, paid, free)


def where_h_is_wrong(game: Game[StatisticsPlan]) -> Floats:
    """Ask for the cell with as many empty ones as bring the hypothesis' threshold nearest to the count."""
    plan = game.plan
    known = plan.declared - 1
    _train(game, known)
    predictor = game.predictor
    if not isinstance(predictor, Statistics):
        raise PlanError("audit: the plan is not one of statistics")
    paid: list[AnswerPaid] = []
    rows = np.array([_cells(plan, range(2, 2 + more)) for more in range(_BINS - 2)])
    asked: set[int] = set()
    for _ in range(len(rows)):
        masks = plan.layout.masks(rows)
        shares = np.array([predictor.hypothesis()[mask].sum() for mask in masks[0]])
        gaps = np.abs(np.ceil(plan.declared * shares) + plan.margin_at(len(paid)) - known)
        gaps[sorted(asked)] = np.inf
        chosen = int(gaps.argmin())
        asked.add(chosen)
        answers = predictor.answer(rows[chosen : chosen + 1], np.ones(1, dtype=np.bool_))
        paid += [event for event in answers.events if isinstance(event, AnswerPaid)]
    return _view(plan, known, paid, len(rows) - len(paid))


def read_marginals(game: Game[StatisticsPlan]) -> Floats:
    """Read the noisy count of the hidden row's cell that the hypothesis starts from."""
    known = game.plan.declared // 2
    _train(game, known)
    answers = game.predictor.answer(_cells(game.plan)[None], np.ones(1, dtype=np.bool_))
    counts = [event.counts for event in answers.events if isinstance(event, MarginalsReleased)]
    return np.array([float(counts[0][0][0] - known)])
