"""MWEM (Hardt, Ligett and McSherry, 2012), offline: told all questions before it answers any.

With Gaussian noise and zCDP, which is less noise than the paper's. Each of R rounds has rho/R: half for the choice of
the question with the largest error (exponential mechanism: eps^2/8), half for its noisy count (1/(2 sigma^2)). Behind
each round the hypothesis is projected once on every answer so far (I-projections, the newest first), which is more than
the paper's steps. The last hypothesis answers.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.experiments.statistics.questions import Questions, counted, shares
from tests.experiments.statistics.tables import Table

__all__ = ["mwem"]


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
    cube = _Cube(table.layout.shape)
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


class _Cube:
    """A distribution over all cells, uniform at first."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._weights = np.full(shape, 1.0 / math.prod(shape))

    def marginal(self, about: tuple[int, ...]) -> NDArray[np.float64]:
        """Return a marginal."""
        others = tuple(axis for axis in range(self._weights.ndim) if axis not in about)
        return np.asarray(self._weights.sum(axis=others))

    def move(self, masks: Sequence[NDArray[np.bool_]], share: float) -> None:
        """Project on all distributions that give a question this share, or the nearest possible one."""
        about = tuple(axis for axis, mask in enumerate(masks) if not mask.all())
        within = np.ones((), dtype=np.bool_)
        for axis in about:
            within = np.logical_and.outer(within, masks[axis])
        inside, wanted = float(self.marginal(about)[within].sum()), min(max(share, 1e-6), 1.0 - 1e-6)
        factors = np.where(within, wanted / inside, (1.0 - wanted) / (1.0 - inside))
        self._weights *= factors.reshape([len(mask) if axis in about else 1 for axis, mask in enumerate(masks)])
