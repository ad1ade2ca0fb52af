"""MWEM (Hardt, Ligett and McSherry, 2012), offline: told all questions before it answers any.

With Gaussian noise and zCDP, which is less noise than the paper's. Each of R rounds has rho/R: half for the choice of
the question with the largest error (exponential mechanism: eps^2/8), half for its noisy count (1/(2 sigma^2)). Behind
each round the hypothesis is projected once on every answer so far (I-projections, the newest first), which is more than
the paper's steps. The last hypothesis answers.
"""

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.experiments.statistics.questions import Questions, counted, shares
from tests.experiments.statistics.tables import Table


def mwem(table: Table, questions: Questions, rho: float, rounds: int, seed: int) -> NDArray[np.float64]:
    """Return the answers.

    Args:
        table: The table.
        questions: All that will be asked.
        rho: Budget (zCDP).
        rounds: R.
        seed: Of the noise.
    """
    generator = np.random.default_rng(seed)
    rows = len(table.cells)
    truth = shares(counted(table), questions) * rows
    cube = Cube(table.layout.shape)
    choosing, scale = math.sqrt(4.0 * rho / rounds), math.sqrt(rounds / rho)
    measured: list[tuple[list[NDArray[np.bool_]], float]] = []
    for _ in range(rounds):
        errors = np.abs(truth - rows * shares(cube.marginal, questions))
        chosen = int(np.argmax(0.5 * choosing * errors + generator.gumbel(size=len(errors))))
        noisy = (truth[chosen] + generator.normal(0.0, scale)) / rows
        measured.append(([mask[chosen] for mask in questions.masks], noisy))
        for masks, share in reversed(measured):
            cube.move(masks, share)
    return shares(cube.marginal, questions)


class Cube:
    """A distribution over all cells, uniform at first."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._weights = np.full(shape, 1.0 / math.prod(shape))

    def marginal(self, about: tuple[int, ...]) -> NDArray[np.float64]:
        """Return a marginal."""
        others = tuple(axis for axis in range(self._weights.ndim) if axis not in about)
        return np.asarray(self._weights.sum(axis=others))

    def share(self, masks: Sequence[NDArray[np.bool_]]) -> float:
        """Return a question's share."""
        left = self._weights
        for mask in masks:
            left = mask.astype(np.float64) @ left.reshape(len(mask), -1)
        return float(left[0])

    def move(self, masks: Sequence[NDArray[np.bool_]], share: float) -> None:
        """Project on all distributions that give a question this share, or the nearest possible one."""
        inside, wanted = self.share(masks), min(max(share, 1e-6), 1.0 - 1e-6)
        self.scale(masks, wanted / inside, (1.0 - wanted) / (1.0 - inside))

    def scale(self, masks: Sequence[NDArray[np.bool_]], inside: float, outside: float) -> None:
        """Multiply the weights of the cells that a question asks for, and those of all others."""
        self._weights *= np.where(within(masks), inside, outside)


def within(masks: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Return the cells of a question: bool of as many axes as attributes, those that do not matter of length 1."""
    sides = ([-1 if other == axis else 1 for other in range(len(masks))] for axis in range(len(masks)))
    parts = [mask.reshape(side) for mask, side in zip(masks, sides, strict=True) if not mask.all()]
    return functools.reduce(np.logical_and, parts, np.ones([1] * len(masks), dtype=np.bool_))
