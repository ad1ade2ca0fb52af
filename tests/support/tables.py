"""Plans about small tables, and answers made by hand, for what stands around their predictors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from oracle.planning.attributes import Attribute
from oracle.planning.model import Limits
from oracle.planning.plan import Phase
from oracle.planning.statistics.model import NoisePlan, SparseVectorPlan, StatisticsPlan
from oracle.predictors.base import NO_LABEL, Answers

__all__ = ["ATTRIBUTES", "share_answers", "sparse_plan", "statistics_plan"]

ATTRIBUTES = (
    Attribute(name="carrier", categories=("AA", "UA", "é")),
    Attribute(name="hour", bounds=(0.0, 24.0), bins=24),
    Attribute(name="day", bounds=(15_706.0, 15_736.0), bins=6, type="date"),  # 2013-01-01 to 2013-01-31
    Attribute(name="dest", categories=(*(f"d{number}" for number in range(105)), "other")),
)


def _common(attributes: Sequence[Attribute], changes: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "s",
        "profile": "tight",
        "features": (),
        "attributes": tuple(attributes),
        "epsilon": 1.0,
        "delta": 1e-6,
        "alpha": 0.02,
        "beta": 0.05,
        "gamma": 1.0,
        "examples": 1000,
        "declared": 1000,
        "questions": 1000,
        "paid": 20,
        "noise": NoisePlan(law="gumbel", slope=0.01, above=5, below=5),
        "limits": Limits(),
        "phases": (Phase(phase=1, rounds=2**49, delta=1e-6),),
        "memory_bytes": 2**20,
    } | changes


def statistics_plan(attributes: Sequence[Attribute] = ATTRIBUTES, **changes: Any) -> StatisticsPlan:  # noqa: ANN401
    """Return a plan of `statistics` whose sizes are made up."""
    return StatisticsPlan(predictor="statistics", gap=0.01, complete=False, **_common(attributes, changes))


def sparse_plan(attributes: Sequence[Attribute] = ATTRIBUTES, **changes: Any) -> SparseVectorPlan:  # noqa: ANN401
    """Return a plan of `sparse-vector` whose sizes are made up."""
    return SparseVectorPlan(predictor="sparse-vector", **_common(attributes, changes))


def share_answers(
    values: Sequence[float],
    paid: Sequence[int] | None = None,
    verified: Sequence[bool] | None = None,
    labels: Sequence[int] | None = None,
    first_round: int = 0,
) -> Answers:
    """Return answers to questions about a table: free and verified where nothing else is said."""
    count = len(values)
    given = [NO_LABEL if np.isnan(value) else 0 for value in values] if labels is None else labels
    return Answers(
        labels=np.array(given, dtype=np.int8),
        first_round=first_round,
        phases=np.ones(count, dtype=np.int64),
        tag=np.zeros(2, dtype=np.uint64),
        events=[],
        values=np.array(values, dtype=np.float64),
        paid=np.array([0] * count if paid is None else paid, dtype=np.int64),
        verified=np.array([True] * count if verified is None else verified, dtype=np.bool_),
    )
