"""The exponential mechanism's choices, plainly: the loss of every candidate, and the bits that one is chosen by.

Losses are those of PRIVACY.md, Theorem 10 (stumps) and Theorem 12 (edges, over all float64 numbers).
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from oracle.audit.references.keyed import Bits, Keyed, choose_level
from oracle.audit.references.values import PLACES, mirrored, place_of
from oracle.mechanisms.addresses import Purpose
from oracle.planning.features import Feature

__all__ = ["Run", "choose_edge", "choose_one", "cut_runs", "placed", "side_runs", "sides_of"]

_FIRST: Final = 256
"""Bits that say which loss an edge has."""

_BLOCKS: Final = 4
"""Blocks of 128 bits that one of a few candidates is chosen by."""


class Run(NamedTuple):
    """Neighbouring edges of one loss.

    Attributes:
        owner: Whose edges.
        start: The first place.
        width: How many.
        loss: Of each.
    """

    owner: int
    start: int
    width: int
    loss: int


def side_runs(places: Sequence[int], rank: int) -> list[Run]:
    """Return the edges of a side: it costs max(0, A - rank, rank - B), A records before it and B up to it.

    As many records as `rank` says, which are not there, lie at the last place. Edges between records stand before
    those at records: it is by this order that bits choose among edges of one loss.
    """
    ordered = sorted([*places, *[PLACES - 1] * rank])
    starts = sorted({0, *ordered, *(place + 1 for place in ordered if place + 1 < PLACES)})
    runs = []
    for start, stop in zip(starts, [*starts[1:], PLACES], strict=True):
        before, until = bisect_left(ordered, start), bisect_right(ordered, start)
        runs.append(Run(0, start, stop - start, max(0, before - rank, rank - until)))
    records = set(ordered)
    return sorted(runs, key=lambda run: run.start in records)


def cut_runs(owner: int, records: Sequence[tuple[int, bool]]) -> list[Run]:
    """Return the edges of a stump that says 1 from its edge on, by how many records it gets wrong."""
    starts = sorted({0, *(place + 1 for place, _ in records)})
    return [
        Run(owner, start, stop - start, sum((place >= start) != label for place, label in records))
        for start, stop in zip(starts, [*starts[1:], PLACES], strict=True)
    ]


def choose_edge(keyed: Keyed, side: int, rate: float, runs: Sequence[Run]) -> tuple[int, int]:
    """Return owner and place of an edge, chosen exactly: first its loss, then one of all that have it."""
    bits = Bits(keyed, side)
    counts = Counter[int]()
    for run in runs:
        counts[run.loss] += run.width
    loss, _ = choose_level(rate, counts, bits.take(_FIRST), _FIRST)
    number = bits.take((counts[loss] - 1).bit_length())
    while number >= counts[loss]:
        number = bits.take((counts[loss] - 1).bit_length())
    for run in runs:
        if run.loss == loss:
            if number < run.width:
                return run.owner, run.start + number
            number -= run.width
    raise ArithmeticError


def choose_one(keyed: Keyed, side: int, rate: float, losses: Sequence[int]) -> int:
    """Return the number of a candidate, chosen by 512 bits."""
    halves = [half for block in range(_BLOCKS) for half in keyed.halves(Purpose.CHOICE, block, side)]
    uniform = int.from_bytes(b"".join(half.to_bytes(8, "little") for half in halves), "little")
    loss, number = choose_level(rate, Counter(losses), uniform, 128 * _BLOCKS)
    return [place for place, mine in enumerate(losses) if mine == loss][number]


def placed(number: float, *, lower: bool) -> int:
    """Return a number's place as a side sees it: the outermost is the least."""
    return place_of(number) if lower else mirrored(place_of(number))


def sides_of(features: Sequence[Feature], names: Sequence[str]) -> list[tuple[int, bool]]:
    """Return the column of each side, and whether the least values are outermost."""
    columns = [feature.name for feature in features]
    return [(columns.index(name), end == "lower") for name, end in (side.rsplit(":", 1) for side in names)]
