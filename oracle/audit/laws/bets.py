"""Bets on outcomes whose law is claimed: who gains much has refuted it.

Somebody who begins with 1 and bets at the claimed odds has x or more with a chance of 1/x at most, whatever was asked
on the way (Ville, 1939; Shafer, 2021). Bets are on noise that is larger, smaller or missing somewhere, and on what
happens more or less often than it should; a law that is another one loses to one of them.
"""

import math
from collections.abc import Hashable
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from oracle.audit.findings import Seen

__all__ = ["Bets"]

_MISS: Final = 1e-9
"""Probability with which a law that is as claimed is refuted."""

_LEAST: Final = 2.0**-53
"""The least there is below 1: at 0 and 1 logarithms have no end."""

_NOTHING: Final = "nothing"
_POWERS: Final = np.array([0.5, 0.8, 1.25, 2.0])
_PARTS: Final = 8
_RARE, _OFTEN = 0.25, 2.0
_LOG_ODDS: Final = np.log(np.array([0.5, 0.67, 0.9, 1.1, 1.5, 2.0]))

Floats = NDArray[np.float64]


class Bets:
    """What bets on outcomes have gained, by what they are on."""

    def __init__(self) -> None:
        self._gains: dict[str, Floats] = {}
        self._tallies: dict[tuple[str, Hashable], Floats] = {}
        self.outcomes = 0

    def on_place(self, name: str, place: float) -> None:
        """Bet on a number that is uniform from 0 to 1: where something stands in its law."""
        self._add(name, _bets_on(min(max(place, _LEAST), 1.0 - _LEAST)))

    def on_chance(self, name: str, chance: float, *, happened: bool) -> None:
        """Bet on something that happens with a chance: that it does more, or less, often."""
        self._add(name, _LOG_ODDS * happened - np.log1p(min(max(chance, 0.0), 1.0) * np.expm1(_LOG_ODDS)))

    def on_counts(self, name: str, chances: Floats, counts: Floats, which: Hashable = 0) -> None:
        """Bet on how often each of several outcomes comes, by how often it came before (Krichevsky and Trofimov, 1981).

        This gains about n times the divergence of what comes from what should, as a G-test counts, and less than
        (k - 1)/2 ln n from what has its law.

        Args:
            name: What it is about.
            chances: float64[k], summing to 1.
            counts: float64[k], how often each came.
            which: Of several sets of outcomes that have one name: those of each are counted for themselves.
        """
        tallies = self._tallies.setdefault((name, which), np.full(len(chances), 0.5))
        gained = float(np.sum(gammaln(tallies + counts) - gammaln(tallies)))
        gained -= float(gammaln(tallies.sum() + counts.sum()) - gammaln(tallies.sum()))
        came = counts > 0
        gained -= float(counts[came] @ np.log(np.maximum(chances[came], _LEAST)))
        self._tallies[name, which] = tallies + counts
        self._add(name, np.array([gained]))

    def most(self) -> tuple[float, str]:
        """Return the log of the most that was gained, as a part of what is a refutation, and what the bets were on.

        Of no bets that is nothing: they refute nothing, and are no evidence (`verdict`).
        """
        if not self._gains:
            return 0.0, _NOTHING
        limit = math.log(len(self._gains) / _MISS)
        return max((float(_log_mean(gains)) / limit, name) for name, gains in self._gains.items())

    def verdict(self, what: str = "outcomes") -> Seen:
        """Return whether no bet gained what refutes, and how much was gained by bets on what."""
        if not self.outcomes:
            return False, f"there were no {what} to bet on"
        part, name = self.most()
        says = f"no bet on {self.outcomes} {what} gained much" if part < 1.0 else f"bets gained on {name}"
        return part < 1.0, f"{says} (in nats, {100.0 * max(part, 0.0):.0f} % of what would refute)"

    def _add(self, name: str, logs: Floats) -> None:
        self._gains[name] = self._gains.get(name, 0.0) + logs
        self.outcomes += 1


def _log_mean(logs: Floats) -> float:
    most = float(logs.max())
    return most + math.log(float(np.exp(logs - most).mean()))


def _bets_on(place: float) -> Floats:
    """Return the log of what each bet gives: densities of means 1."""
    powers = np.concatenate([(_POWERS - 1.0) * math.log(one) for one in (place, 1.0 - place)])
    inside = np.arange(_PARTS) == int(place * _PARTS)
    parts = [np.where(inside, much, (_PARTS - much) / (_PARTS - 1.0)) for much in (_RARE, _OFTEN)]
    return np.concatenate([powers + np.tile(np.log(_POWERS), 2), np.log(np.concatenate(parts))])
