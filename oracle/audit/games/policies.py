"""Where to attack: the strategies that the exact dynamic programs of the accounting single out.

The adversary of BetweenThresholds picks a depth before every answer; what it has seen so far matters only through the
number of mediums and the privacy loss. So the worst strategy is a dynamic program over these two.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.between_thresholds import log_answer_law
from oracle.mechanisms.thresholds.paid import BetweenThresholds
from oracle.mechanisms.thresholds.stopper import Stopper

__all__ = ["BetweenPolicy", "StopperShape", "between_policy", "halting_law", "stopper_shapes", "worst_depth"]

_CELLS: Final = 6
"""Cells of the privacy loss for each `scale` nats."""

_REACH: Final = 2.5
"""Nats beyond the thresholds that the strategy looks at: further out answers repeat themselves."""

_SWEEPS: Final = 400
"""Sweeps of value iteration at most: answers without a medium that the strategy looks ahead."""

_TAIL: Final = 45.0
"""Nats of a Stopper's noise that are summed up."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BetweenPolicy:
    """A strategy against one BetweenThresholds instance, and the law of its answers.

    Attributes:
        depths: int64[m], the depths it may pick; the record makes each one deeper.
        choice: int16[K + 1, c], by mediums left and cell of the loss: which of them; -1 if none is left.
        enough: bool[K + 1, c], where it has seen enough for the claim at hand; what comes later may tell of a bug.
        losses: float64[3, m], ln P(answer | record there) / P(answer | not there), by answer and depth.
        cell: Nats of one cell.
        value: The delta that it reaches at the epsilon it was made for (a little high: the grid interpolates).
    """

    depths: NDArray[np.int64]
    choice: NDArray[np.int16]
    enough: NDArray[np.bool_]
    losses: Floats
    cell: float
    value: float

    def pick(self, left: NDArray[np.int64], loss: Floats) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return which depth to ask for next, and whether enough was seen, by mediums left and privacy loss so far."""
        middle = self.choice.shape[1] // 2
        cells = np.clip(np.rint(loss / self.cell).astype(np.int64) + middle, 0, 2 * middle)
        picks: NDArray[np.int64] = self.choice[left, cells].astype(np.int64)
        return picks, self.enough[left, cells]


def between_policy(instance: BetweenThresholds, mediums: int, epsilon: float) -> BetweenPolicy:
    """Return the strategy with the largest P(F) - exp(epsilon) Q(F), P being the world with the record.

    Args:
        instance: The mechanism.
        mediums: K, after which it answers no more.
        epsilon: What it is the worst at (nats).
    """
    reach = math.ceil(_REACH / instance.scale)
    first = max(instance.low - reach, 0)
    depths = np.arange(first, min(instance.high + reach, instance.points - 1) + 1, dtype=np.int64)
    laws = [log_answer_law(instance.law, instance.scale, instance.low, instance.high, depths + more) for more in (1, 0)]
    there, absent = (np.stack(law) for law in laws)
    losses = there - absent
    cell = instance.scale / _CELLS
    top = math.ceil((epsilon + (mediums + 12.0) * instance.scale) / cell)
    stop = np.maximum(-np.expm1(epsilon - np.arange(-top, top + 1) * cell), 0.0)
    steps = [_Step(np.exp(there[answer]), losses[answer], cell, len(stop)) for answer in range(3)]
    choice = np.full((mediums + 1, len(stop)), -1, dtype=np.int16)
    enough = np.ones(choice.shape, dtype=np.bool_)
    fewer = stop
    for left in range(1, mediums + 1):
        fewer, choice[left], enough[left] = _sweep(steps, stop, fewer)
    return BetweenPolicy(depths, choice, enough, losses, cell, float(fewer[top]))


class _Step:
    """The expected value behind one answer, for every depth and cell: the value is read where the loss has moved to."""

    def __init__(self, weight: Floats, losses: Floats, cell: float, cells: int) -> None:
        whole = np.floor(losses / cell)
        part = (np.expm1(-(losses - whole * cell)) / np.expm1(-cell))[:, None]
        lower = np.arange(cells)[None, :] + whole.astype(np.int64)[:, None]
        self._lower, self._upper = np.clip(lower, 0, cells), np.clip(lower + 1, 0, cells)
        self._of_lower, self._of_upper = weight[:, None] * (1.0 - part), weight[:, None] * part

    def __call__(self, value: Floats) -> Floats:
        extended = np.append(value, 1.0)
        mean: Floats = self._of_lower * extended[self._lower] + self._of_upper * extended[self._upper]
        return mean


def _sweep(steps: list[_Step], stop: Floats, fewer: Floats) -> tuple[Floats, NDArray[np.intp], NDArray[np.bool_]]:
    """Return the value with one medium more, what to ask for, and where asking gains nothing."""
    low, medium, high = steps
    charged, value = medium(fewer), np.maximum(stop, fewer)
    for _ in range(_SWEEPS):
        options = charged + low(value) + high(value)
        better = np.maximum(options.max(axis=0), stop)
        change = float((better - value).max())
        value = np.maximum(value, better)
        if change < 1e-6:  # noqa: PLR2004 -- a probability; enough to tell which depth is worst
            break
    options = charged + low(value) + high(value)
    return value, options.argmax(axis=0), options.max(axis=0) <= stop + 1e-9


def worst_depth(instance: BetweenThresholds, mediums: int, rounds: int) -> int:
    """Return the depth at which `rounds` equal queries tell most, if mediums stop the answers and look like lows.

    A label says "high" or not. With h the probability of high at a depth and h' one deeper, the mean loss of a round is
    the divergence of the two coins, and there are min(rounds, mediums / P(medium)) rounds. (Laplace's noise has no such
    law here: one noise unit above the upper threshold.)
    """
    if instance.law == "laplace":
        return min(instance.high + round(1.0 / instance.scale), instance.points - 1)
    depths = np.arange(instance.points, dtype=np.int64)
    laws = [log_answer_law(instance.law, instance.scale, instance.low, instance.high, depths + more) for more in (0, 1)]
    high, deeper = np.exp(laws[0][2]), np.exp(laws[1][2])
    divergence = deeper * np.log(deeper / high) + (1.0 - deeper) * np.log((1.0 - deeper) / (1.0 - high))
    asked = np.minimum(rounds, mediums / np.maximum(np.exp(laws[0][1]), 1e-300))
    return int((divergence * asked).argmax())


@dataclass(frozen=True)
class StopperShape:
    """An attack on a Stopper: its count is held at one value for some rounds; the record's bit came before.

    Attributes:
        count: Mediums before each of the rounds, without the record's.
        rounds: How many rounds.
        gain: ln of the best event's ratio that the exact law of halting promises after so many games.
    """

    count: int
    rounds: int
    gain: float


def halting_law(stopper: Stopper, count: int, rounds: int) -> Floats:
    """Return the exact P(halts before round i) for i = 0 ... rounds - 1, and P(never), at a count that stays.

    Sum over rho of (1 - p)^i p, p = P(nu >= k + rho - count).
    """
    scale, reach = stopper.epsilon, math.ceil(_TAIL / stopper.epsilon)
    rho = np.arange(-reach, reach + 1)
    mass = math.tanh(scale / 2.0) * np.exp(-scale * np.abs(rho))
    need = stopper.threshold + rho - count
    shift = 1.0 + math.exp(-scale)
    halt = np.where(need >= 1, np.exp(-scale * np.maximum(need, 0)) / shift, 0.0)
    halt = np.where(need < 1, 1.0 - np.exp(-scale * np.maximum(1 - need, 0)) / shift, halt)
    times = np.arange(rounds)[:, None]
    law = (mass * (1.0 - halt) ** times * halt).sum(axis=1)
    never = float((mass * (1.0 - halt) ** rounds).sum())
    return np.append(law, never)


def stopper_shapes(stopper: Stopper, games: int) -> list[StopperShape]:
    """Return attacks with counts from far below the threshold to it, and with few and many rounds, the best first.

    Args:
        stopper: The mechanism.
        games: Games in each world that can be counted in.
    """
    nats = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0)
    distances = sorted({math.ceil(part / stopper.epsilon) for part in nats} | {1})
    shapes = []
    for distance in distances:
        count = max(stopper.threshold - distance, 0)
        for rounds in (1, 8, 64):
            laws = [np.cumsum(halting_law(stopper, count + more, rounds))[:-1] for more in (0, 1)]
            shapes.append(StopperShape(count, rounds, _promise(laws[0], laws[1], games)))
    return sorted(shapes, key=lambda shape: -shape.gain)


def _promise(absent: Floats, present: Floats, games: int) -> float:
    """Return the best log ratio of an event's probabilities, less five standard errors."""
    best = 0.0
    for likelier, rarer in ((present, absent), (1.0 - absent, 1.0 - present)):
        low = likelier - 5.0 * np.sqrt(likelier / games)
        high = rarer + 5.0 * np.sqrt(rarer / games) + 10.0 / games
        best = max(best, float(np.log(np.maximum(low, 1e-300) / high).max()))
    return best
