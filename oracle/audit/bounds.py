"""A lower bound on epsilon, with a stated confidence, from the views of two worlds.

If a mechanism is (epsilon, delta)-private, then P(F) <= exp(epsilon) Q(F) + delta for every event F of the view, P and
Q being the views' laws in the two worlds, either way round. So any event whose probabilities break that refutes the
claim. The event is chosen on a quarter of the games and its probabilities are bounded on the others (Clopper and
Pearson, 1934), so that the search costs no confidence.
"""

import bisect
import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from oracle.errors import InputError

__all__ = ["CHOOSING", "Bound", "Event", "ceiling", "clopper_pearson", "epsilon_bound", "fewest"]

_CUTS: Final = 64
"""Thresholds tried for each feature of the view."""

CHOOSING: Final = 4
"""One in so many games is used to choose the event."""

_FEWEST: Final = 4
"""Least number of games that choose the event, and of games in each world that count it."""


class Event(NamedTuple):
    """An event of the view: a feature, or a weighted sum of all, is at least (or below) a threshold.

    Attributes:
        feature: The feature's number; the number of features for the weighted sum.
        threshold: Where it is cut.
        above: True for "at least the threshold", False for "below it".
        present_likelier: True if it is likelier where the record is there.
    """

    feature: int
    threshold: float
    above: bool
    present_likelier: bool


@dataclass(frozen=True, slots=True)
class Bound:
    """What one attack proved.

    Attributes:
        event: The event it rests on.
        games: Games in each world that its probabilities were counted in.
        likelier: How often it happened in the world where it is likelier.
        rarer: How often in the other one.
        lowest: Epsilon is at least this, with the stated confidence (nats; 0 if nothing is proved).
        estimate: ln((p - delta)/q) of the two frequencies; infinite if it never happened in the other world.
        highest: Upper end for this event alone: no bound on epsilon, as other events may tell more.
    """

    event: Event
    games: int
    likelier: int
    rarer: int
    lowest: float
    estimate: float
    highest: float


Floats = NDArray[np.float64]


def clopper_pearson(counts: NDArray[np.int64] | Floats, games: int, miss: float) -> tuple[Floats, Floats]:
    """Return bounds below and above each probability, each missed with probability at most `miss`.

    Args:
        counts: int64[n], how often each event happened. (Between integers they say what might be counted.)
        games: In how many games.
        miss: Of each side alone.

    >>> clopper_pearson(np.array([0]), 10, 0.05)[1].round(3).tolist()
    [0.259]
    """
    counts = np.minimum(counts, games)  # what might be counted is computed, and may be more by a rounding
    below = stats.beta.ppf(miss, counts, games - counts + 1)
    above = stats.beta.isf(miss, counts + 1, games - counts)
    return np.where(counts == 0, 0.0, below), np.where(counts == games, 1.0, above)


def ceiling(games: int, delta: float, miss: float) -> float:
    """Return the most that `epsilon_bound` could prove with so many counted games, were there no privacy at all.

    Args:
        games: Games in each world that an event is counted in.
        delta: Claimed.
        miss: As for `epsilon_bound`.

    >>> round(ceiling(721, 0.0, 1e-5), 2)
    4.07
    """
    (_, low), (high, _) = clopper_pearson(np.array([0, games]), games, miss / 2.0)
    return max(_ratio(float(low), float(high), delta), 0.0)


def fewest(epsilon: float, delta: float, miss: float) -> int:
    """Return how many counted games refute a claim of epsilon where there is no privacy at all."""
    most = _FEWEST
    while ceiling(most, delta, miss) <= epsilon:
        most *= 2
    return bisect.bisect_right(range(most), epsilon, lo=_FEWEST, key=lambda games: ceiling(games, delta, miss))


