"""Votes to answers: each class is asked about in turn, and what is near its threshold is paid for."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.thresholds.paid import HIGH, PAID, PaidQuestions
from oracle.planning.ensemble.model import EnsemblePhase

__all__ = ["Voted", "ask"]

_NO_CAP = 1 << 60
"""The Stopper ends a life before K is spent; and the predictor, where it does not."""


class Voted(NamedTuple):
    """What votes were answered.

    Attributes:
        labels: int8[n], numbers of classes.
        paid: int8[n], paid questions of each.
    """

    labels: NDArray[np.int8]
    paid: NDArray[np.int8]


def ask(  # noqa: PLR0913 -- one query's parts
    phase: EnsemblePhase,
    votes: NDArray[np.int64],
    middles: NDArray[np.int64],
    order: NDArray[np.int8],
    words: NDArray[np.uint64],
    *,
    most: int,
) -> Voted:
    """Ask about each class in turn; the first yes is the answer, else the default (PRIVACY.md, Theorem 29).

    All questions of all rows are worked out, whatever is answered.

    Args:
        phase: Has the noise and the zone.
        votes: int64[A, n], for each class that is asked about, in order.
        middles: int64[A], yes is beyond these.
        order: int8[A + 1], the classes' numbers, the default last.
        words: uint64[A, n, 2], uniform bits that serve nothing else.
        most: Paid questions of one query; after so many it gets the default.
    """
    questions = PaidQuestions("logistic", phase.slope, _NO_CAP)
    count = votes.shape[1]
    labels = np.full(count, order[-1], dtype=np.int8)
    paid = np.zeros(count, dtype=np.int8)
    open_ = np.ones(count, dtype=np.bool_)
    for votes_, middle, number, words_ in zip(votes, middles, order[:-1], words, strict=True):
        lows = np.full(count, middle - phase.gap // 2)
        found = questions.ask(votes_, lows, words_, spent=0, highs=lows + phase.gap)
        yes = (found.outcomes == HIGH) | ((found.outcomes == PAID) & (found.values > middle))
        asked = open_ & (paid < most)
        paid += asked & (found.outcomes == PAID)
        labels[asked & yes] = number
        open_ &= ~(asked & yes)
    return Voted(labels, paid)
