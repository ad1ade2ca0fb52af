"""What every edge costs: the candidates of the exponential mechanism, in groups of positions between data points.

Edges are positions (`oracle.mechanisms.grid`): a record is inside an edge if its position is at or above it.
"""

import math
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.choice.exponential import Candidates
from oracle.mechanisms.grid import EDGES

__all__ = ["best_cuts", "cut_candidates", "side_candidates"]

_ONE: Final = np.uint64(1)


def side_candidates(records: NDArray[np.uint64], rank: int, reach: int, edges: int = EDGES) -> Candidates:
    """Return the edges of one side of a box whose loss is at most `reach`, and perhaps some more; the least is 0.

    Of an edge t let A be the number of records below it and B that of records at or below it. Its loss is
    max(0, A - rank, rank - B): none where the rank-th record from outside is at t. `rank` records that are not there
    lie at the last position, so that there is always an edge without loss; it cuts everything off where there are few.

    Formal guarantees:
        * Adding a record raises A and B by 0 or 1 each, so every loss changes by -1, 0 or 1: all changes lie within 2
          of each other.

    Args:
        records: uint64[n], positions below `edges` - 1, in any order.
        rank: At least 1.
        reach: At least 0.
        edges: How many edges there are; the last position is the edge that nothing reaches.
    """
    outermost = rank + reach + 1  # every edge beyond so many records loses more
    if len(records) > outermost:
        return _within(np.partition(records, outermost)[:outermost], rank, edges)
    points, through = _ranks(records)
    last = np.array([edges - 1], dtype=np.uint64)
    gaps = np.concatenate([np.zeros(1, dtype=np.uint64), points + _ONE])
    return _side(
        np.concatenate([gaps, points, last]),
        np.concatenate([np.concatenate([points, last]) - gaps, np.ones(len(points) + 1, dtype=np.uint64)]),
        np.concatenate([through, through]) - rank,
        rank - np.concatenate([through, through[1:], through[-1:] + rank]),
        edges,
    )


def _within(records: NDArray[np.uint64], rank: int, edges: int) -> Candidates:
    """Return the edges up to the last of these records, which are the outermost of more."""
    points, through = _ranks(records)
    gaps = np.concatenate([np.zeros(1, dtype=np.uint64), points[:-1] + _ONE])
    return _side(
        np.concatenate([gaps, points]),
        np.concatenate([points - gaps, np.ones(len(points), dtype=np.uint64)]),
        np.concatenate([through[:-1], through[:-1]]) - rank,
        rank - np.concatenate([through[:-1], through[1:]]),
        edges,
    )


def _ranks(records: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the positions in order, each once, and how many records are below each and in all."""
    points, counts = np.unique(records, return_counts=True)
    return points, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _side(
    starts: NDArray[np.uint64],
    widths: NDArray[np.uint64],
    above: NDArray[np.int64],
    missing: NDArray[np.int64],
    edges: int,
) -> Candidates:
    losses = np.maximum(np.maximum(above, missing), 0)
    return Candidates(np.zeros(len(starts), dtype=np.intp), starts, widths, losses, edges)


def cut_candidates(
    records: NDArray[np.uint64], labels: NDArray[np.bool_], owner: int, edges: int = EDGES
) -> Candidates:
    """Return the edges of one stump, by how many records it gets wrong; it says 1 at and above its edge.

    Formal guarantees:
        * Adding a record raises every loss by 0 or 1: all changes lie within 1 of each other.

    Args:
        records: uint64[n], positions below `edges` - 1, ascending.
        labels: bool[n].
        owner: Number of the stump.
        edges: How many edges there are; the last position is the edge that nothing reaches.
    """
    last = np.array([edges - 1], dtype=np.uint64)
    starts = np.concatenate([np.zeros(1, dtype=np.uint64), records + _ONE])
    widths = np.concatenate([records, last]) + _ONE - starts
    missed = np.concatenate([[0], np.cumsum(labels, dtype=np.int64)])
    passed = np.arange(len(records) + 1) - missed
    losses = missed + (len(records) - missed[-1]) - passed
    return Candidates(np.full(len(starts), owner, dtype=np.intp), starts, widths, losses, edges)


def best_cuts(cuts: Iterable[Candidates], reach: int) -> Candidates:
    """Return of all stumps' edges those whose loss is within a reach of the least one, and perhaps some more."""
    kept: list[Candidates] = []
    least: float = math.inf
    for cut in cuts:
        least = min(least, int(cut.losses[cut.widths > 0].min()))
        near = np.flatnonzero((cut.losses <= least + reach) & (cut.widths > 0))
        kept.append(Candidates(cut.owners[near], cut.starts[near], cut.widths[near], cut.losses[near], cut.whole))
    owners, starts, widths, losses, whole = zip(*kept, strict=True)
    joined = [np.concatenate(parts) for parts in (owners, starts, widths, losses)]
    return Candidates(joined[0], joined[1], joined[2], joined[3], sum(whole))
