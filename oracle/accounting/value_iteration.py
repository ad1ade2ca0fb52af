"""The exact price of paid questions asked "above", by value iteration: PRIVACY.md, Theorem 20.

An adversary of paid questions is dominated by one who steers a race: answers arrive at rate 1 in one world and at rate
exp(e) or exp(-e), as they choose at each moment, in the other; K arrivals are paid. The value of that game, computed
upwards from no arrival left, is the supremum of delta over all adversaries, but for the grid's rounding, which is up.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import mpmath
import numpy as np
import scipy  # which loads its parts when they are asked for
from numpy.typing import NDArray

__all__ = ["worst_log_delta"]

_Column = NDArray[np.float64]

_ROUNDING: Final = 1e-13
"""Relative slack of every comparison, far above the rounding of the few operations behind it."""

_DIFFERENCE: Final = 1e-14
"""Bound on the rounding of 1 - exp(eps) x, where that is not below 0."""

_LIFT: Final = 1e-3
"""Part of exp(eps) x by which the line that bounds the value beyond the grid rises over all stages."""

_SWEEPS: Final = 60
"""Sweeps after which a stage is given up; it takes 2 to 5."""

_WIDENINGS: Final = 3
"""Grids tried, each twice as wide as the one before."""


@dataclass(frozen=True)
class _Flow:
    """One sign of the adversary's shift, kept until the loss has moved by one cell.

    Attributes:
        rate: r, the arrival rate in the other world.
        stay: exp(-t), the chance of no arrival meanwhile, t the time that a cell takes.
        near: Weight of the value an arrival leads to from the cell's start.
        far: The same, from its end.
        shrink: x at the end of the cell over x at its start.
    """

    rate: float
    stay: float
    near: float
    far: float
    shrink: float


def _flow(scale: float, cells: int, sign: int) -> _Flow:
    """Weights are computed in 50 digits: they are small differences."""
    with mpmath.workdps(50):
        width = sign * mpmath.mpf(scale) / cells
        rate = mpmath.exp(sign * mpmath.mpf(scale))
        time = width / (rate - 1)
        here, there = -mpmath.expm1(-time), -mpmath.expm1(-rate * time) / rate
        far = (here - there) / -mpmath.expm1(-width)
        return _Flow(float(rate), float(mpmath.exp(-time)), float(here - far), float(far), float(mpmath.exp(-width)))


@dataclass(frozen=True)
class _Game:
    """The game on a grid of privacy losses: node j stands for the loss (j - below) e / cells.

    Attributes:
        scale: e.
        paid: K.
        epsilon: Of the guarantee.
        cells: Grid cells for each e of loss.
        below: Nodes below loss 0.
        nodes: How many there are.
        order: theta of the moment that the rounding is measured by.
    """

    scale: float
    paid: int
    epsilon: float
    cells: int
    below: int
    nodes: int
    order: float

    @cached_property
    def _ratios(self) -> _Column:
        """Q/P at the nodes, falling: x below."""
        ratios: _Column = np.exp((self.below - np.arange(self.nodes)) * (self.scale / self.cells))
        return ratios

    def _line(self, paid: int) -> _Column:
        """1 - g x: above any value at losses beyond the grid, with `paid` arrivals left."""
        return 1.0 - math.exp(self.epsilon) * (1.0 - _LIFT * paid / self.paid) * self._ratios

    @property
    def final(self) -> _Column:
        """The value with no arrival left, (1 - exp(eps) x)_+, rounded up: a difference of numbers near 1."""
        line = self._line(0)
        return np.where(line > -_DIFFERENCE, np.maximum(line, 0.0) + _DIFFERENCE, 0.0)

    @cached_property
    def flows(self) -> tuple[_Flow, _Flow]:
        """Towards larger losses, and towards smaller ones."""
        return _flow(self.scale, self.cells, 1), _flow(self.scale, self.cells, -1)

    def _shifted(self, value: _Column, steps: int) -> _Column:
        """Return the value `steps` nodes further on: constant below the grid, the line beyond it."""
        out = value[np.clip(np.arange(self.nodes) + steps, 0, self.nodes - 1)]
        if steps > 0:
            out[-steps:] = 1.0 - (1.0 - value[-1]) * self._ratios[1 : steps + 1] / self._ratios[0]
        return out

    @property
    def value(self) -> _Column | None:
        """A bound on the value of the whole game at the nodes, or None if unproved."""
        value = self.final
        for left in range(1, self.paid + 1):
            found = self.stage(value, left)
            if found is None:
                return None
            value = found
        return value

    def at(self, value: _Column, losses: _Column) -> _Column:
        """Return a bound on the value at losses between nodes: linear in x, constant below, the line beyond.

        The node taken may be one off by rounding: what is linear in x is then extended, by a rounding too.
        """
        place = losses * (self.cells / self.scale) + self.below
        node = np.clip(np.floor(place).astype(np.int64), 0, self.nodes - 2)
        ratio = np.exp(-losses)
        part = (self._ratios[node] - ratio) / (self._ratios[node] - self._ratios[node + 1])
        inside = value[node] + np.clip(part, 0.0, 1.0) * (value[node + 1] - value[node])
        beyond = 1.0 - (1.0 - value[-1]) * ratio / self._ratios[-1]
        return np.where(place > self.nodes - 1, np.maximum(beyond, inside), inside)

    def stage(self, fewer: _Column, paid: int) -> _Column | None:
        """Return a bound on the value with `paid` arrivals left, one more than `fewer` is for, or None if unproved."""
        up, down = (self._arrivals(fewer, flow, sign) for flow, sign in zip(self.flows, (1, -1), strict=True))
        line = self._line(paid)
        least = self._least(fewer)
        least[-1] = line[-1]
        value = least
        for _ in range(_SWEEPS):
            before = value
            for gains, flow, way in ((up, self.flows[0], -1), (down, self.flows[1], 1)):
                value = _sweep(value[::way], gains[::way], flow.stay)[::way]
                value[-1] = line[-1]
            if bool((value - before <= _ROUNDING * value).all()):
                break
        raised = value + self._slack(paid)
        raised[-1] = line[-1]
        return raised if self._is_bound(raised, least, up, down, line) else None

    def _slack(self, paid: int) -> _Column:
        """Return what is added to the value with `paid` arrivals left, above the rounding of all stages up to it.

        It is a multiple of the smaller of 1 and of Theorem 17's bound, so both it and what it adds to delta are small.
        """
        price = 1.001 * _price(self.order, self.scale)
        bound = np.minimum(np.exp(paid * price - self.order * (self.epsilon + np.log(self._ratios))), 1.0)
        return 4.0 * _ROUNDING * self.cells * paid * bound

    def _is_bound(self, value: _Column, least: _Column, up: _Column, down: _Column, line: _Column) -> bool:
        """Check Theorem 20's inequalities at every node, and the line beyond the grid."""
        needs = (
            least[:-1],
            up[:-1] + self.flows[0].stay * value[1:],
            np.concatenate((least[:1], down[1:-1] + self.flows[1].stay * value[:-2])),
        )
        enough = all(bool((value[:-1] >= need + _ROUNDING * need).all()) for need in needs)
        last = slice(-self.cells - 1, None)
        return enough and bool((value[last] <= line[last]).all())

    def _arrivals(self, fewer: _Column, flow: _Flow, sign: int) -> _Column:
        """Return what an arrival within the next cell is worth: it moves the loss by e against the flow."""
        jump = -sign * self.cells
        return flow.near * self._shifted(fewer, jump) + flow.far * self._shifted(fewer, jump + sign)

    def _least(self, fewer: _Column) -> _Column:
        """Return what the value is at least without the rest of a cell: an idle arrival, or one of either sign at once.

        "At once" is a randomized response of e nats, and may also come within a cell, after some flow towards it.
        """
        growth = self.flows[0].rate
        down, up = self._shifted(fewer, -self.cells), self._shifted(fewer, self.cells)
        at_once = (down + growth * up) / (1.0 + growth)
        value = np.maximum(fewer, at_once)
        value[0] = max(value[0], float(fewer[: self.cells + 1].max()))
        value[:-1] = np.maximum(value[:-1], _within(down[:-1], down[1:], at_once[:-1], at_once[1:], self.flows[0]))
        value[1:-1] = np.maximum(value[1:-1], _within(up[1:-1], up[:-2], at_once[1:-1], at_once[:-2], self.flows[1]))
        return value


