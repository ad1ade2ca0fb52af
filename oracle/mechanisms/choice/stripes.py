"""The rule `faces` with a scale that is learned: which side gets which positive record, by ranks alone.

An edge is learned for each side, about as many positive records from outside as all phases' stripes hold. What lies
beyond the edges of some sides goes to one of these, each as likely; what lies beyond none goes to any side. So units,
tails, skew and atoms do not matter, and a side gets its share of its stripe by how often stripes overlap.

Values are compared as positions among the float64 numbers (`oracle.mechanisms.grid`), with their last 10 bits replaced
by bits of a coin of the record's own, one for each feature. So equal values, also those of a constant, are told apart
at random: the edge can part them, and a side with many of them takes as many as it needs, not all. The upper side has
the lower one's bits flipped, so that what is outermost for the one is innermost for the other.
"""

from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.choice.edges import side_candidates
from oracle.mechanisms.choice.exponential import KeyedBits, choose_exactly
from oracle.mechanisms.grid import NONE, positions_of

__all__ = ["Outermost", "choose_sides", "learn_edge", "split_positions"]

_COIN_BITS: Final = np.uint64(10)
_LAST: Final = np.uint64((1 << 10) - 1)
_HALF: Final = np.uint64(32)

Positions = NDArray[np.uint64]


def split_positions(keys: NDArray[np.float64], coins: NDArray[np.uint64], *, lower: bool) -> Positions:
    """Return the positions of a side's keys, below `NONE`, with the coins' bits as their last ones: uint64[n].

    Args:
        keys: float64[n], oriented: smaller is further out.
        coins: uint64[n], of the side's feature, functions of the record's own round or row and of its hash.
        lower: Of a lower side.
    """
    bits = coins >> (np.uint64(64) - _COIN_BITS)
    mixed = (positions_of(keys) & ~_LAST) | (bits if lower else _LAST - bits)
    return np.minimum(mixed, np.uint64(NONE - 1))


def learn_edge(positions: Positions, rank: int, scale: float, addresses: Addresses, side: int) -> int:
    """Return a side's edge, privately: about the position of its rank-th positive record from outside.

    Formal guarantees:
        * It is chosen by the exponential mechanism over all float64 positions, with exactly its law (`choose_exactly`).
          Adding or removing a record changes every loss by -1, 0 or 1 (`edges.side_candidates`), as it changes no other
          record's coin. So it is (2 e, 0)-DP, and its rho is e^2/2 (PRIVACY.md, Theorem 15).
        * But with probability at most 2^64 exp(-e x), between rank - x and rank + x records lie at or beyond it (up to
          its own position; all of them where there are fewer).

    Args:
        positions: uint64[n], the side's `split_positions` of all positive records.
        rank: At least 1.
        scale: e.
        addresses: The genesis key's functions, whose `CHOICE` blocks draw nothing else for this side.
        side: Its number.
    """
    return choose_exactly(scale, partial(side_candidates, positions, rank), KeyedBits(addresses, side))[1]


def choose_sides(edges: Positions, positions: Positions, picks: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return the side of each positive record: intp[n].

    Formal guarantees:
        * Given the edges, the side depends on the record and its own coins alone, so the sides compose in parallel.
        * A record beyond a side's edge goes to it with probability at least 1/S, and one beyond no edge does: no side
          starves for ever, not even of two equal features.

    Args:
        edges: uint64[S].
        positions: uint64[S, n], what `split_positions` returned for each side.
        picks: uint64[n], coins that the positions have no bit of.
    """
    beyond = positions <= edges[:, None]
    beyond |= ~beyond.any(axis=0)
    counted = beyond.cumsum(axis=0, dtype=np.uint64)
    pick = ((picks >> _HALF) * counted[-1]) >> _HALF
    sides: NDArray[np.intp] = (counted <= pick).sum(axis=0)
    return sides


class Outermost:
    """A side's outermost positive records, counted in the order of their numbers.

    Formal guarantees:
        * Given all edges, adding a positive record puts it among the outermost `stripe` and pushes at most one out
          (of equal positions the lowest numbers count): so `held`, and the least `held` of all sides, changes by at
          most 1.

    Args:
        positions: uint64[n], the side's `split_positions` of all positive records.
        stripe: How many records, at least 1.
    """

    def __init__(self, positions: Positions, stripe: int) -> None:
        last = min(stripe, len(positions)) - 1
        self._cutoff = np.partition(positions, last)[last] if last >= 0 else np.uint64(0)
        self._ties = last + 1 - int(np.count_nonzero(positions < self._cutoff))
        self.held = 0

    def count(self, positions: Positions, mine: NDArray[np.bool_]) -> None:
        """Take the next records in: uint64[m] positions, and bool[m], which of them the side was given."""
        ties = np.flatnonzero(positions == self._cutoff)[: self._ties]
        self._ties -= len(ties)
        self.held += int(np.count_nonzero(mine & (positions < self._cutoff))) + int(np.count_nonzero(mine[ties]))
