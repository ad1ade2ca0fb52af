"""Sequential bets against a claimed epsilon, on games of two worlds: who has become rich has refuted it.

If a mechanism is (epsilon, delta)-private, then P(F) <= exp(epsilon) Q(F) + delta for every event F of the view, P and
Q being the views' laws in the two worlds, either way round. In each pair of games, one of either world, a bettor stakes
a part of what it has on an event that it chose on games before; docs/explanation/audit-games.md has the proof that it
becomes rich with a small chance only, whenever it stops and whatever is played next.
"""

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = ["Best", "Event", "Wealth", "ceiling", "count_of"]

_CUTS: Final = 40
"""Thresholds tried for each feature of the view."""

_BOLD: Final = 0.9
"""Of what could be staked: who stakes all of it has nothing left after one event in the rarer world."""

_DOUBTS: Final = (0.3, 1.5)
"""Standard deviations by which bettors take frequencies for less telling than they were; each has half of the money."""

_HOPE: Final = 2.0
"""Standard deviations by which frequencies may be more telling than they were, before games are given up."""

_TIE: Final = 1e-3
"""Weight of what is not sure, where nothing is."""

_STEPS: Final = np.concatenate(
    [np.arange(0.02, 0.1, 0.02), np.arange(0.1, 0.3, 0.025), np.arange(0.3, 1.0, 0.05), [1.0, 1.1, 1.25, 1.5, 2.0, 3.0]]
)
"""Parts of the claim that are bet against, each by itself."""

_ABOVE: Final = 1.0 + 1e-9
"""What is refuted at the claim is put a little above it: epsilon is more."""

Floats = NDArray[np.float64]


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


class _Bets(NamedTuple):
    """What is bet on next, chosen on games before.

    Attributes:
        weights: float64[k], of the weighted sum.
        events: One for each bettor and step.
        stakes: float64[bettors, steps].
        growth: float64[3, steps], mean log gain of a pair, were the chances less telling than the frequencies,
            as telling as they are, and more telling.
    """

    weights: Floats
    events: list[list[Event]]
    stakes: Floats
    growth: Floats


class Best(NamedTuple):
    """What tells most against the first claim that is not refuted.

    Attributes:
        source: Whose games.
        event: Which.
        pairs: Its pairs of games.
        likelier: How often it happened in the world where it is likelier.
        rarer: How often in the other one.
    """

    source: int
    event: Event
    pairs: int
    likelier: int
    rarer: int