def epsilon_bound(
    absent: Floats, present: Floats, delta: float, miss: float, chosen_on: tuple[Floats, Floats] | None = None
) -> Bound:
    """Return a lower bound on the epsilon of whatever showed these views.

    Formal guarantees:
        * Where the games are independent and the mechanism is (epsilon, delta)-private, `lowest` exceeds epsilon
          with probability at most `miss`, whatever the features are: half of it for each of the two
          probabilities, which are counted in games that had no part in choosing the event.

    Args:
        absent: float64[n, k], k features of the view of each game without the record.
        present: float64[n, k], of as many games with it.
        delta: The claimed delta.
        miss: Probability of a false alarm.
        chosen_on: Two such arrays of other games, which the event is chosen on; then all of these games are counted in.
            None chooses it on the first quarter of them.

    Raises:
        InputError: There are too few games, or the two worlds' differ in number.
    """
    least = CHOOSING * _FEWEST if chosen_on is None else _FEWEST
    if absent.shape != present.shape or len(absent) < least:
        raise InputError("games", (len(absent), len(present)), f"must be as many in both worlds, {least} at least")
    start = len(absent) // CHOOSING if chosen_on is None else 0
    games = len(absent) - start
    first = (absent[:start], present[:start]) if chosen_on is None else chosen_on
    weights = _discriminant(*first)
    with_sum = [np.column_stack([world, world @ weights]) for world in first]
    event = _choose(with_sum[0], with_sum[1], games, delta, miss)
    worlds = tuple(np.column_stack([world[start:], world[start:] @ weights]) for world in (absent, present))
    likelier, rarer = (_count(world, event) for world in _ordered(worlds, event))
    lows, highs = clopper_pearson(np.array([likelier, rarer]), games, miss / 2.0)
    return Bound(
        event,
        games,
        likelier,
        rarer,
        lowest=max(_ratio(float(lows[0]), float(highs[1]), delta), 0.0),
        estimate=_ratio(likelier / games, rarer / games, delta),
        highest=_ratio(float(highs[0]), float(lows[1]), delta),
    )


def _ordered(worlds: tuple[Floats, ...], event: Event) -> tuple[Floats, ...]:
    return worlds[::-1] if event.present_likelier else worlds


def _count(views: Floats, event: Event) -> int:
    above = views[:, event.feature] >= event.threshold
    return int(np.count_nonzero(above if event.above else ~above))


def _ratio(likelier: float, rarer: float, delta: float) -> float:
    if likelier <= delta:
        return -math.inf
    return math.inf if rarer <= 0.0 else math.log((likelier - delta) / rarer)


def _discriminant(absent: Floats, present: Floats) -> Floats:
    """Return Fisher's weights: the features' difference of means, by the inverse of their common covariance."""
    spread = np.cov(np.concatenate([absent - absent.mean(axis=0), present - present.mean(axis=0)]), rowvar=False)
    inverse = np.linalg.pinv(np.atleast_2d(spread), hermitian=True)
    weights: Floats = inverse @ (present.mean(axis=0) - absent.mean(axis=0))
    return weights


def _choose(absent: Floats, present: Floats, counted: int, delta: float, miss: float) -> Event:
    """Return the event with the largest lower bound, were its frequencies those of `counted` games."""
    games, best, chosen = len(absent), -math.inf, Event(0, 0.0, above=True, present_likelier=True)
    scale = counted / games
    for feature in range(absent.shape[1]):
        columns = (np.sort(absent[:, feature]), np.sort(present[:, feature]))
        cuts = _cuts(np.concatenate(columns))
        below = [np.searchsorted(column, cuts, side="left") for column in columns]
        for above in (True, False):
            counts = [(games - part if above else part).astype(np.float64) * scale for part in below]
            (low0, high0), (low1, high1) = (clopper_pearson(part, counted, miss / 2.0) for part in counts)
            for present_likelier, low, high in ((True, low1, high0), (False, low0, high1)):
                with np.errstate(divide="ignore", invalid="ignore"):
                    values = np.where(low > delta, np.log((low - delta) / high), -math.inf)
                index = int(values.argmax())
                if values[index] > best:
                    best = float(values[index])
                    chosen = Event(feature, float(cuts[index]), above=above, present_likelier=present_likelier)
    return chosen


def _cuts(values: Floats) -> Floats:
    """Return thresholds to try: all of few values, or evenly spread and finely at both ends of many."""
    unique = np.unique(values)
    if len(unique) <= _CUTS:
        return unique
    even = np.linspace(0.0, 1.0, _CUTS // 2)
    ends = np.geomspace(2.0 / len(values), 0.5, _CUTS // 4)
    return np.unique(np.quantile(values, np.concatenate([even, ends, 1.0 - ends]), method="nearest"))
