"""Every adversary of paid questions, exactly: the events that n adaptive questions can tell two worlds apart by.

What a strategy can do is the set of pairs (P(A), Q(A)) over all events A of its answers. Its lower edge, from (0, 0) to
(1, 1), says everything: delta(epsilon) is the largest P - exp(epsilon) Q on it. A question's edge is the sum, over its
answers, of the edges of what may follow; and the best of all questions is the convex hull of theirs.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

Edge = np.ndarray
"""float64[m, 2]: steps (dP, dQ) with dQ/dP rising."""

Question = Sequence[tuple[float, float, int]]
"""(P, Q, 1 if it is paid) of each answer."""

NOTHING = np.ones((1, 2))


def edge_sum(edges: Iterable[Edge]) -> Edge:
    """Return the edge of what may follow several answers, each with its chances in both worlds."""
    steps = np.concatenate(list(edges))
    return np.asarray(steps[np.argsort(np.arctan2(steps[:, 1], steps[:, 0]), kind="stable")])


def hull(edges: Iterable[Edge]) -> Edge:
    """Return the edge of the convex hull, less corners that a line between their neighbours misses by 1e-15."""
    points = np.unique(np.concatenate([np.vstack([[0.0, 0.0], np.cumsum(edge, axis=0)]) for edge in edges]), axis=0)
    kept: list[np.ndarray] = []
    for point in points:
        while len(kept) > 1:
            first, second = kept[-1] - kept[-2], point - kept[-2]
            if first[0] * second[1] - first[1] * second[0] > 1e-15 * second[0]:
                break
            kept.pop()
        kept.append(point)
    return np.diff(np.array(kept), axis=0)


def frontier(questions: Sequence[Question], count: int, paid: int) -> Edge:
    """Return the edge of `count` adaptive questions, chosen from `questions`, until the last of `paid` is paid."""
    edges = [NOTHING] * (paid + 1)
    for _ in range(count):
        edges = [NOTHING] + [
            hull(
                [
                    edges[left],
                    *(edge_sum(edges[left - cost] * [p, q] for p, q, cost in answers) for answers in questions),
                ]
            )
            for left in range(1, paid + 1)
        ]
    return edges[paid]


def delta_of(edge: Edge, epsilon: float) -> float:
    """Return the largest P(A) - exp(epsilon) Q(A)."""
    return float(np.maximum(edge @ [1.0, -math.exp(epsilon)], 0.0).sum())


def gumbel(slope: float, z: float) -> tuple[float, float]:
    """P(Z < z) and P(Z >= z)."""
    rate = math.exp(-slope * z)
    return math.exp(-rate), -math.expm1(-rate)


def logistic(slope: float, z: float) -> tuple[float, float]:
    """P(Z < z) and P(Z >= z)."""
    odds = math.exp(slope * (z - 0.5))
    return odds / (1.0 + odds), 1.0 / (1.0 + odds)


def questions(law, lows: Iterable[int], shifts: Iterable[int], *, gap: int | None, values: int) -> list[Question]:
    """Return questions about a count of 0 in one world and of a shift in the other.

    Args:
        law: P(Z < z) and P(Z >= z).
        lows: Thresholds t_l.
        shifts: Of the count.
        gap: t_h - t_l, or None for "above".
        values: Least values above t_l that are told apart; 0 if no value is released.
    """
    found: list[Question] = []
    for low in lows:
        most = values if gap is None else min(values, gap)
        cuts = [low + value for value in range(most + 1)] + ([] if gap is None else [low + gap + 1])
        for shift in shifts:
            worlds = []
            for move in (0, shift):
                tails = [(0.0, 1.0), *(law(cut - move) for cut in cuts), (1.0, 0.0)]
                worlds.append([b - a if b < 0.5 else c - d for (a, c), (b, d) in pairwise(tails)])
            costs = [0] + [1] * (len(worlds[0]) - 1)
            if gap is not None:
                costs[-1] = 0
            found.append(list(zip(*worlds, costs, strict=True)))
    return found
