"""Noise by which two neighbours' rows give out the same: all that is released is equal, and the rows are not.

One row stands in another cell in the second world, or has another value, so a count may be one more or one less there.
Its noise is drawn from other bits: those for which it is one less or one more. So both worlds have one transcript, for
any questions, as under two keys they could; only one-sided noise that is none cannot be less, and where that shows they
part. Nothing else is touched: counts, comparisons and values are the real ones.
"""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.noise.tables import IntegerLaw, edges, geometric, sample, tail_reach
from oracle.planning.questions import QuestionPlan
from oracle.planning.statistics.model import StatisticsPlan, TablePlan
from oracle.predictors.distribution.ladder import Outcome
from oracle.predictors.distribution.predictor import Distribution

Apart = tuple[tuple[float, ...], tuple[float, ...]]
"""The row's cell, by attribute, in the first world and in the second one; or its value, of a distribution."""

Words = NDArray[np.uint64]
Shifts = NDArray[np.int64]


def couple(patch: pytest.MonkeyPatch, plan: QuestionPlan, apart: Apart) -> None:
    """Let this process be the second world: its noise makes up for the row that stands elsewhere."""
    if isinstance(plan, TablePlan):
        _couple_table(patch, plan, apart)
        return
    real = Distribution.compare

    def compare(self: Distribution, key: float, threshold: int, words: Words) -> Outcome:
        there = int(apart[0][0] <= key) - int(apart[1][0] <= key)
        slope = self._plan.thresholds.slope
        return real(self, key, threshold, _moved("logistic", slope, words, np.array([there])))

    patch.setattr(Distribution, "compare", compare)


def _couple_table(patch: pytest.MonkeyPatch, plan: TablePlan, apart: Apart) -> None:
    more: dict[int, int] = {}
    real_hashes, real_words = Addresses.hashes, Addresses.words

    def hashes(self: Addresses, features: Any, present: Any) -> Words:
        found = real_hashes(self, features, present)
        shifts = _asked_for(plan, features, apart[0]) - _asked_for(plan, features, apart[1])
        more.update(zip(found[present].tolist(), shifts[present].tolist(), strict=True))
        return found

    def words(self: Addresses, purpose: Purpose, rounds: Words, sides: Words, asked: Words | None) -> Words:
        drawn = real_words(self, purpose, rounds, sides, asked)
        if purpose is not Purpose.QUESTION:
            return drawn
        if asked is None:
            assert isinstance(plan, StatisticsPlan)
            shifts = _in_marginal(plan, plan.start[int(sides[0])], apart)
            return _moved("discrete-laplace", float(plan.start_slope), drawn[0], shifts[rounds.astype(int)])[None]  # type: ignore[arg-type]  # it is set
        wanted = np.array([more[question] for question in asked.tolist()], dtype=np.int64)
        noise = plan.paid_noise
        law: IntegerLaw = "laplace" if noise.law == "exponential" else noise.law
        signed = (wanted, -wanted)  # of a count, and of its negative
        return np.stack([_moved(law, noise.slope, drawn[side], signed[side]) for side in range(len(sides))])

    patch.setattr(Addresses, "hashes", hashes)
    patch.setattr(Addresses, "words", words)


def _asked_for(plan: TablePlan, features: NDArray[np.float64], cell: tuple[float, ...]) -> Shifts:
    """Return for each question 1 if it asks for a cell."""
    masks = plan.layout.masks(features[:, : plan.layout.width])
    asked: Shifts = (
        np.stack([mask[:, int(place)] for mask, place in zip(masks, cell, strict=True)]).min(axis=0).astype(int)
    )
    return asked


def _in_marginal(plan: TablePlan, about: tuple[int, ...], apart: Apart) -> Shifts:
    """Return by how much the first world's counts of a marginal exceed the second one's."""
    shifts = np.zeros([plan.layout.shape[attribute] for attribute in about], dtype=np.int64)
    for cell, count in zip(apart, (1, -1), strict=True):
        shifts[tuple(int(cell[attribute]) for attribute in about)] += count
    return shifts.reshape(-1)


def _moved(law: IntegerLaw, slope: float, words: Words, shifts: Shifts) -> Words:
    """Return bits whose noise is so much more: the least there are. Where Laplace's law is asked for, of its size."""
    where = np.flatnonzero(shifts)
    if not len(where):
        return words
    draw = geometric if law == "laplace" else lambda scale, bits: sample(law, scale, bits)
    wanted = draw(slope, words[where]) + shifts[where]
    if law == "laplace":  # one-sided: what is less than none stays, and shows only where a count meets its threshold
        wanted = np.maximum(wanted, 0)
    reach = tail_reach(slope)
    table = edges(law, slope, 1 - reach, reach)
    moved = words.copy()
    moved[where] = np.column_stack([table.high[wanted - table.first], table.low[wanted - table.first]])
    assert np.array_equal(draw(slope, moved[where]), wanted)
    return moved