def _within(near: _Column, far: _Column, start: _Column, end: _Column, flow: _Flow) -> _Column:
    """Return the best of flowing a part of a cell and then taking what is linear from `start` to `end`, or 0.

    After the time -ln z it is a + b + A z + B z^r, with a + b r x the value after an arrival and (a + A) + (b + B) x
    `at_once`, x being 1 at the cell's start.
    """
    length = 1.0 - flow.shrink
    slope = (near - far) / (length * flow.rate)
    constant = near - slope * flow.rate
    steep = (start - end) / length
    first, second = start - steep - constant, steep - slope
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        best = np.power(-first / (second * flow.rate), 1.0 / (flow.rate - 1.0))
        inside = (best > flow.stay) & (best < 1.0)
        worth = constant + slope + first * best + second * np.power(best, flow.rate)
    return np.where(inside, worth, 0.0)


def _sweep(least: _Column, gains: _Column, stay: float) -> _Column:
    """Solve y_j = max(least_j, gains_j + stay y_{j-1}), y_0 = least_0."""
    value = np.empty_like(least)
    block = math.ceil(-400.0 / math.log(stay))
    for begin in range(0, len(least), block):
        part = slice(begin, begin + block)
        lower, gain = least[part].copy(), gains[part].copy()
        if begin:
            lower[0] = max(lower[0], gain[0] + stay * value[begin - 1])
        gain[0] = 0.0
        growth = np.power(stay, -np.arange(len(lower), dtype=np.float64))
        total = np.cumsum(gain * growth)
        value[part] = (total + np.maximum.accumulate(lower * growth - total)) / growth
    return value


