"""Teachers of no known kind: how they are asked."""

import numpy as np
import pytest

from oracle.predictors.ensemble.learner import Fitted
from oracle.predictors.ensemble.others import Others


class Rounding:
    """Says what follows from how many rows it is asked about at once, as rounding may."""

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Return a class for each row."""
        return (rows[:, 0] * len(rows) > 128.0).astype(np.int64)


@pytest.mark.parametrize("size", [1, 7, 255, 256, 257, 600])
def test_a_vote_does_not_depend_on_how_many_are_asked_together(size: int) -> None:
    """Every block has as many rows as any other, so how sums are rounded there is no other."""
    rows = np.random.default_rng(3).random((600, 1))
    teacher = Fitted((), Rounding())
    some = Others([(teacher, 0)], 2, rows[:10], ["sklearn"])
    found = np.concatenate([some.votes(rows[start : start + size]) for start in range(0, 600, size)])
    assert np.array_equal(found[:, 1], rows[:, 0] * 256 > 128.0)
