"""Whether what is released about a table has the noise that its plan says, judged by who knows the rows.

Of whatever the ledger says it is known how likely it was, given all that came before: that an answer was paid for, its
count, the marginals of the start. If noise, thresholds and order are the plan's and every draw is fresh, no bet on it
gains (`bets.py`), whatever was asked.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import AnswerPaid
from oracle.audit.games.questions import log_below
from oracle.audit.laws.bets import Bets
from oracle.audit.randomness import Draws
from oracle.audit.references.simulator import Simulator, Told
from oracle.audit.runs.tables import Run
from oracle.errors import DataError
from oracle.planning.statistics.model import SparseVectorPlan, StatisticsPlan
from oracle.predictors.statistics.public import Asked, PaidAnswer
from oracle.predictors.statistics.start import split_marginals

__all__ = ["judge"]

_BEYOND: Final = 60.0
"""Nats beyond which no noise on thresholds goes here."""

Floats = NDArray[np.float64]


def judge(runs: Sequence[Run], coins: Draws) -> Bets:
    """Bet on all that some runs of one plan released.

    Args:
        runs: The runs.
        coins: Where a law has atoms, a place within one is drawn.

    Raises:
        DataError: The ledger says what by its law cannot be.
    """
    bets = Bets()
    for run in runs:
        told = Told(run.ledger)
        _bet_on_marginals(run, told, bets, coins)
        Simulator(run.plan, told, _Witness(run, told, bets, coins)).answer(run.deliveries)
    return bets


def _bet_on_marginals(run: Run, told: Told, bets: Bets, coins: Draws) -> None:
    """Bet on the noise of every cell of every marginal, and on how far it is from another one's."""
    plan = run.plan
    if not isinstance(plan, StatisticsPlan) or not plan.start:
        return
    found = []
    for about, noisy in zip(plan.start, split_marginals(plan, told.start), strict=True):
        true = np.zeros(noisy.shape, dtype=np.int64)
        np.add.at(true, tuple(run.cells[:, attribute] for attribute in about), 1)
        noise = (noisy - true).reshape(-1)
        low, high = (_below_laplace(float(plan.start_slope), noise + more) for more in (0, 1))  # type: ignore[arg-type]  # it is set where there is a start
        found.append(low + (high - low) * coins.uniform(len(noise)))
        for place in found[-1].tolist():
            bets.on_place(f"marginal {about}", place)
    for one, other in itertools.combinations(found, 2):
        size = min(len(one), len(other))
        for place in ((one[:size] - other[:size]) % 1.0).tolist():
            bets.on_place("between two marginals", place)


def _below_laplace(slope: float, z: NDArray[np.int64]) -> Floats:
    """Return P(Z < z) of discrete Laplace noise."""
    tail = np.exp(-slope * np.where(z >= 1, z, 1 - z)) / (1.0 + math.exp(-slope))
    return np.where(z >= 1, 1.0 - tail, tail)


class _Witness:
    """Is asked instead of the rows: looks up what the ledger says, and bets on it before."""

    def __init__(self, run: Run, told: Told, bets: Bets, coins: Draws) -> None:
        self._run, self._told, self._bets, self._coins = run, told, bets, coins
        self._noise = run.plan.paid_noise
        slope = self._noise.threshold_slope
        self._offsets = np.arange(1 if not isinstance(slope, float) else math.ceil(_BEYOND / slope), dtype=np.int64)
        weights = np.exp(-(slope if isinstance(slope, float) else 0.0) * self._offsets)
        self._weights = weights / weights.sum()
        """How likely the noise on all thresholds is, by what was seen."""
        self._paid = 0

    def __call__(self, asked: Asked) -> PaidAnswer | None:
        """Return the first of some questions that was paid for."""
        bought = self._told(asked)
        there = np.ones((len(asked.rounds), len(self._run.cells)), dtype=np.bool_)
        for mask, cells in zip(asked.masks, self._run.cells.T, strict=True):
            there &= mask[:, cells]
        counts = np.count_nonzero(there, axis=1)
        for number in range(len(counts) if bought is None else bought.number + 1):
            event = self._told.paid.get(int(asked.rounds[number]))
            self._look(int(counts[number]), float(asked.expected[number]), event)
        return bought

    def _look(self, count: int, expected: float, event: AnswerPaid | None) -> None:
        """Bet on one question's outcome: free, or paid and above, or paid and below."""
        plan = self._run.plan
        one_sided = isinstance(plan, SparseVectorPlan)
        margin = plan.shift if isinstance(plan, SparseVectorPlan) else plan.margin_at(self._paid)  # type: ignore[attr-defined]  # of statistics
        least_above = math.ceil(expected) + margin - count + self._offsets
        least_below = margin - math.floor(expected) + count + self._offsets
        not_above = self._below(least_above)
        not_below = np.ones(len(not_above)) if one_sided else self._below(least_below)
        parts = np.stack([not_above * not_below, 1.0 - not_above, not_above * (1.0 - not_below)])
        chances = parts @ self._weights
        self._bets.on_chance("what is paid for", float(chances[1:].sum()), happened=event is not None)
        if event is None:
            self._learn(parts[0])
            return
        self._paid += 1
        noise = event.count - count + self._offsets if event.above else count - event.count + self._offsets
        least = least_above if event.above else least_below
        first = np.where(event.above is True, 1.0, not_above)
        upto = first * (self._below(noise) - self._below(least))
        mass = first * np.where(noise >= least, self._below(noise + 1) - self._below(noise), 0.0)
        if not float(mass @ self._weights) > 0.0:
            raise DataError("a count is released that by its law cannot be")
        place = float((upto + self._coins.one() * mass) @ self._weights) / float(chances[1 if event.above else 2])
        self._bets.on_place("counts above" if event.above else "counts below", place)
        self._learn(mass)

    def _below(self, z: NDArray[np.int64]) -> Floats:
        """Return P(Z < z) of noise on counts."""
        return np.exp(log_below(self._noise.law, self._noise.slope, z))

    def _learn(self, likelihoods: Floats) -> None:
        weights = self._weights * likelihoods
        self._weights = weights / weights.sum()
