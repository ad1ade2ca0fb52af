"""Teachers of any kind, which scikit-learn asks."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.predictors.ensemble.learner import Fitted
from oracle.predictors.ensemble.numerics import apart, hush, libraries

__all__ = ["Others"]

_BLOCK: Final = 256
"""Rows that a learner is always asked about at once. A sum's rounding may depend on how many rows a matrix has, and on
whether a row is among the last few, which do not fill a kernel's tile; of 256 rows all fill theirs."""


class Others:
    """Learners that are asked in blocks of one size.

    Args:
        teachers: Each with the class that it votes for where its learner fails.
        classes: C.
        probe: float64[m, E], rows by which teachers are told apart, m at most 256.
        paths: Import paths of the learner and of the transformers.
    """

    def __init__(
        self, teachers: Sequence[tuple[Fitted, int]], classes: int, probe: NDArray[np.float64], paths: Sequence[str]
    ) -> None:
        self._teachers = teachers
        self._classes = classes
        self._probe = probe[:_BLOCK]
        self._paths = paths

    def parts(self) -> Iterator[NDArray[np.generic]]:
        """Yield what votes follow from: as nobody knows what these learners hold, what they say, and what they run."""
        yield np.frombuffer(json.dumps(libraries(*self._paths), sort_keys=True).encode(), dtype=np.uint8)
        block = _filled(self._probe)
        with apart(finite=not self._teachers[0][0].steps):
            for teacher, most in self._teachers:
                yield self._asked(teacher, most, block)

    def votes(self, code: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return how many vote for each class: int32[n, C] of float64[n, E]."""
        votes = np.zeros((len(code), self._classes), dtype=np.int32)
        for start in range(0, len(code), _BLOCK):
            some = code[start : start + _BLOCK]
            rows = np.arange(start, start + len(some))
            with apart(finite=not self._teachers[0][0].steps):
                for teacher, most in self._teachers:
                    votes[rows, self._asked(teacher, most, some)] += 1
        return votes

    def _asked(self, teacher: Fitted, most: int, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return what a teacher says of a block's rows or fewer; those that its learner fails on touch no others."""
        said = _predicted(teacher, _filled(rows))
        if said is not None:
            # As RadiusNeighborsClassifier does: it says `outlier_label`, whatever that is.
            return np.where((said >= 0) & (said < self._classes), said, most)[: len(rows)]
        if len(rows) == 1:
            return np.array([most])
        halves = np.array_split(rows, 2)  # a row that fails is found in a few steps, and anybody may send one
        return np.concatenate([self._asked(teacher, most, half) for half in halves])


def _filled(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a whole block, of the rows and the last one again."""
    return np.concatenate((rows, np.repeat(rows[-1:], _BLOCK - len(rows), axis=0)))


def _predicted(teacher: Fitted, block: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Return a class for each row, which need not be one of the plan's; None where the learner fails."""
    try:
        hush()
        said = teacher.predict(block)
    except MemoryError:
        raise
    except (Exception, SystemExit):  # noqa: BLE001 -- as in a fit
        return None
    return said if said.shape == (len(block),) else None
