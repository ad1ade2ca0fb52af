"""What the next phase's points are cut from, in the compressed driver: the outermost positives of every side."""

import numpy as np
from numpy.typing import NDArray

from oracle.planning.plan import PhasePlan
from oracle.predictors.sides import Geometry
from tests.experiments.adversaries.groups import face_weights
from tests.experiments.adversaries.honest import HIGH, LOW, Law
from tests.experiments.adversaries.weighted import Pile, outermost

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


class TailsTooNarrowError(Exception):
    """A side's next points were not all in its tail: the simulation would not be exact."""


def box_edges(sides: int) -> Floats:
    """Return the box's edges as keys, lower and upper by turns: float64[S]."""
    return np.array([-HIGH if side % 2 else LOW for side in range(sides)])


class Tails:
    """The sides' outer tails during one phase, and the positives harvested in them.

    Args:
        geometry: Its geometry.
        law: The honest queries.
        generator: All randomness.
        following: The phase whose start is cut from the harvest.
        starts: float64[S], mass beyond which no point of a side lies.
        wanted: float64[S], mass further in that the harvest should need.
    """

    def __init__(  # noqa: PLR0913, PLR0917 -- what a phase is given
        self,
        geometry: Geometry,
        law: Law,
        generator: np.random.Generator,
        following: PhasePlan,
        starts: Floats,
        wanted: float,
    ) -> None:
        self._geometry = geometry
        self._law = law
        self._generator = generator
        self._following = following
        self.edges = box_edges(geometry.sides)
        self.cuts = np.minimum(starts + wanted, 0.45)
        self.mass = law.outer_mass(self.cuts)
        self.keys = np.where(law.atoms() is not None, np.inf, self.edges + (HIGH - LOW) * self.cuts)
        keep = following.start.points + following.start.trim
        self._piles = [Pile(keep, float(key)) for key in self.keys]
        self._faces = geometry.faces

    def draw(self, count: int) -> Floats:
        """Draw honest queries in the tails, as keys on every side: float64[S, count]."""
        if not count:
            return np.empty((len(self.edges), 0))
        points = self._law.outer(self._generator, count, self.cuts)
        keys = np.empty((len(self.edges), count))
        keys[::2] = LOW + (HIGH - LOW) * points
        keys[1::2] = -keys[::2]
        return keys

    def add(self, keys: Floats) -> None:
        """Harvest positives one by one: float64[S, n] keys."""
        useful = np.zeros(keys.shape[1], dtype=np.bool_)
        for column, pile in zip(keys, self._piles, strict=True):
            useful |= column <= pile.bound
        if not useful.all():
            keys = keys[:, useful]
        words = self._generator.integers(0, 2**64, (keys.shape[1], 2), dtype=np.uint64)
        sides = self._faces.choose(keys, words)
        for side, pile in enumerate(self._piles):
            mine = keys[side, sides == side]
            pile.add(mine, np.ones(len(mine), dtype=np.int64))

    def add_groups(self, queries: Floats, counts: Counts) -> None:
        """Harvest queries[g] so many times each."""
        asked = counts > 0
        if asked.any():
            keys = self._geometry.keys(queries[asked])
            shares = self._generator.multinomial(counts[asked], face_weights(self._faces, keys))
            for side, pile in enumerate(self._piles):
                pile.add(keys[side], shares[:, side])

    def cut(self) -> list[tuple[Floats, Counts]]:
        """Return each side's start points for the following phase.

        Raises:
            TailsTooNarrowError: A tail did not hold them all.
        """
        instance, slices = self._following.start, []
        for side, pile in enumerate(self._piles):
            keys, counts = pile.ordered()
            if counts.sum() < instance.points + instance.trim and np.isfinite(self.keys[side]):
                msg = f"phase {self._following.phase}, side {side}: {counts.sum()} of {instance.points} in the tail"
                raise TailsTooNarrowError(msg)
            slices.append(outermost(keys, counts, instance.points, instance.trim))
        return slices


def trained(
    tails: Tails, law: Law, rows: int, flipped: float, generator: np.random.Generator
) -> list[tuple[Floats, Counts]]:
    """Harvest a training set of so many rows, a part of whose labels is wrong, and cut the first phase's points."""
    away = int(generator.binomial(rows, law.negatives))
    positives = int(generator.binomial(rows - away, 1.0 - flipped))
    tails.add(tails.draw(int(generator.binomial(positives, tails.mass))))
    atoms = law.atoms()
    if atoms is not None:
        tails.add_groups(LOW + (HIGH - LOW) * atoms[0], generator.multinomial(positives, atoms[1]))
    wrong = int(generator.binomial(away, flipped))
    beyond = law.outside()
    tails.add_groups(beyond, generator.multinomial(wrong, np.full(len(beyond), 1.0 / len(beyond))))
    return tails.cut()
