"""What an adversary is shown, and what it answers with."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.planning.plan import PhasePlan
from tests.experiments.adversaries.weighted import Armed

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class View:
    """Everything there is to know: the private points of every side, more than all answers could tell.

    Attributes:
        phase: The current phase's plan.
        left: Rounds left in the phase.
        hostile: Part of the stream that is the adversary's.
        armed: Every side's points.
        mediums: How many mediums each has collected.
        rearms: How often each side was armed afresh in this phase.
    """

    phase: PhasePlan
    left: int
    hostile: float
    armed: list[Armed]
    mediums: list[int]
    rearms: list[int]

    @property
    def dimension(self) -> int:
        """Number of features that decide: each has a lower and an upper side, or, of a stump, the one edge."""
        return (len(self.armed) + 1) // 2

    def query(self, side: int, key: float) -> Floats:
        """Return the query in the middle of the box but for one side, where it has this key."""
        point = np.full(self.dimension, 0.5)
        point[side // 2] = -key if side % 2 else key
        return point


@dataclass(frozen=True)
class Mix:
    """Until it is asked again, the adversary asks queries[g] with probability weights[g].

    Attributes:
        queries: float64[G, d].
        weights: float64[G], sum 1.
    """

    queries: Floats
    weights: Floats


class Adversary:
    """Chooses the hostile part of the stream."""

    def mix(self, view: View) -> Mix:
        """Say what to ask next; asked again every fraction of a phase, and whenever a side is armed afresh."""
        raise NotImplementedError


def mixed(*parts: tuple[float, Mix]) -> Mix:
    """Return a mixture of mixes with these (relative) weights."""
    total = sum(weight for weight, _ in parts)
    queries = np.concatenate([mix.queries for _, mix in parts])
    weights = np.concatenate([mix.weights * (weight / total) for weight, mix in parts])
    return Mix(queries, weights)
