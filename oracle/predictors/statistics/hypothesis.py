"""The public hypothesis: a distribution over the cells of a table, as whole numbers.

Weights are float64 numbers without a fraction that sum to about 2^52, and never to 2^53: so every sum of them is
exact, in any order (`oracle.predictors.statistics.sums`), and each of them follows from two roundings that IEEE 754
fixes. They are rounded up, so a move's rounding brings KL(data || hypothesis) up by 2^-26 at most: no weight falls, and
their sum rises by one for each cell. No weight is ever below 1.
"""

import math
from collections.abc import Sequence
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from oracle.predictors.statistics.sums import Masks, Sums

__all__ = ["Hypothesis"]

_TOTAL: Final = 2.0**52
_BLOCK: Final = 1 << 16
"""Weights that are multiplied at a time."""


class Hypothesis(Sums):
    """A distribution over the cells.

    Args:
        weights: float64 of the table's shape, whole numbers from 1 on that sum to less than 2^53; kept, and changed.
    """

    def __init__(self, weights: NDArray[np.float64]) -> None:
        super().__init__(weights.shape)
        self._weights = weights
        self._total = float(weights.sum())

    @classmethod
    def product(cls, marginals: Sequence[NDArray[np.float64]], uniform: float) -> Self:
        """Return a product distribution, mixed with the uniform one over all cells.

        Args:
            marginals: float64[cells] of each attribute, not negative, each summing to 1.
            uniform: Share of the uniform distribution, from 0 to 1; above 0 where a marginal has a 0.
        """
        shape = tuple(map(len, marginals))
        weights = np.full(shape, (1.0 - uniform) * _TOTAL)
        for attribute, marginal in enumerate(marginals):
            weights *= marginal.reshape([-1 if other == attribute else 1 for other in range(len(shape))])
        weights += uniform * _TOTAL / weights.size
        return cls(_whole(weights))

    @classmethod
    def uniform(cls, shape: tuple[int, ...]) -> Self:
        """Return the uniform distribution over all cells."""
        return cls.product([np.full(cells, 1.0 / cells) for cells in shape], 0.0)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weights themselves, of the table's shape."""
        return self._weights

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return self._total

    def shares(self, masks: Masks) -> NDArray[np.float64]:
        """Return the hypothesis' answers: float64[n], from 0 to 1."""
        return self.over(masks) / self._total

    def share(self, masks: Masks) -> float:
        """Return its answer to one question: `masks` are bool[cells] of each attribute."""
        return float(self.over([mask[None] for mask in masks])[0]) / self._total

    def move(self, masks: Masks, target: float) -> float:
        """Move the share of a question's cells to another one: the I-projection onto all that have it.

        Weights within the question are multiplied by one factor, those outside by another.

        Args:
            masks: bool[cells] of each attribute.
            target: Above 0 and below 1.

        Returns:
            KL(new || old) of the move (nats), but for the rounding of weights; 0 where no weight can move.
        """
        inside = float(self.over([mask[None] for mask in masks])[0])
        outside = self._total - inside
        if not (inside > 0.0 and outside > 0.0 and 0.0 < target < 1.0):
            return 0.0
        before = inside / self._total
        self._scale(masks, target * _TOTAL / inside, (1.0 - target) * _TOTAL / outside)
        return target * math.log(target / before) + (1.0 - target) * math.log((1.0 - target) / (1.0 - before))

    def weigh(self, masks: Masks, within: float, beyond: float) -> None:
        """Multiply the cells of a question by one number, all others by another, and normalise.

        Args:
            masks: bool[cells] of each attribute.
            within: Above 0.
            beyond: Above 0.
        """
        inside = float(self.over([mask[None] for mask in masks])[0])
        whole = _TOTAL / (within * inside + beyond * (self._total - inside))
        self._scale(masks, within * whole, beyond * whole)

    def _scale(self, masks: Masks, within: float, beyond: float) -> None:
        asked = [not mask.all() for mask in masks]
        box = np.ones((), dtype=np.bool_)
        for mask, named in zip(masks, asked, strict=True):
            box = box[..., None] & mask if named else box[..., None]
        self._multiply(np.where(box, within, beyond), asked)

    def _multiply(self, factors: NDArray[np.float64], named: Sequence[bool]) -> None:
        """Multiply all weights by factors that depend on some attributes only; the others' axes have length 1."""
        runs = _runs(self._shape, named)
        weights = self._weights.reshape([cells for cells, _ in runs])  # a view: numpy is fast with few axes
        self._total = _scaled(weights, factors.reshape([cells if kept else 1 for cells, kept in runs]))
        self._kept.clear()

    def fit(self, about: tuple[int, ...], wanted: NDArray[np.float64], part: float) -> None:
        """Scale all cells so that a marginal becomes another one, or goes a part of the way.

        Args:
            about: Its attributes, in order.
            wanted: float64 of these attributes' shape, above 0, summing to 1.
            part: Part of the way, above 0 and at most 1.
        """
        found = self._summed(about)
        factors = ((1.0 - part) * found + part * _TOTAL * wanted) / found
        self._multiply(factors, [attribute in about for attribute in range(len(self._shape))])

    def mend(self, about: tuple[int, ...], wanted: NDArray[np.float64], slack: float) -> None:
        """Bring a marginal's shares within `slack` of what they are to be: the I-projection onto all that are.

        Each share is within it then, but for rounding: 2^-50 for each cell of the table, and 2^-48. Nothing moves where
        all are.

        Args:
            about: Its attributes, in order.
            wanted: float64 of these attributes' shape, not negative, summing to 1.
            slack: Share of the rows, not negative.
        """
        found = self._summed(about)
        rounding = (4.0 * self._weights.size + 16.0) / _TOTAL
        if (np.abs(found / self._total - wanted) <= slack + rounding).all():
            return
        least, most = (_whole(np.clip((wanted + off) * _TOTAL, 1.0, _TOTAL)) for off in (-slack, slack))
        goal = _bounded(found, least, most)
        self._multiply(goal / found, [attribute in about for attribute in range(len(self._shape))])

    def spread(self, uniform: float) -> None:
        """Mix with the uniform distribution over all cells, of which it gets a share."""
        self._weights *= 1.0 - uniform
        self._weights += uniform * _TOTAL / self._weights.size
        self._total = float(_whole(self._weights).sum())
        self._kept.clear()

    def _summed(self, about: tuple[int, ...]) -> NDArray[np.float64]:
        runs = _runs(self._shape, [attribute in about for attribute in range(len(self._shape))])
        return _kept(self._weights, runs).reshape([self._shape[attribute] for attribute in about])

    def _one(self, about: tuple[int, ...], masks: Masks) -> float:
        weights = self._weights
        for attribute, mask in zip(about, masks, strict=True):
            weights = weights.compress(mask, axis=attribute)
        return float(weights.sum())


