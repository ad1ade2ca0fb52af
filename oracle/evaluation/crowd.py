"""Votes that are looked at with more or less noise: how contested they are, and what noise makes of them."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy  # which loads its parts when they are asked for
from numpy.typing import NDArray

from oracle.evaluation.trial import Rows
from oracle.planning.ensemble.sizes import least_threshold
from oracle.predictors.ensemble.control import first_odds

__all__ = ["Crowd", "Votes", "settings_of"]

_NEAR: Final = 20
"""Votes within so small a part of the teachers of a threshold are contested."""

Votes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Crowd:
    """Votes for the classes that are asked about, in order, and their noise.

    Attributes:
        votes: int64[A, n].
        teachers: T.
        slope: Of the noise.
    """

    votes: Votes
    teachers: int
    slope: float

    def yes(self, number: int, middle: int) -> Rows:
        """Return the probability that a class is answered where it is asked about: float64[n]."""
        beyond: Rows = scipy.special.expit(self.slope * (self.votes[number] - middle - 0.5))
        return beyond

    def said(self, middles: Votes, order: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return the first class with votes beyond its threshold, or the default: int8[n]."""
        yes = self.votes > middles[:, None]
        said: NDArray[np.int8] = np.where(yes.any(axis=0), order[yes.argmax(axis=0)], order[-1])
        return said

    def near(self, middles: Votes) -> float:
        """Return the share of rows with votes near a threshold that they are compared with, before a first yes."""
        yes = self.votes > middles[:, None]
        compared: NDArray[np.bool_] = np.cumsum(yes, axis=0) - yes == 0
        near = _NEAR * np.abs(self.votes - middles[:, None]) <= self.teachers
        return float((near & compared).any(axis=0).mean())

    def changed(self, middles: Votes) -> float:
        """Return the share of the answers that noise changes on average, whatever is paid for."""
        same = np.ones(self.votes.shape[1])
        asked = np.ones(self.votes.shape[1], dtype=np.bool_)
        for number, middle in enumerate(middles.tolist()):
            yes, chance = self.votes[number] > middle, self.yes(number, middle)
            same *= np.where(asked, np.where(yes, chance, 1.0 - chance), 1.0)
            asked &= ~yes
        return 1.0 - float(same.mean())


def settings_of(crowd: Crowd, alpha: float, shares: Rows) -> tuple[Votes, Votes]:
    """Return where thresholds start, and where each class is answered as often as its share: int64[A] each.

    Args:
        crowd: Who votes.
        alpha: Of the model.
        shares: float64[A], of the classes asked about, in order.
    """
    teachers, asked = crowd.teachers, np.ones(crowd.votes.shape[1])
    firsts, steered = 1.0 / (1.0 + np.exp(-first_odds(np.clip(shares, 1.0 / teachers, 0.5)))), []
    lows = [least_threshold(alpha, share, crowd.slope * teachers) for share in np.clip(shares, 1.0 / teachers, 0.5)]
    for number, (share, low) in enumerate(zip(shares.tolist(), lows, strict=True)):
        bottom, top = math.floor(low * teachers), math.floor((1.0 - low) * teachers)
        while bottom < top:
            middle = (bottom + top) // 2
            often = float((asked * crowd.yes(number, middle)).mean()) > share
            bottom, top = (middle + 1, top) if often else (bottom, middle)
        steered.append(bottom)
        asked *= 1.0 - crowd.yes(number, bottom)
    starts = np.floor(np.clip(firsts, lows, 1.0 - np.array(lows)) * teachers)
    return starts.astype(np.int64), np.array(steered, dtype=np.int64)