class Wealth:
    """The money of bettors against claims of (part of epsilon, delta)-privacy, for a ladder of parts.

    Formal guarantees:
        * If all pairs of games are independent given those before and what is played is (epsilon, delta)-private,
          `lowest` exceeds epsilon with probability at most `miss`, whenever it is read (Ville, 1939).

    Args:
        epsilon: Claimed (nats).
        delta: Claimed.
        miss: Probability of a false alarm.
    """

    def __init__(self, epsilon: float, delta: float, miss: float) -> None:
        self._claims = epsilon * _STEPS * _ABOVE
        self._delta, self._needed = delta, math.log(1.0 / miss)
        self._claim = int(np.searchsorted(_STEPS, 1.0))
        self._money = np.zeros((len(_DOUBTS), len(_STEPS)))
        self._most = np.zeros(len(_STEPS))
        self._games: dict[int, list[Floats]] = {}
        self._bets: dict[int, _Bets] = {}

    @property
    def lowest(self) -> float:
        """Epsilon is more than this, but with probability `miss` (nats; 0 if nothing is proved)."""
        at = self._frontier
        return float(self._claims[at - 1]) if at else 0.0

    @property
    def refuted(self) -> bool:
        """True if the claim is refuted."""
        return self._frontier > self._claim

    @property
    def grown(self) -> float:
        """Most that the log of the money against the claim has been, as a part of what refutes it."""
        return float(self._most[self._claim] / self._needed)

    @property
    def _frontier(self) -> int:
        """Return the first claim that is not refuted: no later one counts (docs/explanation/audit-games.md)."""
        short = np.flatnonzero(self._most < self._needed)
        return int(short[0]) if len(short) else len(_STEPS)

    def show(self, absent: Floats, present: Floats, source: int = 0) -> None:
        """Bet on pairs of games, and choose afresh what is bet on next; the first pairs of a source are only looked at.

        Args:
            absent: float64[n, k], k features of the view of each game without the record.
            present: float64[n, k], of as many games with it.
            source: Whose games they are: bets on each source's are chosen by its own.
        """
        if source in self._bets:
            self._settle(absent, present, self._bets[source])
        before = self._games.get(source, [absent[:0], present[:0]])
        games = [np.concatenate(pair) for pair in zip(before, (absent, present), strict=True)]
        self._games[source] = games
        self._bets[source] = self._choose(*games)

    def promise(self, source: int) -> tuple[float, float]:
        """Return how fast money surely grows by the games of a source, and how fast it may; to compare sources.

        The first is against what is to be refuted next, the second against the claim.
        """
        growth = self._bets[source].growth
        at = min(self._frontier, len(_STEPS) - 1)
        return float(growth[0, at] + _TIE * growth[1, at]), float(growth[2, self._claim])

    def worth(self, pairs: int) -> bool:
        """Return whether so many more pairs may refute the claim, or the first one that is not refuted yet."""
        at = min(self._frontier, len(_STEPS) - 1)
        growth = np.max([bets.growth for bets in self._bets.values()], axis=0)
        left = self._needed - np.logaddexp.reduce(self._money, axis=0)
        return bool(growth[1, at] * pairs > left[at] or growth[2, self._claim] * pairs > left[self._claim])

    def best(self) -> Best:
        """Return the most telling source of games, and what it tells."""
        source = max(self._bets, key=lambda one: self.promise(one)[0])
        bets, games = self._bets[source], self._games[source]
        event = bets.events[0][min(self._frontier, len(_STEPS) - 1)]
        counts = [int(_happened(world, bets.weights, event).sum()) for world in games]
        likelier, rarer = counts[::-1] if event.present_likelier else counts
        return Best(source, event, len(games[0]), likelier, rarer)

    def _settle(self, absent: Floats, present: Floats, bets: _Bets) -> None:
        """Bet, pair by pair; the stakes do not change on the way."""
        gains = np.empty((len(absent), *self._money.shape))
        for bettor, events in enumerate(bets.events):
            for step, event in enumerate(events):
                less, more = (_happened(world, bets.weights, event) for world in (absent, present))
                likelier, rarer = (more, less) if event.present_likelier else (less, more)
                value = likelier - math.exp(self._claims[step]) * rarer - self._delta
                gains[:, bettor, step] = np.log1p(bets.stakes[bettor, step] * value)
        money = self._money + np.cumsum(gains, axis=0)
        self._money = money[-1]
        joint = np.logaddexp.reduce(money, axis=1) - math.log(len(_DOUBTS))
        self._most = np.maximum(self._most, joint.max(axis=0))

    def _choose(self, absent: Floats, present: Floats) -> _Bets:
        weights = _discriminant(absent, present)
        events, below = _candidates(absent @ weights, present @ weights, absent, present)
        games = float(len(absent))
        above = [event.above for event in events]
        shares = np.where(above, games - below, below) / games
        flipped = [not event.present_likelier for event in events]
        rarer, likelier = np.where(flipped, shares[::-1], shares)
        factor = np.exp(self._claims)[:, None]
        chosen, stakes = [], []
        for doubt in _DOUBTS:
            growth, stake = self._growth(likelier, rarer, factor, games, doubt)
            picks = growth.argmax(axis=1)
            chosen.append([events[pick] for pick in picks])
            stakes.append(np.where(growth.max(axis=1) > 0.0, stake[np.arange(len(picks)), picks], 0.0))
        growths = [self._growth(likelier, rarer, factor, games, doubt)[0].max(axis=1) for doubt in (1.0, 0.0, -_HOPE)]
        return _Bets(weights, chosen, np.array(stakes), np.array(growths))

    def _growth(
        self, likelier: Floats, rarer: Floats, factor: Floats, games: float, doubt: float
    ) -> tuple[Floats, Floats]:
        """Return the mean log gain of a pair and the stake, by claim and event, if chances are so much less telling."""
        sign = math.copysign(1.0, doubt)
        spare = doubt * doubt / games
        p = np.clip(likelier - doubt * np.sqrt((likelier * (1.0 - likelier) + spare / 4.0) / games), 0.0, 1.0)
        q = np.clip(
            rarer + doubt * np.sqrt((rarer * (1.0 - rarer) + spare / 4.0) / games) + sign * spare / 2.0, 0.0, 1.0
        )
        mean = p - factor * q - self._delta
        spread = p * (1.0 - p) + factor * factor * q * (1.0 - q) + mean * mean
        stake = np.clip(mean / np.maximum(spread, 1e-300), 0.0, _BOLD / (factor + self._delta))
        gain = np.zeros_like(stake)
        for one, chance in ((1.0, p), (0.0, 1.0 - p)):
            for other, its in ((1.0, q), (0.0, 1.0 - q)):
                gain += chance * its * np.log1p(stake * (one - factor * other - self._delta))
        return gain, stake


