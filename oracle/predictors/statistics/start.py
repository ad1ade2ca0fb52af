"""What a hypothesis starts from: nothing, or noisy marginals of the rows."""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.noise.tables import sample
from oracle.planning.statistics.model import UNDECLARED, StatisticsPlan
from oracle.predictors.statistics.hypothesis import Hypothesis

__all__ = ["Marginals", "noisy_marginals", "others", "split_marginals", "start_of"]

_SPREAD: Final = 0.01
"""Share of a start that knows nothing which lies on all cells alike, those of other and missing values too."""

_TRACE: Final = 0.0005
"""The same, of a start from marginals."""

_ROUNDS: Final = 30
_WORK: Final = 1 << 33
"""Rounds of iterative proportional fitting: fewer where they would update more weights than this."""

_EXPLAINED: Final = 4.0
"""Nats of a marginal's noise that explain a difference."""

_LEAST: Final = 1e-9
"""Share that every cell of a marginal has, so that none is lost."""


def noisy_marginals(plan: StatisticsPlan, cells: NDArray[np.int64], addresses: Addresses) -> NDArray[np.int64]:
    """Return the noisy counts of all cells of all marginals of a plan, one after another; none for a plan without.

    Formal guarantees:
        * A row that is there or not changes one count of each marginal by 1; each has discrete Laplace noise of its
          own, from a block of the genesis key that draws nothing else (PRIVACY.md, Theorem 22).

    Args:
        plan: The plan.
        cells: int64[n], each row's cell; -1 where it is blanked.
        addresses: The genesis key's functions.
    """
    slope, shape = plan.start_slope, plan.layout.shape
    if slope is UNSET:
        return np.empty(0, dtype=np.int64)
    places = np.unravel_index(cells[cells >= 0], shape)
    noisy = []
    for number, about in enumerate(plan.start):
        sizes = [shape[attribute] for attribute in about]
        flat = np.ravel_multi_index([places[attribute] for attribute in about], sizes)
        size = int(np.prod(sizes))
        words = addresses.words(
            Purpose.QUESTION, np.arange(size, dtype=np.uint64), np.array([number], dtype=np.uint64), None
        )
        noisy.append(np.bincount(flat, minlength=size) + sample("discrete-laplace", slope, words[0]))
    return np.concatenate(noisy).astype(np.int64)


def split_marginals(plan: StatisticsPlan, counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the counts of each marginal of a plan, in its attributes' shape; none where none were released."""
    if not len(counts):
        return []
    shapes = [[plan.layout.shape[attribute] for attribute in about] for about in plan.start]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(counts, ends[:-1]), shapes, strict=True)]


def others(plan: StatisticsPlan, counts: NDArray[np.int64]) -> list[tuple[str, float]]:
    """Return which attributes have many rows of no declared category, and their share: by what was released alone.

    Many is more than a uniform start allows for, by four standard deviations of the noise.

    Args:
        plan: The plan.
        counts: int64, as of `noisy_marginals`.
    """
    found = []
    parts = list(zip(plan.start, split_marginals(plan, counts), strict=False))
    for number, attribute in enumerate(plan.attributes):
        among = [(about, part) for about, part in parts if number in about]
        if attribute.other is None or not among or plan.start_slope is UNSET:
            continue
        about, part = min(among, key=lambda one: one[1].size)
        cells = np.take(part, attribute.other, axis=about.index(number))
        noise = math.sqrt(2.0 * cells.size) / plan.start_slope  # a little more than the deviation
        if int(cells.sum()) > UNDECLARED * plan.declared + 4.0 * noise:
            found.append((attribute.name, min(int(cells.sum()) / plan.declared, 1.0)))
    return found


class Marginals:
    """The noisy marginals that were released, to which a hypothesis is fitted. Public.

    Args:
        plan: The plan.
        counts: int64, as of `noisy_marginals`.
    """

    def __init__(self, plan: StatisticsPlan, counts: NDArray[np.int64]) -> None:
        shares = [_shares(part, plan.declared) for part in split_marginals(plan, counts)]
        self._wanted = list(zip(plan.start, shares, strict=False))
        self._slack = 0.0 if plan.start_slope is UNSET else _EXPLAINED / (plan.start_slope * plan.declared)
        self._updates = max(len(shares) * plan.layout.size, 1)

    def start(self, hypothesis: Hypothesis, progress: Callable[[float], None]) -> None:
        """Fit a hypothesis from the beginning: iterative proportional fitting.

        The last third of the rounds goes a part of the way, 1/2, 1/3 and so on, as noisy marginals disagree.

        Args:
            hypothesis: Changed.
            progress: Told now and then which part of the work is done.
        """
        rounds = max(min(_ROUNDS, _WORK // self._updates), _ROUNDS // 5)
        whole = rounds - rounds // 3
        for number in range(rounds):
            for about, wanted in self._wanted:
                hypothesis.fit(about, wanted, 1.0 / max(number - whole + 2, 1))
            progress((number + 1) / rounds)

    def mend(self, hypothesis: Hypothesis) -> None:
        """Bring a hypothesis to each of them in turn, as near as noise explains; a later one may undo an earlier one.

        What noise explains stays: to follow it would undo what the start has averaged out of it.
        """
        for about, wanted in self._wanted:
            hypothesis.mend(about, wanted, self._slack)

    def passes(self, most: int) -> int:
        """Return how many fits a paid answer may take, from 1 to `most`: fewer for large tables."""
        return max(min(most, (_WORK >> 4) // self._updates), 1)


def start_of(
    plan: StatisticsPlan, counts: NDArray[np.int64], progress: Callable[[float], None] = lambda _part: None
) -> Hypothesis:
    """Return the hypothesis that a run starts from: a function of the plan and of what was released.

    Args:
        plan: The plan.
        counts: int64, as of `noisy_marginals`.
        progress: Told now and then which part of the work is done.
    """
    if not len(counts):
        declared = [_declared(attribute.cells, attribute.declared) for attribute in plan.attributes]
        return Hypothesis.product(declared, _SPREAD)
    hypothesis = Hypothesis.uniform(plan.layout.shape)
    Marginals(plan, counts).start(hypothesis, progress)
    hypothesis.spread(_TRACE)
    return hypothesis


def _declared(cells: int, declared: int) -> NDArray[np.float64]:
    return (np.arange(cells) < declared) / declared


def _shares(counts: NDArray[np.int64], rows: int) -> NDArray[np.float64]:
    """Return a distribution that noisy counts are near: all lowered alike until those above 0 sum to the rows.

    Without it the noise of empty cells would add up, since what is below 0 is cut off. Then none is quite 0.
    Source: Wang and others (2020), Norm-Sub.
    """
    falling = np.sort(counts.reshape(-1))[::-1].astype(np.float64)
    excess = (np.cumsum(falling) - rows) / np.arange(1, counts.size + 1)
    lowered = np.maximum(counts - excess[falling > excess][-1], 0.0)
    total = math.fsum(lowered.reshape(-1).tolist())  # exact: the same on every machine
    shares: NDArray[np.float64] = (lowered / total + _LEAST) / (1.0 + _LEAST * counts.size)
    return shares
