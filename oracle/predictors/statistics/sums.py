"""Sums over the cells that a question asks for: of the hypothesis' weights, and of the rows.

A question asks about few attributes, so the table is first summed over all others, once for each set of attributes.
All that is summed are whole numbers whose sum is below 2^53: float64 holds every partial sum exactly, so the result
does not depend on the order of summation, the number of threads, or the machine.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["KEPT_CELLS", "Masks", "Rows", "Sums"]

Masks = Sequence[NDArray[np.bool_]]
"""bool[n, cells] of each attribute: which cells n questions ask for."""

KEPT_CELLS: Final = 1 << 24
"""Cells of all sums that are kept; the oldest go first."""

_WIDEST: Final = 1 << 22
"""Cells of a sum that is worth keeping; questions about more are answered one by one."""

_BLOCK: Final = 1 << 20
"""Numbers of an intermediate result."""


class Sums(ABC):
    """Sums of one table over any product of cells.

    Args:
        shape: Cells of each attribute.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._kept: dict[tuple[int, ...], NDArray[np.float64]] = {}

    def over(self, masks: Masks) -> NDArray[np.float64]:
        """Return the sums that questions ask for: float64[n], whole numbers.

        Args:
            masks: What they ask for, at least one question.
        """
        asked = np.stack([~mask.all(axis=1) for mask in masks], axis=1)
        codes, owners = np.unique(np.packbits(asked, axis=1), axis=0, return_inverse=True)
        sums = np.empty(len(asked))
        for number in range(len(codes)):
            rows = np.flatnonzero(owners.reshape(-1) == number)
            about = tuple(np.flatnonzero(asked[rows[0]]).tolist())
            sums[rows] = self._about(about, [masks[attribute][rows] for attribute in about]) if about else self.total
        return sums

    @property
    @abstractmethod
    def total(self) -> float:
        """The sum over all cells."""

    def _about(self, about: tuple[int, ...], masks: Masks) -> NDArray[np.float64]:
        """Return the sums of questions about the same attributes."""
        if np.prod([float(self._shape[attribute]) for attribute in about]) > _WIDEST:
            count = len(masks[0])
            return np.array([self._one(about, [mask[row] for mask in masks]) for row in range(count)])
        return _contracted(self._table(about), masks)

    def _table(self, about: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the table summed over all attributes but these."""
        kept = self._kept.pop(about, None)
        if kept is None:
            kept = self._summed(about)
            held = sum(table.size for table in self._kept.values()) + kept.size
            while self._kept and held > KEPT_CELLS:
                held -= self._kept.pop(next(iter(self._kept))).size
        self._kept[about] = kept
        return kept

    @abstractmethod
    def _summed(self, about: tuple[int, ...]) -> NDArray[np.float64]:
        """Sum the table over all attributes but these, in their order."""

    @abstractmethod
    def _one(self, about: tuple[int, ...], masks: Masks) -> float:
        """Return the sum of one question without a table: `masks` are bool[cells]."""


class Rows(Sums):
    """Counts of a table's rows. Private.

    Args:
        shape: Cells of each attribute.
        cells: int64[n], the cell of each row as one number (C order); -1 for a row that is blanked.
    """

    def __init__(self, shape: tuple[int, ...], cells: NDArray[np.int64]) -> None:
        super().__init__(shape)
        places = np.unravel_index(cells[cells >= 0], shape)
        self._places = [place.astype(np.int32) for place in places]

    @property
    def total(self) -> float:
        """Rows that are there."""
        return float(len(self._places[0]))

    def _summed(self, about: tuple[int, ...]) -> NDArray[np.float64]:
        shape = tuple(self._shape[attribute] for attribute in about)
        flat = np.zeros(len(self._places[0]), dtype=np.int64)
        for attribute, cells in zip(about, shape, strict=True):
            flat *= cells
            flat += self._places[attribute]
        return np.bincount(flat, minlength=int(np.prod(shape))).astype(np.float64).reshape(shape)

    def _one(self, about: tuple[int, ...], masks: Masks) -> float:
        chosen = np.ones(len(self._places[0]), dtype=np.bool_)
        for attribute, mask in zip(about, masks, strict=True):
            chosen &= mask[self._places[attribute]]
        return float(np.count_nonzero(chosen))


def _contracted(table: NDArray[np.float64], masks: Masks) -> NDArray[np.float64]:
    """Return the sums of a table over products of cells: float64[n]."""
    first = table.reshape(len(table), -1)
    count, step = len(masks[0]), max(_BLOCK // first.shape[1], 1)
    parts = [_block(first, [mask[start : start + step] for mask in masks]) for start in range(0, count, step)]
    return np.concatenate(parts)


def _block(first: NDArray[np.float64], masks: Masks) -> NDArray[np.float64]:
    left = masks[0].astype(np.float64) @ first
    for mask in masks[1:]:
        count, cells = mask.shape
        left = (mask.astype(np.float64)[:, None, :] @ left.reshape(count, cells, -1))[:, 0, :]
    return left[:, 0]