def _bounded(found: NDArray[np.float64], least: NDArray[np.float64], most: NDArray[np.float64]) -> NDArray[np.float64]:
    """Multiply sums by the one factor with which they, cut off at their bounds, add up to 2^52.

    That is the distribution within the bounds that is nearest to them by KL. With a rising factor their sum rises along
    straight lines that join where one of them leaves its lower bound or meets its upper one.

    Args:
        found: float64, whole numbers from 1 on that sum to less than 2^53.
        least: The same, that sum to 2^52 at most but for rounding.
        most: The same, from `least` to 2^52 each, that sum to 2^52 at least but for rounding.
    """
    joints = np.concatenate([(bound / found).reshape(-1) for bound in (least, most)])
    order = np.argsort(joints, kind="stable")
    joints = joints[order]
    # exact up to 2^53, and beyond it they only have to stay beyond 2^52
    fixed = least.sum() + np.cumsum(np.concatenate([-least, most], axis=None)[order])
    free = np.cumsum(np.concatenate([found, -found], axis=None)[order])
    behind = min(max(int(np.searchsorted(fixed + joints * free, _TOTAL)), 1), len(joints) - 1)
    factor = (_TOTAL - fixed[behind - 1]) / free[behind - 1]  # above 0: the sum rises up to the joint behind
    bounded: NDArray[np.float64] = np.clip(factor * found, least, most)
    return bounded


def _runs(shape: Sequence[int], named: Sequence[bool]) -> list[tuple[int, bool]]:
    """Return the axes of a table with neighbours joined that are alike: how many cells each has, and which kind."""
    runs: list[tuple[int, bool]] = []
    for cells, kind in zip(shape, named, strict=True):
        if runs and runs[-1][1] == kind:
            runs[-1] = (runs[-1][0] * cells, kind)
        else:
            runs.append((cells, kind))
    return runs


def _scaled(weights: NDArray[np.float64], factors: NDArray[np.float64]) -> float:
    """Multiply weights by factors, round them in place, and return their sum; block by block, as caches are small."""
    step = max(_BLOCK * len(weights) // weights.size, 1)
    total = 0.0
    for start in range(0, len(weights), step):
        part = weights[start : start + step]
        by = factors if len(factors) == 1 else factors[start : start + step]
        if part.size > _BLOCK and part.ndim > 1:
            total += _scaled(part[0], by[0])
            continue
        part *= by
        total += float(_whole(part).sum())
    return total


def _kept(weights: NDArray[np.float64], runs: Sequence[tuple[int, bool]]) -> NDArray[np.float64]:
    """Sum a table over the axes that are not kept: as products with ones, which BLAS does many times faster.

    What comes first and last of them goes first, as whole rows and columns; only then what lies in between.
    """
    sums, sizes = weights, [cells for cells, _ in runs]
    dropped = [axis for axis, (_, kept) in enumerate(runs) if not kept]
    for axis in sorted(dropped, key=lambda axis: (axis > 0, axis < len(runs) - 1, -axis)):
        before, cells, behind = math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])
        ones = np.ones(cells)
        sums = sums.reshape(before, cells) @ ones if behind == 1 else ones @ sums.reshape(before, cells, behind)
        sizes[axis] = 1
    return sums


def _whole(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round weights, all of them above 0, up to whole numbers, in place."""
    return np.ceil(weights, out=weights)
