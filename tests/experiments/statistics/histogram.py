"""Turbo's histogram: a distribution over all cells, and how often each of them was moved."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.experiments.statistics.mwem import Cube, within

Masks = Sequence[NDArray[np.bool_]]


class Histogram:
    """Uniform at first."""

    def __init__(self, shape: tuple[int, ...], least: int) -> None:
        """Begin.

        Args:
            shape: Cells of each attribute.
            least: How often a cell has to be moved before questions about it are ready.
        """
        self.cube = Cube(shape)
        self._moved = np.zeros(shape, dtype=np.int16)
        self._spare = np.full(shape, -least, dtype=np.int16)  # moves beyond those that have to be

    def is_ready(self, masks: Masks) -> bool:
        """Return whether all of a question's cells were moved as often as they have to be."""
        return bool(_least(self._spare, masks) >= 0)

    def least_moved(self, masks: Masks) -> int:
        """Return how often that of a question's cells was moved that was moved least."""
        return int(_least(self._moved, masks))

    def delay(self, masks: Masks, more: int) -> None:
        """Make a question's cells due when they were moved so often more than the least of them was."""
        np.copyto(self._spare, self._moved - np.int16(self.least_moved(masks) + more), where=within(masks))

    def move(self, masks: Masks, rate: float) -> None:
        """Multiply the weights of a question's cells by exp(rate), and normalise."""
        total = 1.0 + self.cube.share(masks) * np.expm1(rate)
        self.cube.scale(masks, np.exp(rate) / total, 1.0 / total)
        self._moved += within(masks)
        self._spare += within(masks)


def _least(values: NDArray[np.int16], masks: Masks) -> np.int16:
    """Return the least value of a question's cells."""
    for mask in masks:
        values = (values if mask.all() else values[mask]).min(axis=0)
    return np.int16(values)
