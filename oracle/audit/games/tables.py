"""Attacks on questions about a table: small plans, and adversaries who know all rows but one.

Questions and paid answers are public, so the adversary has the hypothesis at hand and asks where a threshold lies just
beyond the hidden row's count. It sends messages and reads the ledger, and the shard is restarted between.
"""

import json
import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations, islice
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import AnswerPaid, LedgerEvent, MarginalsReleased
from oracle.audit.games.game import Game
from oracle.audit.runs.served import Served
from oracle.planning.attributes import Attribute
from oracle.planning.statistics.model import (
    SparseVectorModel,
    SparseVectorPlan,
    StatisticsModel,
    StatisticsPlan,
    TablePlan,
)
from oracle.planning.statistics.tight import plan_sparse_vector, plan_statistics
from oracle.predictors.statistics.trainer import restore_hypothesis

__all__ = [
    "ask_at_thresholds",
    "complete_plan",
    "few_sparse_plan",
    "marginal_plan",
    "read_marginals",
    "several_plan",
    "sparse_plan",
    "where_h_is_wrong",
]

Floats = NDArray[np.float64]

_CATEGORIES: Final = 12
_ASKED: Final = 24
"""Questions of a game; a paid answer ends it where the plan has no more."""

_MODEL: Final[dict[str, Any]] = {
    "name": "audited",
    "delta": 0.01,
    "alpha": 0.3,
    "beta": 0.5,
    "examples": 1,
    "rounds": 100,
    "attributes": (Attribute(name="a", categories=tuple(map(str, range(_CATEGORIES)))),),
}

_SEVERAL: Final = (
    Attribute(name="a", categories=("0", "1")),
    Attribute(name="b", bounds=(0.0, 3.0), bins=3),
    Attribute(name="c", categories=("0", "1", "2")),
)


def _statistics(epsilon: float, paid: int | None, **changes: object) -> StatisticsPlan:
    model = StatisticsModel(predictor="statistics", epsilon=epsilon, paid=paid, **(_MODEL | changes))
    return plan_statistics(model, lambda _: None)


@cache
def marginal_plan(epsilon: float) -> StatisticsPlan:
    """Return a plan that starts from the noisy counts of all cells."""
    return _statistics(epsilon, 2)


@cache
def several_plan(epsilon: float) -> StatisticsPlan:
    """Return a plan that starts from the noisy marginals of each two of three attributes: Gumbel noise."""
    return _statistics(epsilon, 40, attributes=_SEVERAL)


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


def _train(game: Game[Any], known: int) -> Served:
    """Put so many known rows and the hidden one into the first cell, and all others into the second; serve them."""
    rest = game.plan.declared - 1 - known
    cells = np.concatenate([np.ones(rest), np.zeros(known + 1)])
    rows = np.repeat(cells[:, None], len(game.plan.attributes), axis=1)
    game.train(rows, np.ones(game.plan.declared, dtype=np.bool_), challenge=game.plan.declared - 1)
    return Served(game.plan, game.predictor)


def _question(cells: Sequence[int], **more: float) -> bytes:
    """Return the question for some cells of the first attribute."""
    return json.dumps({"where": {"a": list(map(str, cells))}, **more}).encode()


def _events(served: Served, kind: type[Any]) -> list[Any]:
    events = [msgspec.json.decode(line, type=LedgerEvent) for line in served.ledger]
    return [event for event in events if isinstance(event, kind)]


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


def ask_at_thresholds(game: Game[SparseVectorPlan], beyond: float = 1.0) -> Floats:
    """Ask for one cell again and again, at a threshold that lies just above its count without the hidden row.

    Half of the empty cells come with it, other ones each time: so no question is known, or follows from another one.

    Args:
        game: The game.
        beyond: Noise units by which the threshold lies above the count.
    """
    plan = game.plan
    known = plan.declared // 2
    served = _train(game, known)
    wanted = known + round(beyond / plan.paid_noise.slope) - plan.shift
    empty, above = range(2, _CATEGORIES), min(max(wanted / plan.declared, 0.0), 1.0)
    some = islice(combinations(empty, len(empty) // 2), _ASKED)
    questions = [_question([0, *cells], above=above) for cells in some]
    served.send(questions[: _ASKED // 2])
    served.restart()
    served.send(questions[_ASKED // 2 :])
    paid = _events(served, AnswerPaid)
    free = (paid[-1].round + 1 if len(paid) == plan.paid else _ASKED) - len(paid)
    return _view(plan, known, paid, free)


def where_h_is_wrong(game: Game[StatisticsPlan]) -> Floats:
    """Ask for the cell with as many empty ones as bring the hypothesis' threshold nearest to the count."""
    plan = game.plan
    known = plan.declared - 1
    served = _train(game, known)
    questions = [[0, *range(2, 2 + more)] for more in range(_CATEGORIES - 2)]
    asked: set[int] = set()
    for _ in questions:
        served.checkpoint()
        shares = restore_hypothesis(plan, served.kept().arrays)
        paid = len(_events(served, AnswerPaid))
        expected = [math.ceil(plan.declared * shares[cells].sum()) for cells in questions]
        gaps = np.abs(np.array(expected, dtype=np.float64) + plan.margin_at(paid) - known)
        gaps[sorted(asked)] = np.inf
        chosen = int(gaps.argmin())
        asked.add(chosen)
        served.restart()
        served.send([_question(questions[chosen])])
    paid_answers = _events(served, AnswerPaid)
    return _view(plan, known, paid_answers, len(questions) - len(paid_answers))


def read_marginals(game: Game[StatisticsPlan]) -> Floats:
    """Read the noisy counts of the hidden row's cells that the hypothesis starts from, and their sum."""
    known = game.plan.declared // 2
    served = _train(game, known)
    served.send([_question([0])])
    released = _events(served, MarginalsReleased)[0].counts
    counts = [float(part[0] - known) for part in released]
    return np.array([*counts, sum(counts)] if len(counts) > 1 else counts)
