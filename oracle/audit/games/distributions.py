"""Attacks on distributions: small plans, and an adversary who knows all rows but one.

Questions and answers are public, so whoever asks sees what each comparison told: low and high by the share, what was
paid for by the ledger. It sends messages, and the shard is restarted between.
"""

import json
import math
from functools import cache
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import AnswerPaid, LedgerEvent
from oracle.audit.games.game import Game
from oracle.audit.games.questions import log_above, log_below, log_mass
from oracle.audit.runs.served import Served
from oracle.planning.distribution.model import DistributionModel, DistributionPlan
from oracle.planning.distribution.tight import plan_distribution
from oracle.planning.features import Feature

__all__ = ["hammer_thresholds", "ladder_plan", "wider_plan"]

Floats = NDArray[np.float64]

_DELTA: Final = 0.01
_FEATURE: Final = Feature(name="a")

_TURNS: Final = 3
"""Messages about each threshold at most; a paid answer ends them."""

_VALUES: Final = 6
"""Values of each message."""


def _planned(epsilon: float, alpha: float) -> DistributionPlan:
    model = DistributionModel(
        name="audited",
        predictor="distribution",
        epsilon=epsilon,
        delta=_DELTA,
        alpha=alpha,
        beta=0.5,
        examples=1,
        rounds=100,
        features=(_FEATURE,),
    )
    return plan_distribution(model, lambda _: None)


@cache
def ladder_plan(epsilon: float) -> DistributionPlan:
    """Return a plan of few thresholds, on few rows."""
    return _planned(epsilon, 0.3)


def wider_plan(epsilon: float) -> DistributionPlan:
    """Return a plan of more thresholds, made afresh."""
    return _planned(epsilon, 0.15)


class _Hammer:
    """Asks at values between two known rows, which the count is the same up to, just below a threshold.

    What is low leaves the values above it open, and what is high those below it: so it goes on between them, and
    every value is compared afresh, until the threshold is paid for.
    """

    def __init__(self, plan: DistributionPlan, served: Served, rare: float) -> None:
        self._plan, self._served, self._rare = plan, served, rare
        self._slope, self._told = plan.thresholds.slope, 0
        self.loss = 0.0
        self.noise: list[int] = []
        self.highs = 0

    def strike(self, threshold: int) -> None:
        """Ask about one threshold until it is paid for, or often enough."""
        low = self._plan.lows[threshold]
        count = low - round(math.log(self._rare) / self._slope)
        start, stop = float(count), count + 1.0
        for _ in range(_TURNS):
            values = np.linspace(start, stop, 4 * _VALUES)[1 : _VALUES + 1].tolist()
            shares, paid = self._ask(values)
            for value, share in zip(values, shares, strict=True):
                if share * self._plan.declared < low:
                    start = value
                    self._learn(log_below("logistic", self._slope, _worlds(low - count)))
                    continue
                stop = value
                if paid is not None:
                    self.noise.append(paid - count)
                    self._learn(log_mass("logistic", self._slope, _worlds(paid - count)))
                    return
                self.highs += 1
                self._learn(log_above(self._slope, _worlds(low + self._plan.thresholds.gap + 1 - count)))
                break

    def _ask(self, values: list[float]) -> tuple[list[float], int | None]:
        """Return the shares up to some values, and the count that was paid for last, if one was."""
        reply = json.loads(self._served.send([json.dumps({"at": values}).encode()])[0])
        lines, self._told = self._served.ledger[self._told :], len(self._served.ledger)
        events = (msgspec.json.decode(line, type=LedgerEvent) for line in lines)
        counts = [event.count for event in events if isinstance(event, AnswerPaid)]
        return [one["value"] for one in reply["values"]], counts[-1] if counts else None

    def _learn(self, logs: Floats) -> None:
        """Add by how much an outcome is likelier where the hidden row is counted."""
        there, absent = logs.tolist()
        self.loss += there - absent


def _worlds(noise: int) -> NDArray[np.int64]:
    """Return the noise that an outcome takes with the hidden row, and without."""
    return np.array([noise - 1, noise])


def hammer_thresholds(game: Game[DistributionPlan], rare: float = 8.0) -> Floats:
    """Pay for all thresholds by questions just below each, with a hidden row that is below all of them.

    Args:
        game: The game.
        rare: One comparison in so many is not low, without the hidden row.
    """
    rows = game.plan.declared
    values = np.append(np.arange(1.0, rows), 0.0)
    game.train(values, np.ones(rows, dtype=np.bool_), challenge=rows - 1)
    served = Served(game.plan, game.predictor)
    hammer = _Hammer(game.plan, served, rare)
    for threshold in range(game.plan.paid):
        hammer.strike(threshold)
        served.restart()
    first = hammer.noise[0] if hammer.noise else math.inf
    view = np.array([hammer.loss, sum(hammer.noise), first, hammer.highs, len(hammer.noise)])
    return view.clip(-1e12, 1e12)
