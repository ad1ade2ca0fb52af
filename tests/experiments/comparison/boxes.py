"""Classical private boxes: OpenDP's public measurements release the edges, and post-processing answers every query.

OpenDP draws from the system's randomness and cannot be seeded: runs differ, and the seed only chooses the rows of
`box_from_few`.
"""

import math
from typing import Any, Final

import numpy as np
import opendp.prelude as dp

from tests.experiments.comparison.setting import Setting
from tests.experiments.comparison.task import Bools, Task

dp.enable_features("contrib")

LEVEL: Final = 0.01
"""Part of the positive rows that a quantile's edge leaves outside. Of 0.005, 0.01 and 0.025 the best on the demo's
data, over all epsilons: a choice in favour of this method, one that its owner could not make without paying for it."""

_CANDIDATES: Final = 1001
"""Edges that a quantile may choose from, evenly over the declared range."""

BOXES_A_SIDE: Final = 101
"""Edges a side that the boxes of `best_box` are made of."""

_ALPHA, _BETA = 0.1, 0.05
"""The demo's error, and the probability of missing it."""


def quantile_measurements(task: Task, epsilon: float) -> list[dp.Measurement]:
    """Return OpenDP's private quantile for each side, each with an equal share of epsilon.

    A row sits in every side's column, so the sides' epsilons add up.

    Formal guarantees:
        * Each measurement's own map bounds its loss, for one row more or less, by epsilon / sides (delta = 0).
    """
    share = epsilon / len(task.sides)
    made = []
    for side in task.sides:
        candidates = side.grid(_CANDIDATES).tolist()
        level = LEVEL if side.lower else 1.0 - LEVEL
        unit = _quantile(candidates, level, 1.0).map(1)
        made.append(_quantile(candidates, level, unit / share * (1.0 + 1e-12)))
        if made[-1].map(1) > share:
            msg = f"quantile: loss {made[-1].map(1)} is above its share {share}"
            raise ValueError(msg)
    return made


def _quantile(candidates: list[float], level: float, scale: float) -> dp.Measurement:
    space = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.symmetric_distance()
    return dp.m.make_private_quantile(*space, dp.max_divergence(), candidates=candidates, alpha=level, scale=scale)


def quantile_box(task: Task, epsilon: float) -> Setting:
    """Release a quantile of the positive rows for each side (Smith 2011; OpenDP's `make_private_quantile`)."""
    measurements = quantile_measurements(task, epsilon)
    columns = [np.ascontiguousarray(task.rows[task.labels, side.column]) for side in task.sides]

    def answer(_seed: int) -> Bools:
        return task.box([float(release(column)) for release, column in zip(measurements, columns, strict=True)])

    return Setting(answer)


def wrong_rows(task: Task) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return for each box of the grid how many labelled rows it gets wrong, int64[g, g, ...].

    One row more adds 0 or 1 to each number, and takes nothing from any: the sensitivity that `best_box` stands on.
    """
    # A row is in the box whose edges have the numbers (i, j, ...) where i is at most its position on each side.
    positions = [_positions(task, number) for number in range(len(task.sides))]
    counts = np.zeros([BOXES_A_SIDE + 1] * len(task.sides), dtype=np.int64)
    np.add.at(counts, tuple(positions), np.where(task.labels, -1, 1))
    for axis in range(counts.ndim):
        counts = np.flip(np.flip(counts, axis).cumsum(axis), axis).take(range(1, BOXES_A_SIDE + 1), axis)
    return counts + int(task.labels.sum())


def _positions(task: Task, number: int) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Return how many edges of a side, the loosest first, keep each row."""
    side = task.sides[number]
    sign = 1.0 if side.lower else -1.0
    loosest_first = np.sort(sign * side.grid(BOXES_A_SIDE))
    return np.searchsorted(loosest_first, sign * task.rows[:, side.column], side="right")


def _selection(epsilon: float) -> dp.Measurement:
    """Return OpenDP's noisy minimum whose map is epsilon for numbers that one row moves by at most 1, all one way."""
    space = dp.vector_domain(dp.atom_domain(T="u64")), dp.linf_distance(T="u64", monotonic=True)
    measurement = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=(1.0 + 1e-12) / epsilon, negate=True)
    if measurement.map(1) > epsilon:
        msg = f"selection: loss {measurement.map(1)} is above {epsilon}"
        raise ValueError(msg)
    return measurement


def _rows_wanted(task: Task, epsilon: float) -> int:
    """Return the independent rows that suffice for error alpha with probability 1 - beta, if a box of the grid fits.

    The chosen box gets at most ln(2 m / beta) / epsilon rows wrong more than the best of the m boxes; that must be at
    most alpha n / 2. By Chernoff's bound a box of error above alpha gets so few wrong with probability at most
    exp(-alpha n / 8), over all boxes at most beta / 2. (The learner of Kasiviswanathan et al., 2008, Theorem 3.4.)
    """
    logarithm = math.log(2.0 * BOXES_A_SIDE ** len(task.sides) / _BETA)
    return math.ceil(logarithm / _ALPHA * max(8.0, 2.0 / epsilon))


def best_box(task: Task, epsilon: float) -> Setting:
    """Release the box of the grid that gets fewest rows wrong, by one noisy minimum that has the whole epsilon."""
    measurement, scores = _selection(epsilon), wrong_rows(task).ravel().tolist()
    return Setting(lambda _seed: _chosen(task, measurement(scores)), _rows_wanted(task, epsilon))


def box_from_few(task: Task, epsilon: float) -> Setting:
    """Release the same from only as many rows as it wants, drawn at random."""
    measurement, count = _selection(epsilon), _rows_wanted(task, epsilon)

    def answer(seed: int) -> Bools:
        scores = wrong_rows(task.sample(count, seed)).ravel().tolist()
        return _chosen(task, measurement(scores))

    return Setting(answer if count <= len(task.rows) else None, count)


def _chosen(task: Task, number: int) -> Bools:
    places = np.unravel_index(number, [BOXES_A_SIDE] * len(task.sides))
    edges = []
    for side, place in zip(task.sides, places, strict=True):
        grid = side.grid(BOXES_A_SIDE)
        edges.append(float(grid[place] if side.lower else grid[::-1][place]))
    return task.box(edges)
