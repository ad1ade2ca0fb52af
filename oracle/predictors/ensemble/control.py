"""Thresholds on votes, steered so that each class is answered as often as it is there."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.noise.tables import sample
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.ensemble.sizes import least_threshold

__all__ = ["Control", "asking_order", "first_odds"]

_MIDDLE: Final = 0.5
"""Where teachers who all agree are told apart best, as a share of them."""


def asking_order(shares: Sequence[float]) -> list[int]:
    """Return the classes that are asked about, the rarest first, and at last the commonest, which is not.

    >>> asking_order([0.5, 0.2, 0.3])
    [1, 2, 0]
    """
    return sorted(range(len(shares)), key=lambda number: (shares[number], -number))


def first_odds(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log odds that thresholds of classes with these shares start at.

    >>> first_odds(np.array([0.5, 0.2])) + 0.0
    array([ 0.        , -0.69314718])
    """
    odds: NDArray[np.float64] = np.log(shares / (1.0 - shares)) / 2.0
    return odds


class Control:
    """Where the thresholds stand, and what was answered in the block that goes on.

    The number of answers of each class in a block is released with noise, so thresholds are public (PRIVACY.md,
    Theorem 29).

    Teachers who know nothing give a class as many votes as its share of the rows, and those who all agree give all or
    none; a threshold starts half-way between that share and the middle, in log odds, and is drawn back there, so that
    it does not wander where it matters little. It stays as far from 0 and T as the life's noise on votes makes it: of
    queries that no teacher votes for, or all do, noise changes the answers of at most alpha times the class's share.

    Args:
        plan: The plan.
        shares: Share of each class, which is public.
        slope: Of the noise on votes.

    Attributes:
        order: int8[C], numbers of the classes: those that are asked about, the rarest first; at last the default.
        thresholds: float64[C - 1], of those that are asked about, as shares of the teachers.
        counts: int64[C], answers of each class in the block.
        rounds: Rounds of the block so far.
    """

    def __init__(self, plan: EnsemblePlan, shares: Sequence[float], slope: float) -> None:
        self._plan = plan.control
        self._alpha = plan.alpha
        self._teachers = plan.teachers
        self.order = np.array(asking_order(shares), dtype=np.int8)
        least = 1.0 / plan.control.block_rounds  # a count may be 0, or less with its noise
        self._shares = np.clip(np.array(shares)[self.order[:-1]], least, _MIDDLE)
        self._firsts = first_odds(self._shares)
        self.bear(slope)
        self.thresholds = self._within(self._firsts)
        self.counts = np.zeros(len(shares), dtype=np.int64)
        self.rounds = 0

    @property
    def left(self) -> int:
        """Rounds that are left of the block."""
        return self._plan.block_rounds - self.rounds

    def bear(self, slope: float) -> None:
        """Keep what comes as far from 0 and T as noise of another slope makes it; thresholds stay where they are."""
        noise = slope * self._teachers
        self._lows = np.array([least_threshold(self._alpha, share, noise) for share in self._shares.tolist()])

    def arm(self, slope: float) -> None:
        """Begin a life whose votes bear noise of a slope."""
        self.bear(slope)
        self.thresholds = np.clip(self.thresholds, self._lows, 1.0 - self._lows)

    def middles(self) -> NDArray[np.int64]:
        """Return the votes beyond which an answer is yes: int64[C - 1]."""
        middles: NDArray[np.int64] = np.floor(self.thresholds * self._teachers).astype(np.int64)
        return middles

    def count(self, labels: NDArray[np.int8], rounds: int) -> None:
        """Count a block's answers.

        Args:
            labels: int8[m], those that were given.
            rounds: Rounds that they were given in; others had no query, or no answer.
        """
        self.counts += np.bincount(labels, minlength=len(self.counts))
        self.rounds += rounds

    def close(self, words: NDArray[np.uint64]) -> None:
        """End the block: each threshold rises by what its class was answered too often, but for noise.

        Args:
            words: uint64[C, 2], uniform bits that serve nothing else.
        """
        noisy = self.counts + sample("discrete-laplace", self._plan.epsilon, words)
        wanted = self._shares * noisy.sum()
        beyond = (noisy[self.order[:-1]] - wanted) / (self._shares * self._plan.block_rounds)
        odds = np.log(self.thresholds / (1.0 - self.thresholds))
        odds += self._plan.gain * np.clip(beyond, -1.0, 1.0) - self._plan.leak * (odds - self._firsts)
        self.thresholds = self._within(odds)
        self.counts[:] = 0
        self.rounds = 0

    def _within(self, odds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return thresholds as shares of the teachers, of their log odds."""
        return np.clip(1.0 / (1.0 + np.exp(-odds)), self._lows, 1.0 - self._lows)
