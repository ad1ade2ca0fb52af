"""What differs where a stump is attacked: examples and honest queries, what training leaves, and the drivers' start.

The best stump says 1 where the first feature is at least LOW: to six of ten examples and honest queries. The trainer is
the real one, over all its rows. From there on one side watches one feature, and whatever a query's other features are
decides nothing: so the simulator works with the law of that feature alone.

What is counted as an error is an answer that differs from the best stump's. That is no less than the error beyond the
best stump's, whatever the labels: where a label is 1 with probability r, a miss costs 2r - 1 more than the stump does.
"""

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.planning.model import Feature
from oracle.planning.planner import plan_sufficient
from oracle.planning.stumps.model import StumpsModel, StumpsPlan
from oracle.predictors.sides import Geometry
from oracle.predictors.stumps import StumpsPERP, StumpsTrainer
from tests.experiments.adversaries.compressed import Compressed, Start
from tests.experiments.adversaries.honest import HIGH, LOW, Atoms, Duplicates, Law
from tests.experiments.adversaries.views import Adversary

Floats = NDArray[np.float64]

BELOW: Final = 0.4
"""Part of the examples and of the honest queries that the best stump says 0 to."""

_VALUES: Final = 1024
"""Distinct values of a feature below LOW; from there on every float is one."""

_UNFIT: Final = 0.2
"""Part of those that the best stump says 1 to whose label is 0, where no stump fits."""


class WrongStumpError(Exception):
    """The trainer did not choose the best stump, nor a copy of it."""


def _grid() -> Floats:
    return LOW * (np.arange(_VALUES) + 0.5) / _VALUES


class KeyLaw(Law):
    """The honest queries as the one side sees them: one feature, one edge.

    Args:
        law: How the features hang together.
    """

    negatives = BELOW

    def __init__(self, law: type[Law]) -> None:
        super().__init__(1)
        self._atoms = Atoms(1).atoms() if law is Atoms else None

    def atoms(self) -> tuple[Floats, Floats] | None:
        """Return the points inside the edge and their masses, if these are finitely many."""
        return self._atoms

    def outer_mass(self, cuts: Floats) -> float:
        """Return the mass of the one tail."""
        return 0.0 if self._atoms else float(cuts[0])

    def outer(self, generator: np.random.Generator, count: int, cuts: Floats) -> Floats:
        """Draw points in the tail: float64[1, count]."""
        points: Floats = generator.random((1, count)) * cuts[0]
        return points

    def outside(self) -> Floats:
        """Return all points below the edge, equally likely each."""
        return _grid()[:, None]


class Examples(Law):
    """Examples and honest queries in d dimensions.

    Args:
        dimension: d.
        law: How the features hang together: copies, or correlated, on both sides of the edge; or atoms inside it.
        unfit: The label is 0 for one in five that the best stump says 1 to: by the second feature, or, where there is
            none, for the largest values.
    """

    negatives = BELOW

    def __init__(self, dimension: int, law: type[Law] = Law, *, unfit: bool = False) -> None:
        super().__init__(dimension)
        self.law = law
        self._unfit = unfit
        self._ranks = law(dimension)
        self._inside = Atoms(1) if law is Atoms else None

    def sample(self, generator: np.random.Generator, count: int) -> tuple[Floats, NDArray[np.bool_]]:
        """Draw honest queries, and what the best stump says to each."""
        if self._inside is None:
            points = _values(self._ranks.inside(generator, count))
        else:
            values = LOW + (HIGH - LOW) * self._inside.inside(generator, count * self.dimension)
            away = generator.random(len(values)) < BELOW
            values[away, 0] = generator.choice(_grid(), int(away.sum()))
            points = values.reshape(count, self.dimension)
        return points, points[:, 0] >= LOW

    def examples(self, generator: np.random.Generator, count: int, flipped: float) -> tuple[Floats, NDArray[np.bool_]]:
        """Draw labelled examples, a part of whose labels is turned over."""
        points, labels = self.sample(generator, count)
        return points, self.label(points, labels) ^ (generator.random(count) < flipped)

    def label(self, points: Floats, stump: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the labels before any is turned over: float64[n, d] points, and what the best stump says to them."""
        if not self._unfit:
            return stump
        if self.dimension > 1:
            kept: NDArray[np.bool_] = points[:, 1] >= _values(np.array([_UNFIT]))[0]
        else:
            kept = points[:, 0] <= HIGH - _UNFIT * (HIGH - LOW)
        return stump & kept


def _values(ranks: Floats) -> Floats:
    """Return the features of ranks from 0 to 1."""
    below = _grid()[np.minimum(ranks / BELOW * _VALUES, _VALUES - 1).astype(np.intp)]
    return np.where(ranks < BELOW, below, LOW + (HIGH - LOW) * (ranks - BELOW) / (1.0 - BELOW))


def _trained(plan: StumpsPlan, law: Examples, generator: np.random.Generator, flipped: float = 0.0) -> StumpsPERP:
    """Train the real predictor."""
    trainer = StumpsTrainer(plan, generator.bytes(32))
    trainer.add(*law.examples(generator, plan.declared, flipped))
    predictor = trainer.finish()
    stump = predictor._stump
    if not stump.upward or (stump.column and law.law is not Duplicates):
        msg = f"another stump was chosen: {stump}"
        raise WrongStumpError(msg)
    return predictor


@cache
def small_stumps_plan() -> StumpsPlan:
    """Return an accounted plan over two features whose first six phases are 600 thousand rounds."""
    return stumps_plan(2, epsilon=12.0, alpha=0.4, first_share=0.3)


@cache
def stumps_plan(dimension: int, epsilon: float, alpha: float = 0.1, first_share: float | None = None) -> StumpsPlan:
    """Return a plan with gamma = 0.5 and as many examples as it wants."""
    features = tuple(Feature(name=f"f{index}") for index in range(dimension))
    plan = plan_sufficient(
        StumpsModel(
            name="stump",
            predictor="stumps",
            epsilon=epsilon,
            alpha=alpha,
            gamma=0.5,
            examples=1,
            first_share=first_share,
            features=features,
        )
    )
    assert isinstance(plan, StumpsPlan)
    return plan


def compressed_stump(  # noqa: PLR0913 -- each is one thing that runs vary
    plan: StumpsPlan,
    law: Examples,
    adversary: Adversary,
    seed: int,
    *,
    flipped: float = 0.0,
    blocks: int = 200,
    tail: float = 1.35,
) -> Compressed:
    """Return the simulator behind a real trainer.

    Args:
        plan: The plan.
        law: Examples and honest queries.
        adversary: The rest of the stream.
        seed: Of all randomness.
        flipped: Part of the training labels that is wrong.
        blocks: As `Compressed` takes it.
        tail: As `Compressed` takes it.

    Raises:
        WrongStumpError: The trainer did not choose the best stump, nor a copy of it.
    """
    predictor = _trained(plan, law, np.random.default_rng((seed, 1)), flipped)
    points = predictor.export()["points"][0].astype(np.float64)
    keys, counts = np.unique(points[np.isfinite(points)], return_counts=True)
    geometry = Geometry(plan, (f"{plan.features[0].name}:lower",))
    start = Start(geometry, [(keys, counts)], keys[:1])
    return Compressed(plan, KeyLaw(law.law), adversary, seed, start=start, blocks=blocks, tail=tail)
