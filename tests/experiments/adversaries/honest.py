"""Honest queries: laws of a point in a box, with uniform margins on [0, 1], and those outside of it.

A law can be asked for its *outer* points alone: those in a tail of some feature. That is what lets the compressed
driver leave out the queries far inside, which no private point can tell apart.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, special

Floats = NDArray[np.float64]

LOW: Final = 0.05
HIGH: Final = 0.95
"""The target is the box [LOW, HIGH]^d; the declared bounds are [0, 1]."""

_STEPS: Final = (0.01, 0.02, 0.04)
"""How far outside they lie."""


class Law:
    """Independent uniform features; the other laws change how the features hang together.

    Args:
        dimension: d, number of features.
    """

    share: float | None = None
    """What an operator who knows of the dependence declares as `share`; None leaves the planner's estimate."""

    negatives: float = 0.04
    """Part of the honest queries, and of the examples, that lies outside the box."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    @property
    def sides(self) -> int:
        """S = 2 d."""
        return 2 * self.dimension

    def atoms(self) -> tuple[Floats, Floats] | None:
        """Return points float64[n, d] in [0, 1]^d and their masses, if the law has finitely many."""
        return None

    def inside(self, generator: np.random.Generator, count: int) -> Floats:
        """Draw points in [0, 1]^d: float64[count, d]."""
        return generator.random((count, self.dimension))

    def outer_mass(self, cuts: Floats) -> float:
        """Return the mass of the points in any tail: side s's has mass cuts[s], lower and upper by turns."""
        return float(1.0 - np.prod(1.0 - cuts[::2] - cuts[1::2]))

    def outer(self, generator: np.random.Generator, count: int, cuts: Floats) -> Floats:
        """Draw points that lie in some tail: float64[d, count].

        A tail is picked by its mass, then a point in it; one that lies in several tails is kept for one of them.
        """
        found: list[Floats] = []
        missing = count
        shares = np.cumsum(cuts / cuts.sum())[:-1]
        while missing > 0:
            tried = round(missing * self._overlap() * 1.05) + 16
            sides = shares.searchsorted(generator.random(tried), side="right")
            tails = generator.random(tried) * cuts[sides]
            kept = self._once(generator, sides // 2, np.where(sides % 2, 1.0 - tails, tails), cuts)[:, :missing]
            found.append(kept)
            missing -= kept.shape[1]
        return np.concatenate(found, axis=1)

    def _overlap(self) -> float:
        """Return about how many tails an outer point lies in: only a matter of speed."""
        return 1.03

    def _once(self, generator: np.random.Generator, features: NDArray[np.intp], values: Floats, cuts: Floats) -> Floats:
        """Draw points with one feature given, and return those in k tails with probability 1/k: float64[d, n]."""
        points = self._given(generator, features, values)
        hit = np.zeros(len(values))
        for feature, column in enumerate(points):
            hit += (column < cuts[2 * feature]) | (column > 1.0 - cuts[2 * feature + 1])
        return points[:, np.flatnonzero(generator.random(len(values)) * hit < 1.0)]

    def _given(self, generator: np.random.Generator, features: NDArray[np.intp], values: Floats) -> Floats:
        """Draw points with one feature given: float64[d, n]."""
        points = generator.random((self.dimension, len(values)))
        points[features, np.arange(len(values))] = values
        return points

    def outside(self) -> Floats:
        """Return the honest queries outside the box, equally likely each: float64[n, d], in the queries' units."""
        points = []
        for side in range(self.sides):
            for step in _STEPS:
                point = np.full(self.dimension, 0.5)
                point[side // 2] = HIGH + step if side % 2 else LOW - step
                points.append(point)
        return np.array(points)

    def sample(self, generator: np.random.Generator, count: int) -> tuple[Floats, NDArray[np.bool_]]:
        """Draw honest queries, in their own units, and whether each lies in the box."""
        points = LOW + (HIGH - LOW) * self.inside(generator, count)
        beyond = self.outside()
        away = generator.random(count) < self.negatives
        points[away] = beyond[generator.integers(0, len(beyond), int(away.sum()))]
        return points, ~away

    def examples(self, generator: np.random.Generator, count: int, flipped: float) -> tuple[Floats, NDArray[np.bool_]]:
        """Draw labelled examples: points, and whether each lies in the box, which is wrong for a part of them."""
        points, labels = self.sample(generator, count)
        return points, labels ^ (generator.random(count) < flipped)


class ManyNegatives(Law):
    """Three of ten honest queries, and of the examples, lie outside the box."""

    negatives = 0.30


class Duplicates(Law):
    """All features are copies of the first: all lower sides compete for the same points."""

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        # the coin's part and an equal part of the rest: 0.8/d + 0.2/S
        self.share = 0.9 / dimension

    def inside(self, generator: np.random.Generator, count: int) -> Floats:
        """Draw points on the diagonal."""
        return np.repeat(generator.random((count, 1)), self.dimension, axis=1)

    def outer_mass(self, cuts: Floats) -> float:
        """Return the mass of the widest lower tail and the widest upper one."""
        return float(cuts[::2].max() + cuts[1::2].max())

    def outer(self, generator: np.random.Generator, count: int, cuts: Floats) -> Floats:
        """Draw in the widest lower tail or the widest upper one."""
        lower, upper = float(cuts[::2].max()), float(cuts[1::2].max())
        position = generator.random(count) * (lower + upper)
        return np.repeat(
            np.where(position < lower, position, 1.0 - (position - lower))[None, :], self.dimension, axis=0
        )

    def outside(self) -> Floats:
        """Return points on the diagonal outside the box."""
        values = np.array([LOW - step for step in _STEPS] + [HIGH + step for step in _STEPS])
        return np.repeat(values[:, None], self.dimension, axis=1)


class Correlated(Law):
    """A Gaussian copula in which any two features have correlation 0.99.

    In a stripe of small mass the other features are as near to their faces as the first: `faces` shares a stripe among
    d sides, as with copies.
    """

    _RHO: Final = 0.99

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.share = 0.9 / dimension

    def inside(self, generator: np.random.Generator, count: int) -> Floats:
        """Draw points of the copula."""
        common = generator.standard_normal((count, 1)) * math.sqrt(self._RHO)
        own = generator.standard_normal((count, self.dimension)) * math.sqrt(1.0 - self._RHO)
        points: Floats = special.ndtr(common + own)
        return points

    def outer_mass(self, cuts: Floats) -> float:
        """Integrate over the common part: given it, the features are independent."""
        lower, upper = special.ndtri(cuts[::2]), -special.ndtri(cuts[1::2])
        root, rest = math.sqrt(self._RHO), math.sqrt(1.0 - self._RHO)
        grid = np.linspace(-9.0, 9.0, 36_001)[:, None]
        below = special.ndtr((lower - root * grid) / rest) + special.ndtr((root * grid - upper) / rest)
        union = -np.expm1(np.log1p(-np.minimum(below, 1.0 - 1e-16)).sum(axis=1))
        return float(
            integrate.simpson(union * np.exp(-(grid[:, 0] ** 2) / 2.0) / math.sqrt(2.0 * math.pi), x=grid[:, 0])
        )

    def _overlap(self) -> float:
        return 0.9 * self.dimension

    def _once(self, generator: np.random.Generator, features: NDArray[np.intp], values: Floats, cuts: Floats) -> Floats:
        """Draw points with one feature given, and return those with no feature before it in a tail: float64[d, n].

        Most of the other features are drawn for these only, which matters where tails nearly coincide.
        """
        common = self._RHO * special.ndtri(values)
        common += generator.standard_normal(len(values)) * math.sqrt(self._RHO - self._RHO**2)
        points = np.empty((self.dimension, len(values)))
        alive = np.arange(len(values))
        for feature in range(self.dimension):
            later = alive[features[alive] > feature]
            drawn = self._feature(generator, common[later])
            points[feature, later] = drawn
            free = (drawn >= cuts[2 * feature]) & (drawn <= 1.0 - cuts[2 * feature + 1])
            alive = np.concatenate([alive[features[alive] <= feature], later[free]])
        alive.sort()  # in the order they were tried: which features are given shall not depend on the position
        for feature in range(self.dimension):
            earlier = alive[features[alive] < feature]
            points[feature, earlier] = self._feature(generator, common[earlier])
        points[features[alive], alive] = values[alive]
        return points[:, alive]

    def _feature(self, generator: np.random.Generator, common: Floats) -> Floats:
        drawn: Floats = special.ndtr(common + generator.standard_normal(len(common)) * math.sqrt(1.0 - self._RHO))
        return drawn

    def outside(self) -> Floats:
        """Return points on the diagonal outside the box."""
        return Duplicates(self.dimension).outside()


class Atoms(Law):
    """Few distinct values a feature, the outer ones rare: a stripe is a handful of values with many ties."""

    _RARE: Final = 8
    _BULK: Final = 8
    _PARTNERS: Final = 16

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        generator = np.random.default_rng(77)
        values = np.linspace(0.02, 0.98, 2 * self._RARE + self._BULK)
        bulk = values[self._RARE : -self._RARE]
        points = [generator.choice(bulk, (512, dimension))]
        masses = [np.full(512, 1.0)]
        for feature in range(dimension):
            for rank in range(self._RARE):
                for value in (values[rank], values[-1 - rank]):
                    block = generator.choice(values[4:-4], (self._PARTNERS, dimension))
                    block[:, feature] = value
                    points.append(block)
                    masses.append(np.full(self._PARTNERS, 1e-4 * 2.0**rank / (dimension * self._PARTNERS)))
        masses[0] *= (1.0 - sum(float(part.sum()) for part in masses[1:])) / 512.0
        self._points, self._masses = np.concatenate(points), np.concatenate(masses)

    def atoms(self) -> tuple[Floats, Floats]:
        """Return all points and their masses."""
        return self._points, self._masses

    def inside(self, generator: np.random.Generator, count: int) -> Floats:
        """Draw points of the support."""
        points: Floats = self._points[generator.choice(len(self._masses), count, p=self._masses)]
        return points

    def outer_mass(self, cuts: Floats) -> float:
        """Return 0: every point is an atom, and none is left out."""
        del cuts
        return 0.0
