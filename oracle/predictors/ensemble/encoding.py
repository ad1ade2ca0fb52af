"""Rows as learners want them: numbers only, none of them missing.

Nothing here is learned from data, so it costs no privacy, and one row's code does not depend on another's.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.planning.ensemble.model import MISSING
from oracle.planning.features import Feature

__all__ = ["Encoder"]

_LARGEST: Final = float(np.finfo(np.float32).max)
"""Numbers beyond it count as it: scikit-learn's trees read float32."""


class Encoder:
    """A fixed code of rows.

    First the values of all numbers, dates and decimals in the order of their features, 0 where one is missing; then as
    many columns that are 1 where it is; then for each feature of k categories k + 2, of which one is 1: the categories,
    "other" and "missing". A column that is 0 throughout costs a tree next to nothing, and a linear learner gives it no
    weight; a number that stood for "missing" would be a value to all learners but trees.

    Args:
        features: Of the model.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        named = np.array([feature.kind == "category" for feature in features], dtype=np.bool_)
        self._numbers, self._named = np.flatnonzero(~named), np.flatnonzero(named)
        sizes = [len(feature.categories) + 2 for feature in features if feature.categories]
        ends = 2 * len(self._numbers) + np.cumsum(sizes, dtype=np.int64)
        self._firsts, self._lasts = ends - sizes, ends - 1
        self.width = 2 * len(self._numbers) + sum(sizes)
        """E, columns of the code."""

    def encode(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the code of rows.

        Args:
            rows: float64[n, D]: numbers as they are, categories as indexes (the number of categories is "other"),
                `MISSING` where a value is missing.

        Returns:
            float64[n, E], each within the range of float32.
        """
        code = np.zeros((len(rows), self.width))
        count = len(self._numbers)
        numbers = rows[:, self._numbers]
        missing = numbers == MISSING
        np.clip(numbers, -_LARGEST, _LARGEST, out=code[:, :count])
        code[:, :count][missing] = 0.0
        code[:, count : 2 * count] = missing
        names = rows[:, self._named]
        places = np.where(names == MISSING, self._lasts, self._firsts + names)
        np.put_along_axis(code, places.astype(np.int64), 1.0, axis=1)
        return code
