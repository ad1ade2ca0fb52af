"""The positive training records of a box, kept until the edges are learned that decide which side gets them."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.choice.stripes import Outermost, learn_edge
from oracle.planning.plan import BoxPlan, ScalePlan
from oracle.predictors.sides import Geometry, Harvest

__all__ = ["Positives"]

_SEGMENT: Final = 65_536
"""Records whose coins are made at once."""


class Positives:
    """Keeps positive records in the order of their numbers; learns the edges from them and assigns them to sides.

    Formal guarantees:
        * The edges cost what S choices of `learn_edge` do. Given these, who gets a record depends on it alone.
        * What is returned is a function of the records, the plan and the key, whatever the batches.

    Args:
        plan: The plan, with a scale to learn.
        scale: Its scale.
        addresses: The genesis key's functions.
    """

    def __init__(self, plan: BoxPlan, scale: ScalePlan, addresses: Addresses) -> None:
        self._plan = plan
        self._scale = scale
        self._addresses = addresses
        self._geometry = Geometry(plan)
        self._parts: list[tuple[NDArray[np.float64], NDArray[np.uint64], NDArray[np.uint64]]] = []

    def add(self, features: NDArray[np.float64], records: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> None:
        """Take records in.

        Args:
            features: float64[n, D], without -0.0.
            records: uint64[n], their numbers, ascending.
            hashes: uint64[n], their keyed hashes.
        """
        self._parts.append((self._geometry.looked_at(features).copy(), records, hashes))

    def assign(self, stripe: int) -> tuple[NDArray[np.uint64], Harvest, list[int]]:
        """Learn the edges, assign the records to sides and forget them.

        Args:
            stripe: How many outermost records of each side are looked at for what the side got of them.

        Returns:
            uint64[S] edges; what each side got; and how many each got of its outermost records.
        """
        numbers, records, hashes = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        for part, *_ in self._parts:
            part.fill(0.0)
        self._parts.clear()
        edges, outermost = [], []
        for side in range(self._geometry.sides):
            keys = self._geometry.key_of_numbers(numbers, side)
            positions = self._geometry.positions(self._addresses, keys, side, records, hashes)
            edges.append(learn_edge(positions, self._scale.rank, self._scale.scale, self._addresses, side))
            outermost.append(Outermost(positions, stripe))
        geometry = Geometry(self._plan, edges=np.array(edges, dtype=np.uint64))
        harvest = Harvest(self._plan, geometry, self._plan.phases[0])
        for start in range(0, len(records), _SEGMENT):
            rows = slice(start, start + _SEGMENT)
            keys = geometry.keys_of_numbers(numbers[rows])
            sides = geometry.assign(self._addresses, keys, records[rows], hashes[rows])
            harvest.give(keys, records[rows], sides)
            for side, counted in enumerate(outermost):
                positions = geometry.positions(self._addresses, keys[side], side, records[rows], hashes[rows])
                counted.count(positions, sides == side)
        numbers.fill(0.0)
        return np.array(edges, dtype=np.uint64), harvest, [counted.held for counted in outermost]
