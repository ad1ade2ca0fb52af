"""What our own `statistics` answer to what others publish: one plan and one key for all questions."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.audit.reconstruction.people import People, Published
from oracle.errors import InputError, PlanError
from oracle.planning.attributes import Attribute
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import StatisticsModel, StatisticsPlan
from oracle.planning.statistics.tight import plan_statistics
from oracle.predictors.kinds import new_trainer

__all__ = ["Answered", "answered", "halved", "least"]

Floats = NDArray[np.float64]
_PlanT = TypeVar("_PlanT", bound=Plan)

_STEPS: Final = 10
_WIDEST: Final = 0.499
"""With half of all rows for an error nothing needs to be asked."""
_BETA: Final = 0.05
_BATCH: Final = 4096
_PAID: Final = 20
"""Answers that the rows pay for; what these taught answers the rest."""


class Answered(NamedTuple):
    """Answers as counts, float64[m], and what the plan promises of their error, in rows."""

    numbers: Floats
    error: float


def least(plan_of: Callable[[float], _PlanT], rows: int) -> _PlanT | None:
    """Return the plan of the least alpha that so many rows are enough for; None where there is none."""
    low, high, plan = 0.0, _WIDEST, _fitting(plan_of, rows, _WIDEST)
    if plan is None:
        return None
    for _ in range(_STEPS):
        alpha = (low + high) / 2.0
        better = _fitting(plan_of, rows, alpha)
        low, high, plan = (alpha, high, plan) if better is None else (low, alpha, better)
    return plan


def _fitting(plan_of: Callable[[float], _PlanT], rows: int, alpha: float) -> _PlanT | None:
    try:
        plan = plan_of(alpha)
    except PlanError:
        return None
    return plan if plan.examples <= rows else None


def halved(epsilon: float, delta: float) -> dict[str, float]:
    """Return the epsilon and delta of a row more or less that make these of exchanging one: it takes two such steps."""
    return {"epsilon": epsilon / 2.0, "delta": delta / (1.0 + math.exp(epsilon / 2.0))}


def answered(
    published: Published, people: People, bits: NDArray[np.bool_], claim: tuple[float, float], key: bytes
) -> Answered:
    """Train on the rows with their bits, and ask for what is published.

    Args:
        published: Marginals, or counts of sets of rows.
        people: What is public.
        bits: bool[n], secret.
        claim: Epsilon and delta, of exchanging a row.
        key: The run's.

    Raises:
        PlanError: There is no plan for so few rows, or so large a table.
    """
    if published.shapes:
        shape = (*map(len, people.values), 2)
        cells = np.column_stack([people.codes[people.group], bits])
    else:
        shape = (2 * len(people.sizes),)  # a person with the bit, and without
        cells = (2 * people.group + bits)[:, None]
    attributes = tuple(_attribute(f"a{place}", count) for place, count in enumerate(shape))
    plan = _planned(*claim, len(bits), attributes, len(published.matrix))
    trainer = new_trainer(plan, key)
    trainer.add(cells.astype(np.float64), np.ones(len(bits), dtype=np.bool_))
    predictor = trainer.finish()
    asked = np.array([plan.layout.row(masks) for masks in _questions(published, plan)])
    values = []
    for start in range(0, len(asked), _BATCH):
        batch = asked[start : start + _BATCH]
        told = predictor.answer(batch, np.ones(len(batch), dtype=np.bool_))
        predictor.settle()
        if told.values is not None:  # as always of statistics
            values.append(told.values)
    return Answered(np.concatenate(values) * len(bits), plan.alpha * len(bits))


def _attribute(name: str, count: int) -> Attribute:
    return Attribute(name=name, categories=tuple(map(str, range(count))))


@lru_cache(maxsize=8)
def _planned(
    epsilon: float, delta: float, rows: int, attributes: tuple[Attribute, ...], questions: int
) -> StatisticsPlan:
    common: dict[str, Any] = {"name": "audited", "beta": _BETA, "examples": rows, "rounds": questions, "paid": _PAID}

    def plan_of(alpha: float) -> StatisticsPlan:
        given = {**common, **halved(epsilon, delta), "alpha": alpha, "attributes": attributes}
        return plan_statistics(StatisticsModel(predictor="statistics", **given), lambda _: None)

    try:
        plan = least(plan_of, rows)
    except InputError as exc:
        raise PlanError(str(exc)) from exc
    if plan is None:
        raise PlanError(f"statistics: no plan for {rows:,} rows at epsilon = {epsilon:g}, delta = {delta:g}")
    return plan


def _questions(published: Published, plan: StatisticsPlan) -> Iterator[Sequence[NDArray[np.bool_]]]:
    """Yield of each question the cells it means of each attribute, of those who have the bit."""
    *known, last = plan.layout.shape
    if not published.shapes:
        for line in published.matrix:
            mask = np.zeros(last, dtype=np.bool_)
            mask[1 : 2 * len(line) : 2] = line != 0.0
            yield [mask]
        return
    secret = np.arange(last) == 1
    every = [np.ones(cells, dtype=np.bool_) for cells in known]
    chosen = combinations(range(len(known)), len(published.shapes[0]))
    for some, shape in zip(chosen, published.shapes, strict=True):
        for cell in np.ndindex(*shape):
            masks = list(every)
            for place, value in zip(some, cell, strict=True):
                masks[place] = np.arange(len(every[place])) == value
            yield [*masks, secret]
