"""Queries that an adversary may ask the online learner of bisection, who sees every answer and the hypothesis itself.

What is promised against them: (epsilon, delta) for every training row, as at most T bits are ever given, whatever is
asked, each at no more than a bit's largest cost, and as all that is answered or kept follows from queries and bits;
finite answers; and that a restored state answers on as this one would. What is not: any error. Theorem 2.1 of
Choromanski et al. (2015) is for queries that are drawn from a law, and where these are chosen the learner may learn
nothing, or know less in the end than in the beginning. Nothing is promised to queries either: they are used in the
clear.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Stream = Callable[[int, Floats, np.random.Generator], Floats]
"""Of the round, the hypothesis float64[D] and a generator: the next query, float64[D]."""

_LEAST: Final = float(np.nextafter(0.0, 1.0))
_ABOVE: Final = float(np.nextafter(1.0, 2.0))


def _axis(number: int, size: int) -> Floats:
    query = np.zeros(size)
    query[number % size] = 1.0
    return query


def _beside(number: int, hypothesis: Floats, generator: np.random.Generator) -> Floats:
    """Ask nearly the same for ever: the curvature's smallest and largest eigenvalue drift apart."""
    del number
    query = _axis(0, len(hypothesis))
    query[1] = 1e-9 * generator.random()
    return query


def _against(number: int, hypothesis: Floats, generator: np.random.Generator) -> Floats:
    """Ask along what the hypothesis holds for large, then along the rest: its own estimate pulls it to and fro."""
    del generator
    large = hypothesis >= np.median(hypothesis)
    return (large if number % 2 else ~large).astype(np.float64)


def _out(number: int, hypothesis: Floats, generator: np.random.Generator) -> Floats:
    """Ask out of range, by very much and by the least there is; now and then a query that may be asked."""
    del generator
    kinds = [-1e308, 1e308, _ABOVE, -_LEAST]
    query = _axis(number, len(hypothesis))
    if number % 7:
        query[number % len(query)] = kinds[number % 4]
    return query


STREAMS: Final[Mapping[str, Stream]] = {
    "all ones": lambda _number, hypothesis, _generator: np.ones(len(hypothesis)),
    "zeros": lambda _number, hypothesis, _generator: np.zeros(len(hypothesis)),
    "the least numbers": lambda number, hypothesis, _generator: _axis(number, len(hypothesis)) * _LEAST,
    "one axis": lambda _number, hypothesis, _generator: _axis(0, len(hypothesis)),
    "axes by turns": lambda number, hypothesis, _generator: _axis(number, len(hypothesis)),
    "across the basis": lambda _number, hypothesis, _generator: _axis(len(hypothesis) - 1, len(hypothesis)),
    "beside one axis": _beside,
    "against the hypothesis": _against,
    "out of range": _out,
}
"""By name."""
