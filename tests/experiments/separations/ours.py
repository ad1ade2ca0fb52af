"""Perpetua's own predictors, asked by the attacks.

Of a table a row is a person, and a question a set of people. A distribution takes no such questions: its sets are the
rows up to a value, each within the next, so it can only be asked for a median.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from oracle.audit.attacks.trace import Design
from oracle.audit.reconstruction.own import halved, least
from oracle.planning.attributes import WORD, Attribute
from oracle.planning.distribution.model import DistributionModel, DistributionPlan
from oracle.planning.distribution.tight import plan_distribution
from oracle.planning.features import Feature
from oracle.planning.statistics.model import SparseVectorModel, SparseVectorPlan, StatisticsModel, StatisticsPlan
from oracle.planning.statistics.tight import plan_sparse_vector, plan_statistics
from oracle.predictors.base import Predictor
from oracle.predictors.kinds import new_trainer

Floats = NDArray[np.float64]
Kind = Literal["statistics", "sparse-vector"]
TablePlan = StatisticsPlan | SparseVectorPlan

DELTA: Final = 1e-6
KINDS: Final[tuple[Kind, ...]] = ("statistics", "sparse-vector")
_PAID: Final = 20
_BATCH: Final = 4096


@lru_cache(maxsize=64)
def planned(kind: Kind, epsilon: float, rows: int, attributes: tuple[Attribute, ...]) -> TablePlan | None:
    """Return the plan of the least alpha that the planner makes for so many rows; None where it makes none.

    Its own epsilon is half of this one, which is that of exchanging a row: one that is blanked, and one that is there.
    """

    def plan_of(alpha: float) -> TablePlan:
        common = {**_declared(epsilon, rows, alpha), "attributes": attributes, "paid": _PAID}
        if kind == "statistics":
            return plan_statistics(StatisticsModel(predictor=kind, **common), lambda _: None)
        return plan_sparse_vector(SparseVectorModel(predictor=kind, **common), lambda _: None)

    return least(plan_of, rows)


@lru_cache(maxsize=64)
def ordered(epsilon: float, rows: int) -> DistributionPlan | None:
    """Return the plan of a distribution of numbers, as `planned` does of a table."""

    def plan_of(alpha: float) -> DistributionPlan:
        common = _declared(epsilon, rows, alpha)
        model = DistributionModel(predictor="distribution", features=(Feature(name="number"),), **common)
        return plan_distribution(model, lambda _: None)

    return least(plan_of, rows)


def _declared(epsilon: float, rows: int, alpha: float) -> dict[str, Any]:
    return {
        "name": "attacked",
        **halved(epsilon, DELTA),
        "alpha": alpha,
        "beta": 0.05,
        "examples": rows,
        "rounds": 100_000,
    }


def trained(plan: TablePlan | DistributionPlan, cells: NDArray[np.int64], key: str) -> Predictor:
    """Train on int64[n], each row's cell of the only attribute, or its number, under a key of its own."""
    trainer = new_trainer(plan, hashlib.sha256(key.encode()).digest())
    trainer.add(cells[:, None].astype(np.float64), np.ones(len(cells), dtype=np.bool_))
    return trainer.finish()


@dataclass(frozen=True)
class Shares:
    """What a predictor answered.

    Attributes:
        values: float64[k]; of a sparse vector NaN where it said "below".
        verified: bool[k]; of a sparse vector whether it answered at all.
        paid: Answers that the rows paid for.
    """

    values: Floats
    verified: NDArray[np.bool_]
    paid: int


def ask(predictor: Predictor, rows: Floats) -> Shares:
    """Ask questions, batch by batch."""
    values, verified, paid = [], [], 0
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        answers = predictor.answer(batch, np.ones(len(batch), dtype=np.bool_))
        predictor.settle()
        assert answers.values is not None
        assert answers.verified is not None
        assert answers.paid is not None
        values.append(answers.values)
        verified.append(answers.verified)
        paid = int(answers.paid[-1])
    return Shares(np.concatenate(values), np.concatenate(verified), paid)


def _rows(plan: TablePlan, masks: NDArray[np.bool_]) -> Floats:
    """Return questions' rows: float64[k, words] of bool[k, cells] of the only attribute."""
    words = plan.layout.words[0]
    padded = np.zeros((len(masks), words * WORD))
    padded[:, : masks.shape[1]] = masks
    packed: Floats = padded.reshape(len(masks), words, WORD) @ np.ldexp(1.0, np.arange(WORD))
    return packed


def people(count: int) -> tuple[Attribute, ...]:
    """Return the attribute that says who a row is."""
    return (Attribute(name="person", categories=tuple(map(str, range(count)))),)


def shares(kind: Kind, epsilon: float, design: Design, key: str) -> Floats | None:
    """Ask what a tracer asks of pairs: the share of the rows among those with a 1; None without a plan.

    A sparse vector is asked whether the share is above that among all candidates, and "below" counts as this:
    float64[k], NaN once it answers no more.
    """
    coins, each, questions = design.bits.shape
    plan = planned(kind, epsilon, coins, people(coins * each))
    if plan is None:
        return None
    predictor = trained(plan, np.flatnonzero(design.present), key)
    asked = design.bits.reshape(coins * each, questions).T == 1
    rows, means = _rows(plan, asked), asked.mean(axis=1)
    if kind == "statistics":
        return ask(predictor, rows).values
    told = ask(predictor, np.column_stack([rows, means]))
    return np.where(told.verified, np.where(np.isnan(told.values), means, told.values), np.nan)


def prefixes(plan: TablePlan, value: int) -> Floats:
    """Return the question for the first cells of the only attribute: float64[1, width]."""
    return _rows(plan, np.arange(plan.layout.shape[0])[None, :] < value)


def middle(predictor: Predictor) -> float:
    """Ask a distribution for the median."""
    told = predictor.answer(np.array([[0.0, 0.5]]), np.ones(1, dtype=np.bool_))
    predictor.settle()
    assert told.found is not None
    return float(told.found[0, 0])


def copies(kind: Kind, epsilon: float, bits: NDArray[np.bool_], rounds: int, key: str) -> Floats | None:
    """Ask for everybody's bit, again and again in other words: float64[rounds, n], or None without a plan.

    Each person has two categories, one for each bit. There are some that nobody has, and each round comes with other
    ones of these; so no question comes twice.
    """
    count, spare = len(bits), rounds.bit_length()
    plan = planned(kind, epsilon, count, people(2 * count + spare))
    if plan is None:
        return None
    predictor = trained(plan, 2 * np.arange(count) + bits, key)
    return np.array([_copy(plan, predictor, count, number) for number in range(rounds)])


def _copy(plan: TablePlan, predictor: Predictor, count: int, number: int) -> Floats:
    masks = np.zeros((count, plan.layout.shape[0]), dtype=np.bool_)
    masks[np.arange(count), 2 * np.arange(count) + 1] = True
    masks[:, 2 * count :] = number >> np.arange(plan.layout.shape[0] - 2 * count) & 1
    half, rows = 0.5 / count, _rows(plan, masks)
    if plan.predictor == "statistics":
        return (ask(predictor, rows).values > half).astype(np.float64)
    told = ask(predictor, np.column_stack([rows, np.full(count, half)]))
    return np.where(told.verified, (~np.isnan(told.values)).astype(np.float64), 0.5)