def _price(order: float, scale: float) -> float:
    """Return Theorem 17's kappa."""
    return -order * scale - math.log1p(-order * math.expm1(scale))


def _best_order(scale: float, paid: int, epsilon: float) -> tuple[float, float]:
    """Return the best theta of Theorem 17 and about the log delta it gives."""

    def log_delta(log_order: float) -> float:
        order = math.exp(log_order)
        return paid * _price(order, scale) - order * epsilon - (1.0 + order) * math.log1p(1.0 / order) - log_order

    most = math.log(1.0 / math.expm1(scale))
    found = scipy.optimize.minimize_scalar(log_delta, bounds=(most - 12.0, most - 1e-9), method="bounded")
    return math.exp(found.x), min(float(found.fun), 0.0)


def worst_log_delta(
    scale: float, paid: int, epsilon: float, *, cells: int = 10, start: tuple[float, int] | None = None
) -> float:
    """Return log of the largest delta that any adversary of K paid questions "above" reaches, rounded up.

    Formal guarantees:
        * It is at least the supremum, whatever the grid: each stage is checked against the inequalities of
          PRIVACY.md, Theorem 20, before it is used. 0 is returned if a check fails.

    Args:
        scale: e (nats), above 0.
        paid: K, at least 1.
        epsilon: eps (nats), above 0.
        cells: Grid cells for each e of loss; 10 leave up to 3 % of delta, and twice as many a quarter of that.
        start: Inverse scale (nats) and number of counts that were shown before with discrete Laplace noise, each moved
            by 1 by the record: PRIVACY.md, Theorem 22.
    """
    losses, weights = _start_law(*(start or (0.0, 0)))
    order, about = _best_order(scale, paid, epsilon)
    reach = scale * math.sqrt(paid * (2.0 - 2.0 * about)) + scale * (6.0 - about / paid)
    if start is not None:
        reach += start[0] * min(start[1], math.sqrt(start[1] * (2.0 - 2.0 * about)))
    for _ in range(_WIDENINGS):
        game = _game(scale, paid, epsilon, order, cells=cells, reach=reach)
        value = game.value
        if value is not None:
            found = math.fsum(weights * game.at(value, losses))
            return min(math.log(found) + 10.0 * _ROUNDING, 0.0)
        reach *= 2.0
    return 0.0


def _start_law(slope: float, counts: int) -> tuple[_Column, _Column]:
    """Return the losses that counts with discrete Laplace noise may have, and their probabilities.

    A shift of 1 has a loss of e with probability exp(e)/(1 + exp(e)), and else of -e.
    """
    ups = np.arange(counts + 1, dtype=np.float64)
    right = 1.0 / (1.0 + math.exp(-slope))
    left = math.exp(-slope) * right
    weights = [math.comb(counts, up) * right**up * left ** (counts - up) for up in range(counts + 1)]
    return slope * (2.0 * ups - counts), np.array(weights, dtype=np.float64)


def _game(  # noqa: PLR0913 -- the mechanism, and the grid
    scale: float, paid: int, epsilon: float, order: float, *, cells: int, reach: float
) -> _Game:
    """Return the game on a grid that extends so many nats beyond 0 and epsilon."""
    below, above = math.ceil(reach * cells / scale), math.ceil((epsilon + reach) * cells / scale)
    return _Game(scale, paid, epsilon, cells, below, below + above + 1, order)
