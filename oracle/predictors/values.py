"""Where each feature's values stand in a row of numbers, and as what they are compared."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.orders import NUMBER_BYTES, Keys, digit_codes, key_type, number_codes
from oracle.planning.features import Feature, columns_of, key_bytes

__all__ = ["Values"]


class Values:
    """The values of a model's features in float64[n, D].

    Args:
        features: The features.
        size: Bytes of a key; of the longest among these features, if it is not given.

    Attributes:
        starts: Where each feature's numbers begin.
        kind: Type of the keys of all sides.
    """

    def __init__(self, features: Sequence[Feature], size: int | None = None) -> None:
        self._features = features
        self._size = key_bytes(features) if size is None else size
        self.starts = columns_of(features)
        self.kind = key_type(self._size)

    def names(self) -> list[str]:
        """Return the feature's name for each of the D numbers."""
        return [feature.name for feature in self._features for _ in range(feature.width)]

    def column(self, rows: NDArray[np.float64], number: int) -> Keys:
        """Return a feature's values as what compares like them: float64[n], or [n] keys of strings.

        Args:
            rows: float64[n, D], without -0.0.
            number: Which feature; if a string, one that may have a side.
        """
        if self._features[number].kind != "string":
            return rows[:, self.starts[number]]
        return digit_codes(rows[:, self.starts[number] : self.starts[number + 1]], self._size)

    def widened(self, column: Keys) -> Keys:
        """Return what `column` returned as keys that are as long as those of all other features."""
        return number_codes(column, self._size) if column.dtype != self.kind else column

    def codes(self, rows: NDArray[np.float64], number: int) -> Keys:
        """Return a feature's values as keys, of a model whose keys are bytes (see `column`)."""
        assert self._size > NUMBER_BYTES  # noqa: S101 -- else they are the numbers themselves
        return self.widened(self.column(rows, number))
