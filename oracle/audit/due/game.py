"""The game against paid questions, solved: what the best adversary reaches, stage by stage, on a lattice of ratios.

The accountant bounds this game by moments (PRIVACY.md, Theorem 5) or by a potential (Theorem 26). Here it is played. An
adversary is dominated by one who steers a race (proof of Theorem 17): while nothing arrives the ratio x = Q/P falls, or
rises; an arrival multiplies it by r = exp(e), or divides; it is paid for, but with probability c it is free. With k
paid arrivals left the adversary's value V_k is convex in x, so between nodes it is below the chord. That questions
inside the zone, with both thresholds near, reach no more is checked on the integer law at some stages (`inside`).
"""

import math
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Game", "Played", "play"]

Floats = NDArray[np.float64]

_REACH: Final = 6.5
"""Standard deviations of the loss that the lattice extends beyond 0 and epsilon."""

_SWEEPS: Final = 400
_SETTLED: Final = 1e-6
"""Relative change at which a stage is settled: over all stages that is far below what `due` allows for."""

_LEAST: Final = 1e-3
"""Values of such a part of delta need not be settled."""

_GROWN: Final = 300.0
"""Nats that a block of a sweep may grow by: exp of it is a float."""

_LARGEST: Final = 700.0
"""Nats up to which a ratio is a float; losses as far below 0 are worth nothing."""

_CHECKED: Final = 5
_DEPTHS: Final = 41


class Game(NamedTuple):
    """What is played.

    Attributes:
        slope: e of the logistic (or Gumbel) noise.
        gap: g; None where all questions are "above".
        paid: K.
        epsilon: At which delta is asked for.
        delta: About what is expected: far smaller values need not be settled.
        starts: Of what was told before, in its order: the least and the largest r that the loss's interval may have as
            its upper end, and the interval's length (nats). A count with noise e has one interval, [-e, e].
    """

    slope: float
    gap: int | None
    paid: int
    epsilon: float
    delta: float = 1e-12
    starts: tuple[tuple[float, float, float], ...] = ()


class Played(NamedTuple):
    """What came of it.

    Attributes:
        delta: What the best adversary reaches.
        inside: The largest factor by which a question inside the zone was worth more, at the stages looked at.
    """

    delta: float
    inside: float


class _Lattice:
    """Losses at distances of e/m, the weights of one cell of either flow, and values beyond the ends."""

    def __init__(self, game: Game, cells: int) -> None:
        self.cells, self.step = cells, game.slope / cells
        self.least = _LEAST * game.delta
        self.free = 0.0 if game.gap is None else math.exp(-game.slope * (game.gap + 1))
        spread = (
            game.slope * math.sqrt(game.paid / (1.0 - self.free)) + math.fsum(part[2] for part in game.starts) / 2.0
        )
        reach = _REACH * spread + 4.0 * game.slope
        self.below = math.ceil(reach / self.step)
        self.nodes = self.below + math.ceil((game.epsilon + reach) / self.step) + 1
        self.losses: Floats = np.arange(-self.below, self.nodes - self.below, dtype=np.float64) * self.step
        self.ratios: Floats = np.exp(np.minimum(-self.losses, _LARGEST))
        rate = math.exp(game.slope)
        self.rate = rate
        rise = self.step / math.expm1(game.slope)
        fall = self.step / -math.expm1(-game.slope)
        # the mean of exp(-u) V along a cell, V linear in x: of its ends so much each
        far = (-math.expm1(-rise) + math.expm1(-rate * rise) / rate) / -math.expm1(-self.step)
        self.up = (math.exp(-rise), -math.expm1(-rise) - far, far, rise)
        far = (-math.expm1(-fall / rate) * rate + math.expm1(-fall)) / math.expm1(self.step)
        self.down = (math.exp(-fall), -math.expm1(-fall) - far, far, fall)

    def shifted(self, value: Floats, by: int) -> Floats:
        """Return the values at losses larger by so many nodes: the last chord beyond the end, constant before it."""
        if by <= 0:
            return np.concatenate((np.full(-by, value[0]), value[: self.nodes + by]))
        beyond = 1.0 - (1.0 - value[-1]) * np.exp(-self.step * np.arange(1.0, by + 1.0))
        return np.concatenate((value[by:], beyond))

    def at(self, value: Floats, losses: Floats) -> Floats:
        """Return the chords' values at any losses."""
        ratios = np.exp(np.minimum(-losses, _LARGEST))
        inside = np.interp(-ratios, -self.ratios, value)
        beyond = 1.0 - (1.0 - value[-1]) * np.exp(np.minimum(self.losses[-1] - losses, 0.0))
        return np.where(losses > self.losses[-1], beyond, inside)


def _swept(least: Floats, gains: Floats, stay: float, time: float) -> Floats:
    """Return y with y_i = max(least_i, gains_i + stay y_(i-1)), y_0 = least_0, block by block."""
    length, value = max(int(_GROWN / time), 2), np.empty_like(least)
    before = 0.0
    for begin in range(0, len(least), length):
        lower, gain = least[begin : begin + length], gains[begin : begin + length].copy()
        gain[0] = 0.0 if not begin else gain[0] + stay * before
        grown = np.exp(time * np.arange(len(lower)))
        total = np.cumsum(gain * grown)
        value[begin : begin + length] = (total + np.maximum(np.maximum.accumulate(lower * grown - total), 0.0)) / grown
        before = float(value[min(begin + length, len(least)) - 1])
    return np.maximum(value, least)


