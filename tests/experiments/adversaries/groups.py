"""Queries that are asked many times: the adversary's, the honest ones outside, atoms, and all that lie far inside."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.slicing import Faces
from oracle.planning.plan import BoxPlan
from oracle.predictors.sides import Geometry
from tests.experiments.adversaries.honest import HIGH, LOW, Law
from tests.experiments.adversaries.views import Mix
from tests.experiments.adversaries.weighted import Armed

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]

_NEAR = 0.1
"""The rule of `Faces`: sides within 10 % of the outermost score share; a test compares the two."""


def face_weights(faces: Faces, keys: Floats) -> Floats:
    """Return P(`Faces.choose` gives the query to each side): float64[n, S]."""
    sides = len(keys)
    scores = (faces.centers[:, None] - keys) / faces.scales[:, None]
    best = scores.max(axis=0)
    near = scores >= best - _NEAR * np.abs(best)
    weights: Floats = ((1.0 - faces.coin) * near / near.sum(axis=0) + faces.coin / sides).T
    return weights


@dataclass
class Groups:
    """Groups of identical queries with the probability of each in a round that is no honest outer query.

    Attributes:
        queries: float64[G, d].
        keys: float64[S, G].
        rates: float64[G], probability in any round.
        honest: Asked by honest users.
        positive: Honest and in the box.
        known: Really one query; False for the group of all honest queries inside the tails.
        hostile_outside: Hostile and outside the box.
        inside: Part of the stream that is honest and in the box.
    """

    queries: Floats
    keys: Floats
    rates: Floats
    honest: Flags
    positive: Flags
    known: Flags
    hostile_outside: Flags
    inside: float
    medium_rates: Floats = field(default_factory=lambda: np.empty(0))
    _mediums: Floats = field(default_factory=lambda: np.empty(0))
    _rest: Floats = field(default_factory=lambda: np.empty(0))
    _ones: Floats = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, plan: BoxPlan, geometry: Geometry, law: Law, mix: Mix, inner: tuple[Floats, float]) -> "Groups":
        """Put the groups of a stretch together.

        Args:
            plan: The plan.
            geometry: Its geometry.
            law: The honest law.
            mix: The adversary's queries.
            inner: Keys that stand for the honest queries inside the tails, and their mass.
        """
        gamma, beyond = plan.gamma, law.outside()
        atoms, masses = law.atoms() or (np.empty((0, law.dimension)), np.empty(0))
        parts = [
            (mix.queries, (1.0 - gamma) * mix.weights),
            (beyond, np.full(len(beyond), gamma * law.negatives / len(beyond))),
            (LOW + (HIGH - LOW) * atoms, gamma * (1.0 - law.negatives) * masses),
        ]
        kinds = [np.full(len(queries), kind) for kind, (queries, _) in enumerate(parts)]
        queries = np.concatenate([part for part, _ in parts])
        rates = np.concatenate([part for _, part in parts])
        keys = geometry.keys(queries)
        if inner[1] > 0.0:
            kinds.append(np.array([3]))
            queries = np.concatenate([queries, np.full((1, law.dimension), 0.5)])
            rates = np.append(rates, gamma * (1.0 - law.negatives) * inner[1])
            keys = np.concatenate([keys, inner[0][:, None]], axis=1)
        kind = np.concatenate(kinds)
        out = ((queries < LOW) | (queries > HIGH)).any(axis=1)
        return cls(queries, keys, rates, kind > 0, kind > 1, kind < 3, (kind == 0) & out, gamma * (1.0 - law.negatives))

    @property
    def negative(self) -> Flags:
        """Honest and outside the box."""
        return self.honest & ~self.positive

    def outer_rate(self, outer_mass: float) -> float:
        """Return the probability that a round is an honest outer query."""
        return self.inside * outer_mass

    def decide(self, armed: list[Armed], total: float) -> None:
        """Work out what the sides say to each group, the first that does not say high deciding.

        Args:
            armed: The sides.
            total: Probability that a round belongs to some group.
        """
        weights = self.rates / total
        undecided = np.ones(len(weights))
        mediums = np.empty(self.keys.shape)
        for side, one in enumerate(armed):
            depths = one.depth(self.keys[side])
            mediums[side] = undecided * one.laws.medium[depths]
            undecided *= one.laws.high[depths]
        self._mediums = mediums * weights
        self.medium_rates = self._mediums.sum(axis=1)
        spared = np.maximum(1.0 - mediums.sum(axis=0), 0.0)
        self._rest = weights * spared
        self._ones = np.clip(undecided / np.maximum(spared, 1e-300), 0.0, 1.0)

    def draw_mediums(self, generator: np.random.Generator, side: int, count: int) -> Counts:
        """Say which queries so many mediums of a side were: int64[G]."""
        weights = self._mediums[side]
        counts: Counts = generator.multinomial(count, weights / weights.sum())
        return counts

    def draw_rest(self, generator: np.random.Generator, count: int) -> tuple[Counts, Counts]:
        """Say which queries so many rounds without a medium were, and how many of each got label 1."""
        asked: Counts = generator.multinomial(count, self._rest / self._rest.sum())
        ones: Counts = generator.binomial(asked, self._ones)
        return asked, ones
