"""The exact privacy profile of BetweenThresholds against every adaptive adversary, by dynamic programming.

State: mediums left, and the ratio x = Q/P of the two worlds' probabilities of what was seen so far, on a geometric
grid. A step picks a depth and which world sits one deeper. The value is convex in x, so linear interpolation between
grid points never falls below it: what comes out is at least the true worst case, and converges to it.
"""

from itertools import pairwise

import numpy as np

from oracle.accounting.between_thresholds import log_answer_law
from oracle.mechanisms.noise.tables import Law


def _steps(law: Law, scale: float, gap: int, reach: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (probabilities, losses) of low, medium, high for each depth and order."""
    logs = np.stack(log_answer_law(law, scale, 0, gap, np.arange(-reach, gap + reach + 2)), axis=1)
    pairs = list(pairwise(logs))
    pairs += [(second, first) for first, second in pairs]
    return [(np.exp(p), p - q) for p, q in pairs]


class _Look:
    """Read a value function `losses` further on, interpolating linearly in exp(-loss)."""

    def __init__(self, count: int, width: float, losses: np.ndarray) -> None:
        whole = np.floor(losses / width)
        part = losses - whole * width
        self._weight = np.expm1(-part) / np.expm1(-width)  # of the upper neighbour
        self._index = np.arange(count)[None, :] + whole.astype(int)[:, None]
        self._count = count

    def __call__(self, value: np.ndarray, row: int) -> np.ndarray:
        extended = np.append(value, 1.0)  # beyond the upper end: at most 1; beyond the lower one: the least value
        index = self._index[row]
        lower, upper = (extended[np.clip(index + step, 0, self._count)] for step in (0, 1))
        return np.asarray(lower + self._weight[row] * (upper - lower))


def worst_delta(  # noqa: PLR0913 -- the instance, and the grid
    law: Law, scale: float, gap: int, mediums: int, epsilon: float, *, reach: int = 4, cells: int = 40
) -> float:
    """Return the worst-case delta at `epsilon`, a little high; `cells` are grid points per `scale` nats."""
    width = scale / cells
    top = np.ceil((epsilon + (mediums + 12.0) * scale) / width)
    losses = np.arange(-top, top + 1) * width
    stop = np.maximum(-np.expm1(epsilon - losses), 0.0)
    moves = [(p, _Look(len(losses), width, loss)) for p, loss in _steps(law, scale, gap, reach)]
    fewer = stop
    for _ in range(mediums):
        value = np.maximum(stop, fewer)
        charged = [p[1] * look(fewer, 1) for p, look in moves]
        change = 1.0
        while change > 1e-7:
            best = value
            for medium, (p, look) in zip(charged, moves, strict=True):
                best = np.maximum(best, p[0] * look(value, 0) + medium + p[2] * look(value, 2))
            change = float((best - value).max())
            value = best
        fewer = value
    return float(fewer[int(top)])
