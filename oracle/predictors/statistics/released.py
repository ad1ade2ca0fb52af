"""What paid answers have told of the rows, and what follows from it for other questions. All of it is public."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.planning.attributes import Layout

__all__ = ["Interval", "Released"]

_BLOCK: Final = 1 << 22
"""Words of a comparison of many questions with all released ones."""

_SUMMED: Final = 4096
"""Released questions, the first ones, of which intervals are added up: it bounds the work of a question."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds on the rows that satisfy a question, both included."""

    low: float
    high: float


class Released:
    """The questions that were paid for, and how many rows satisfy each.

    Formal guarantees:
        * If each interval that was added holds and no row is blanked, so does each one that follows (a question within
          another one has no more rows; disjoint ones add up, and all together to the declared rows).

    Args:
        layout: Of the table.
        rows: n, declared.
        most: K, how many will be added at most.
    """

    def __init__(self, layout: Layout, rows: int, most: int) -> None:
        self._layout = layout
        self._rows = float(rows)
        starts = np.concatenate([[0], np.cumsum(layout.words)[:-1]])
        self._starts = starts.astype(np.intp)
        self._count = 0
        self._words = np.zeros((most, layout.width), dtype=np.uint64)
        self._volumes = np.zeros(most)
        self._low = np.zeros(most)
        self._high = np.zeros(most)
        self._apart: list[int] = []  # of each of the first `_SUMMED`, with which of them it has no cell in common: bits

    def __len__(self) -> int:
        return self._count

    @property
    def questions(self) -> NDArray[np.float64]:
        """float64[K, width], the rows of the questions that were paid for; zeros behind them."""
        return self._words.astype(np.float64)

    @property
    def bounds(self) -> NDArray[np.float64]:
        """float64[K, 2], their intervals; zeros behind them."""
        return np.stack([self._low, self._high], axis=1)

    def add(self, row: NDArray[np.float64], found: Interval) -> None:
        """Take in a question (float64[width]) and what its answer told.

        Of two intervals for one question what they share is kept; the newer where they share nothing.
        """
        words = row.astype(np.uint64)
        same = np.flatnonzero((self._words[: self._count] == words).all(axis=1))
        number = int(same[0]) if len(same) else self._count
        low, high = found.low, found.high
        if len(same):
            low, high = max(low, float(self._low[number])), min(high, float(self._high[number]))
            if low > high:
                low, high = found.low, found.high
        else:
            self._note_apart(words)
            self._count += 1
        self._words[number], self._low[number], self._high[number] = words, low, high
        self._volumes[number] = self._volume(words)

    def _note_apart(self, words: NDArray[np.uint64]) -> None:
        """Note with which questions another one has no cell in common."""
        if self._count >= _SUMMED:
            return
        met = np.bitwise_or.reduceat(self._words[: self._count] & words, self._starts, axis=1) != 0
        apart = ~met.all(axis=1)
        for other in np.flatnonzero(apart).tolist():
            self._apart[other] |= 1 << self._count
        self._apart.append(int.from_bytes(np.packbits(apart, bitorder="little").tobytes(), "little"))

    def each(self) -> Iterator[tuple[list[NDArray[np.bool_]], Interval]]:
        """Yield each question, as bool[cells] of each attribute, and its interval, in the order of first payment."""
        masks = self._layout.masks(self._words[: self._count].astype(np.float64))
        for number in range(self._count):
            low, high = float(self._low[number]), float(self._high[number])
            yield [mask[number] for mask in masks], Interval(low, high)

    def implied(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the interval that follows for each question: float64[n, 2].

        Args:
            rows: float64[n, width].
        """
        words = rows.astype(np.uint64)
        step = max(_BLOCK // max(self._count * self._layout.width, 1), 1)
        parts = [self._block(words[start : start + step]) for start in range(0, len(words), step)]
        return np.concatenate(parts) if parts else np.empty((0, 2))

    def _block(self, words: NDArray[np.uint64]) -> NDArray[np.float64]:
        bounds = np.empty((len(words), 2))
        bounds[:] = 0.0, self._rows
        count = self._count
        if not count:
            return bounds
        common = words[:, None, :] & self._words[None, :count, :]
        contained = (common == self._words[None, :count]).all(axis=2)
        containing = (common == words[:, None, :]).all(axis=2)
        met = np.bitwise_or.reduceat(common, self._starts, axis=2) != 0
        disjoint = ~met.all(axis=2)
        bounds[:, 0] = np.where(contained, self._low[:count], 0.0).max(axis=1)
        bounds[:, 1] = np.where(containing, self._high[:count], self._rows).min(axis=1)
        volumes = self._volumes[:count]
        own = np.array([self._volume(row) for row in words])
        covered = contained @ volumes >= own
        complemented = disjoint @ volumes >= self._layout.size - own
        for row in np.flatnonzero(covered | complemented):
            self._refine(bounds[row], float(own[row]), np.flatnonzero(contained[row]), np.flatnonzero(disjoint[row]))
        return bounds

    def _refine(
        self, bounds: NDArray[np.float64], volume: float, within: NDArray[np.intp], outside: NDArray[np.intp]
    ) -> None:
        """Narrow a question's interval by parts that it consists of, or that all else consists of, in place."""
        low, high, whole = self._sum_of_parts(within, volume)
        bounds[0] = max(bounds[0], low)
        if whole:
            bounds[1] = min(bounds[1], high)
        low, high, whole = self._sum_of_parts(outside, self._layout.size - volume)
        bounds[1] = min(bounds[1], self._rows - low)
        if whole:
            bounds[0] = max(bounds[0], self._rows - high)

    def _sum_of_parts(self, parts: NDArray[np.intp], volume: float) -> tuple[float, float, bool]:
        """Return the sums of the intervals of disjoint parts, the large ones first, and whether they are the whole."""
        parts = parts[parts < _SUMMED]
        chosen, bits = [], 0
        for number in parts[np.argsort(-self._volumes[parts], kind="stable")].tolist():
            if not bits & ~self._apart[number]:
                chosen.append(number)
                bits |= 1 << number
        whole = float(self._volumes[chosen].sum()) == volume and volume > 0.0
        return float(self._low[chosen].sum()), float(self._high[chosen].sum()), whole

    def _volume(self, words: NDArray[np.uint64]) -> float:
        """Return how many cells a question asks for."""
        ones: Sequence[int] = np.add.reduceat(np.bitwise_count(words).astype(np.int64), self._starts).tolist()
        volume = 1.0
        for cells in ones:
            volume *= cells
        return volume
