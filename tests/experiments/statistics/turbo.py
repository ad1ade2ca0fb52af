"""Turbo (Kostopoulou and others, SOSP 2023, arXiv 2306.16163): PMW-Bypass, with its published constants.

A histogram over all cells is uniform at first. A question some of whose cells it has seen too seldom bypasses it: a
Laplace count answers, is paid for, and moves the histogram if the two are further apart than a margin. Any other
question is put to a sparse vector. As long as the histogram errs by less than half of alpha, but for noise, it answers
and nothing is paid; else a Laplace count does, moves the histogram, and the next question begins a new sparse vector.
A question that was paid for is answered in the same way again. With no bypass it is private multiplicative weights.

Its neighbours differ in a row that is replaced, ours in one that is there or blank: a count moves by at most 1 in both,
so the noise is the same, and epsilon is said for its own neighbours.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from tests.experiments.statistics.histogram import Histogram
from tests.experiments.statistics.questions import Questions, counted, shares
from tests.experiments.statistics.renyi import Spent
from tests.experiments.statistics.tables import Table

_BETA: Final = 1e-3
"""Chance that one answer errs by more than alpha."""


def _least_check() -> float:
    """Return the least epsilon n alpha at which a sparse vector and the count behind it keep to alpha, but for beta."""

    def above(half: float) -> float:
        return (0.5 + 0.25 * half) * math.exp(-half) + math.exp(-2.0 * half) - _BETA

    return 2.0 * float(brentq(above, 1.0, 100.0))


@dataclass(frozen=True)
class Constants:
    """Of one form of Turbo.

    Attributes:
        check: Epsilon n alpha of a sparse vector, and of the count behind it.
        count: Epsilon n alpha of a count that bypasses the histogram.
        rates: Steps of the histogram, each from so many moves of a question's cells on: their weights are multiplied
            by exp(rate), or exp(-rate). None for alpha/8.
        least: C0, how often a cell has to be moved before it may be asked of the histogram.
        more: S0, how often beyond the least of a question's cells, once its sparse vector failed.
        margin: tau, of alpha: how far a bypassing count has to be from the histogram to move it.
    """

    check: float
    count: float
    rates: Sequence[tuple[int, float]] | None = ((0, 4.0 / 8.0),)
    least: int = 5
    more: int = 1
    margin: float = 0.01


_ALGORITHM: Final = 4.0 * math.log(1.0 / _BETA), 4.0 * math.log(1.0 / _BETA)
"""Epsilon n alpha of Algorithm 1 and of the released library."""

_CHARGED: Final = _least_check(), math.log(1.0 / _BETA)
"""What the evaluation's code charges: the least, by the tails themselves."""

_SLOWER: Final = ((0, 2.0 / 8.0), (50, 0.5 / 8.0), (100, 0.2 / 8.0))

FORMS: Final = {
    "as released": Constants(*_ALGORITHM),
    "as evaluated on CitiBike": Constants(*_CHARGED),
    "as evaluated on Covid": Constants(*_CHARGED, rates=_SLOWER, least=100, more=5, margin=0.05),
    "without bypass": Constants(*_CHARGED, rates=None, least=0, more=0),
}
"""Where they are from: the released library, the two tables of the paper's evaluation, and PMW as it was compared."""

CHEAPEST: Final = "as evaluated on Covid"
"""What costs the least on both tables."""


@dataclass(frozen=True)
class Served:
    """What became of all questions.

    Attributes:
        values: float64[k], the answers; from the first question on that the budget does not allow, the histogram's.
        within: How many were answered before that.
        spent: On those.
        total: What all would have cost, had there been no end to the budget; None if they were not asked.
    """

    values: NDArray[np.float64]
    within: int
    spent: Spent
    total: Spent | None