def _stage(lattice: _Lattice, fewer: Floats, guess: Floats) -> Floats:
    """Return V_k, given V_(k-1): the best of idling, of either flow, and of both at once, which stands still."""
    free, cells, rate = lattice.free, lattice.cells, lattice.rate
    value = np.maximum(guess, fewer)
    for _ in range(_SWEEPS):
        before = value
        arrived = (1.0 - free) * fewer + free * value
        lower, higher = lattice.shifted(arrived, -cells), lattice.shifted(arrived, cells)
        least = np.maximum(fewer, (lower + rate * higher) / (1.0 + rate))
        stay, near, far, time = lattice.up
        gains = near * lower + far * lattice.shifted(arrived, 1 - cells)
        least[-1] = max(least[-1], gains[-1] + stay * float(lattice.shifted(value, 1)[-1]))
        value = _swept(least[::-1], gains[::-1], stay, time)[::-1]
        stay, near, far, time = lattice.down
        gains = near * higher + far * lattice.shifted(arrived, cells - 1)
        value = _swept(np.maximum(least, value), gains, stay, time)
        if bool((np.abs(value - before) <= _SETTLED * (1.0 - free) * (value + lattice.least)).all()):
            break
    return value


def _inside(game: Game, lattice: _Lattice, value: Floats, fewer: Floats) -> float:
    """Return by what factor questions at depths about the zone are worth more than V_k, by the noise's own tails."""
    gap = game.gap or 0
    # depth f, as t_l - 1/2 - f and t_h + 1/2 - f: where low begins, and where high does
    depths = np.linspace(-6.0 / game.slope, gap + 6.0 / game.slope, _DEPTHS)
    worst = 1.0
    inner = slice(lattice.cells + 1, -lattice.cells - 1)
    known = value[inner] > max(1e-3 * float(value[lattice.below]), 1e-200)
    for depth in depths:
        laws = []
        for moved in (0.0, 1.0):
            low = 1.0 / (1.0 + math.exp(game.slope * (depth + moved)))
            high = 0.0 if game.gap is None else 1.0 / (1.0 + math.exp(game.slope * (gap + 1.0 - depth - moved)))
            laws.append((low, high, 1.0 - low - high))
        for first, second in ((0, 1), (1, 0)):
            total = np.zeros_like(value)
            for p, q, then in zip(laws[first], laws[second], (value, value, fewer), strict=True):
                if p > 0.0 and q > 0.0:
                    moved_to: Floats = lattice.losses + math.log(p / q)
                    total += p * lattice.at(then, moved_to)
            worst = max(worst, float((total[inner][known] / value[inner][known]).max(initial=1.0)))
    return worst


def _before(lattice: _Lattice, value: Floats, start: tuple[float, float, float]) -> Floats:
    """Return the value before something was told whose loss lies in an interval: V is convex, so it is at the ends."""
    least, most, length = start
    best = value.copy()
    for top in np.linspace(least, most, 1 if least == most else 17):
        # mean of Q/P is 1: p exp(-top) + (1 - p) exp(length - top) = 1
        chance = math.expm1(length - top) / (math.exp(length - top) - math.exp(-top)) if length else 0.0
        ends = lattice.at(value, lattice.losses + top), lattice.at(value, lattice.losses + top - length)
        best = np.maximum(best, chance * ends[0] + (1.0 - chance) * ends[1])
    return best


def _cells(game: Game) -> int:
    """Return m: what chords add to delta falls with its square; the more arrivals, the longer it takes."""
    free = 0.0 if game.gap is None else math.exp(-game.slope * (game.gap + 1))
    return next((cells for most, cells in ((64, 24), (512, 12), (2_048, 8)) if game.paid / (1.0 - free) <= most), 5)


@lru_cache(maxsize=1024)
def play(game: Game) -> Played:
    """Return what the best adversary reaches, by as many stages as there are paid answers.

    Args:
        game: Of at least one paid answer, and noise.
    """
    lattice = _Lattice(game, _cells(game))
    value = 0.0 - np.expm1(np.minimum(game.epsilon - lattice.losses, 0.0))
    fewer, worst = value, 1.0
    looked = {game.paid * part // _CHECKED for part in range(1, _CHECKED + 1)} | {1, 2}
    for left in range(1, game.paid + 1):
        guess = value * np.minimum(value / np.maximum(fewer, 1e-300), 1.0 + 1.0 / left) if left > 2 else value  # noqa: PLR2004
        fewer, value = value, _stage(lattice, value, np.minimum(guess, 1.0))
        if left in looked:
            worst = max(worst, _inside(game, lattice, value, fewer))
    for start in reversed(game.starts):
        value = _before(lattice, value, start)
    return Played(float(value[lattice.below]), worst)