def ceiling(pairs: int, delta: float, miss: float) -> float:
    """Return the most that so many pairs could refute, were there no privacy at all and the event known.

    >>> round(ceiling(1_000, 0.0, 1e-5), 2)
    4.29
    """
    needed = math.expm1(math.log(len(_DOUBTS) / miss) / pairs)  # each pair gains ln(1 + stake (1 - delta))
    most = _BOLD * (1.0 - delta) / needed - delta
    return max(math.log(most), 0.0) if most > 0.0 else 0.0


def count_of(pairs: int, likelier: int, rarer: int, delta: float, miss: float) -> tuple[float, float]:
    """Return ln((p - delta)/q) of an event's frequencies, and its upper end (Clopper and Pearson, 1934)."""
    high = 1.0 if likelier == pairs else float(stats.beta.isf(miss / 2.0, likelier + 1, pairs - likelier))
    low = 0.0 if rarer == 0 else float(stats.beta.ppf(miss / 2.0, rarer, pairs - rarer + 1))
    return _ratio(likelier / pairs, rarer / pairs, delta), _ratio(high, low, delta)


def _ratio(likelier: float, rarer: float, delta: float) -> float:
    if likelier <= delta:
        return -math.inf
    return math.inf if rarer <= 0.0 else math.log((likelier - delta) / rarer)


def _happened(views: Floats, weights: Floats, event: Event) -> Floats:
    """Return 1.0 for each game in which the event happened, else 0.0."""
    column = views @ weights if event.feature == len(weights) else views[:, event.feature]
    happened: NDArray[np.bool_] = (column >= event.threshold) == event.above
    return happened.astype(np.float64)


def _discriminant(absent: Floats, present: Floats) -> Floats:
    """Return Fisher's weights: the features' difference of means, by the inverse of their common covariance."""
    moved = present.mean(axis=0) - absent.mean(axis=0)
    spread = np.cov(np.concatenate([absent - absent.mean(axis=0), present - present.mean(axis=0)]), rowvar=False)
    inverse = np.linalg.pinv(np.atleast_2d(spread), hermitian=True)
    weights: Floats = inverse @ moved
    return weights


def _candidates(
    absent_sum: Floats, present_sum: Floats, absent: Floats, present: Floats
) -> tuple[list[Event], NDArray[np.int64]]:
    """Return events to choose from, and int64[2, n]: in how many games of each world their column is below the cut."""
    events: list[Event] = []
    below: list[NDArray[np.int64]] = []
    for feature, pair in enumerate([*zip(absent.T, present.T, strict=True), (absent_sum, present_sum)]):
        columns = [np.sort(column) for column in pair]
        cuts = _cuts(np.concatenate(columns))
        counts = np.stack([np.searchsorted(column, cuts, side="left") for column in columns])
        for above in (True, False):
            for likelier in (True, False):
                events += [Event(feature, cut, above, likelier) for cut in cuts.tolist()]
                below.append(counts)
    return events, np.concatenate(below, axis=1)


def _cuts(values: Floats) -> Floats:
    """Return thresholds to try: all of few values, or evenly spread and finely at both ends of many."""
    unique = np.unique(values)
    if len(unique) <= _CUTS:
        return unique
    even = np.linspace(0.0, 1.0, _CUTS // 2)
    ends = np.geomspace(2.0 / len(values), 0.5, _CUTS // 4)
    return np.unique(np.quantile(values, np.concatenate([even, ends, 1.0 - ends]), method="nearest"))
