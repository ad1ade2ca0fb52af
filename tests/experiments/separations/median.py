"""Medians by binary search (Bun, Steinke and Ullman, 2017, Figure 6) against the least rows of any pure epsilon."""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Rows = NDArray[np.int64]
_MISS: Final = 1e-3


class Search(NamedTuple):
    """What is looked for.

    Attributes:
        values: T; rows are whole numbers from 1 to T.
        alpha: Ranks may be off by this share of the rows.
        beta: Share of failures that is allowed.
    """

    values: int
    alpha: float = 0.05
    beta: float = 0.05


def median(below: Callable[[int], float], values: int) -> int:
    """Search for a median of rows from 1 to `values`, by at most ceil(log2(values)) shares of rows up to a value."""
    low, high = 0, values
    while high - low > 1:
        middle = (low + high + 1) // 2
        low, high = (low, middle) if below(middle) >= 0.5 else (middle, high)
    return high


def hard_rows(search: Search, rows: int, target: int) -> Rows:
    """Return rows whose only alpha-approximate median is the target: as many 1s as largest values, all others on it."""
    outside = math.ceil((0.5 - search.alpha) * rows) - 1
    return np.sort(
        np.concatenate([np.ones(outside), np.full(outside, search.values), np.full(rows - 2 * outside, target)])
    ).astype(np.int64)


def median_fails(rows: Rows, answer: float, alpha: float) -> bool:
    """Return whether fewer than (1/2 - alpha) n rows are at most, or at least, the answer."""
    least = (0.5 - alpha) * len(rows)
    at_most = np.searchsorted(rows, answer, side="right")
    at_least = len(rows) - np.searchsorted(rows, answer, side="left")
    return bool(at_most < least or at_least < least)


def laplace_shares(rows: Rows, epsilon: float, values: int, random: np.random.Generator) -> Callable[[int], float]:
    """Return shares with Laplace noise for as many questions as a search has, epsilon for all together."""
    scale = math.ceil(math.log2(values)) / (epsilon * len(rows))
    return lambda value: float(np.searchsorted(rows, value, side="right") / len(rows) + random.laplace(0.0, scale))


def laplace_rows(search: Search, epsilon: float) -> float:
    """Return rows that are enough for `laplace_shares` by a union bound: k ln(k/beta)/(alpha epsilon)."""
    questions = math.ceil(math.log2(search.values))
    return questions * math.log(questions / search.beta) / (search.alpha * epsilon)


def rows_needed(search: Search, epsilon: float) -> float:
    """Return the least rows of any purely epsilon-private median (Proposition 6)."""
    odds = (1.0 - search.beta) * (search.values - 1) / search.beta
    return math.log(odds) / (2.0 * search.alpha * epsilon) - 1.0 / search.alpha


def packing_epsilon(search: Search, rows: int, failures: int, runs: int) -> float:
    """Return what a median's few failures prove of a pure epsilon, but with probability 0.001: Proposition 6 backwards.

    Args:
        search: What was looked for.
        rows: n.
        failures: At most so many of the runs on hard rows about the largest value failed, and of as many runs with
            targets drawn from all others.
        runs: Of each of the two kinds.
    """
    beta = float(stats.beta.isf(_MISS / 2.0, failures + 1, runs - failures)) if failures < runs else 1.0
    if beta >= 1.0:
        return 0.0
    return max(math.log((1.0 - beta) * (search.values - 1) / beta) / (2.0 * search.alpha * rows + 2.0), 0.0)
