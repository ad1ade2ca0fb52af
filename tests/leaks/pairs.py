"""Neighbours whose transcripts are one to the end, though their private states differ: nothing of them is cut."""

from functools import cache
from typing import Final

from tests.leaks.subjects import Kind
from tests.leaks.worlds import Pair, random_pair

_SEEDS: Final[dict[str, dict[Kind, int]]] = {
    "rectangles": {"training row": 1, "query": 12, "presence": 10, "label": 11},
    "rectangles, learned": {"training row": 2},
    "strings": {"training row": 2, "query": 5, "presence": 10, "label": 2},
    "stumps": {"training row": 49, "query": 46, "presence": 546, "label": 10},
    "ensemble": {"training row": 1, "query": 1, "presence": 9, "label": 9},
    "classical": {"training row": 1, "query": 1, "presence": 1, "label": 1, "everything": 1},
    "bisection": {"training row": 1, "query": 1, "presence": 1, "label": 1, "everything": 1},
    "statistics": {"training row": 0},
    "statistics, spent": {"training row": 8},
    "statistics, marginals": {"training row": 4},
    "sparse vector": {"training row": 0},
    "sparse vector, spent": {"training row": 30},
    "distribution": {"training row": 2},
    "distribution, settled": {"training row": 0},
}
"""Found by trying seeds in turn; `test_leaks.py` says what of."""

PAIRS: Final = tuple((subject, kind) for subject, seeds in _SEEDS.items() for kind in seeds)


@cache
def equal_pair(subject: str, kind: Kind) -> Pair:
    """Return the pair of a subject and a kind."""
    return random_pair(subject, kind, _SEEDS[subject][kind])