def serve(turbo: "Turbo", epsilon: float, delta: float, *, beyond: bool = True) -> Served:
    """Answer all questions one after another.

    Args:
        turbo: Asked nothing yet.
        epsilon: Budget of a row (nats).
        delta: Budget of a row.
        beyond: Go on when the budget is spent, to see what they all cost.
    """
    values, ended = np.empty(len(turbo.questions)), None
    for number in range(len(values)):
        before = turbo.spent
        values[number] = turbo.answer(number)
        if ended is None and turbo.spent != before and turbo.spent.epsilon(delta) > epsilon:
            ended = number, before, turbo.unchecked()
        if ended is not None and not beyond:
            break
        turbo.learn(number)
    if ended is None:
        return Served(values, len(values), turbo.spent, turbo.spent)
    within_, spent, left = ended
    return Served(np.append(values[:within_], left[within_:]), within_, spent, turbo.spent if beyond else None)


class Turbo:
    """The histogram, the sparse vector, and what was paid for."""

    def __init__(self, table: Table, questions: Questions, constants: Constants, alpha: float, seed: int) -> None:
        """Begin.

        Args:
            table: The table.
            questions: What will be asked; each is looked at when it is.
            constants: The form of Turbo.
            alpha: The error to keep to, a share of the rows.
            seed: Of the noise.
        """
        rows = len(table.cells)
        self.questions = questions
        self.spent = Spent(constants.check / (rows * alpha), constants.count / (rows * alpha))
        self._constants, self._alpha, self._rows = constants, alpha, rows
        self._truth = shares(counted(table), questions)
        self._generator = np.random.default_rng(seed)
        self._histogram = Histogram(table.layout.shape, constants.least)
        self._threshold: float | None = None
        self._counted: dict[bytes, float] = {}
        self._news: bool | None = None

    def answer(self, number: int) -> float:
        """Answer a question, and pay for it; the histogram stays as it is until `learn`."""
        key, masks = self._key(number), self._masks(number)
        if key in self._counted:
            return self._counted[key]
        self._news = False
        if self._histogram.is_ready(masks):
            guess = self._histogram.cube.share(masks)
            if self._passes(abs(float(self._truth[number]) - guess)):
                self._news = None
                return guess
            self._news = True
        self._counted[key] = float(self._truth[number]) + self._paid(failed=self._news)
        return self._counted[key]

    def learn(self, number: int) -> None:
        """Move the histogram towards the question's count, if there was one just now."""
        failed, self._news = self._news, None
        if failed is None:
            return
        masks = self._masks(number)
        gap = self._counted[self._key(number)] - self._histogram.cube.share(masks)
        if failed:
            self._histogram.delay(masks, self._constants.more)
        if failed or abs(gap) > self._constants.margin * self._alpha:
            self._histogram.move(masks, math.copysign(self._rate(masks), gap))

    def unchecked(self) -> NDArray[np.float64]:
        """Return what the histogram says of all questions."""
        return shares(self._histogram.cube.marginal, self.questions)

    def _passes(self, error: float) -> bool:
        scale = 1.0 / (self._rows * self.spent.check)
        if self._threshold is None:
            self.spent = replace(self.spent, resets=self.spent.resets + 1)
            self._threshold = 0.5 * self._alpha + self._generator.laplace(0.0, scale)
        if error + self._generator.laplace(0.0, scale) < self._threshold:
            return True
        self._threshold = None
        return False

    def _paid(self, *, failed: bool) -> float:
        """Return the noise of a count."""
        self.spent = self.spent.counted(failed=failed)
        return self._generator.laplace(0.0, 1.0 / (self._rows * (self.spent.check if failed else self.spent.count)))

    def _rate(self, masks: Sequence[NDArray[np.bool_]]) -> float:
        if self._constants.rates is None:
            return self._alpha / 8.0
        moved = self._histogram.least_moved(masks)
        return [rate for since, rate in self._constants.rates if moved >= since][-1]

    def _masks(self, number: int) -> list[NDArray[np.bool_]]:
        return [mask[number] for mask in self.questions.masks]

    def _key(self, number: int) -> bytes:
        return b"".join(mask.tobytes() for mask in self._masks(number))
