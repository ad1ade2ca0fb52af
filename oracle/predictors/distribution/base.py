"""What both profiles of a distribution have in common."""

from dataclasses import replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.orders import Keys, load_keys, plain_keys
from oracle.planning.distribution.model import DistributionPlan, domain_of
from oracle.predictors.base import Answers, StateArrays
from oracle.predictors.questions import QuestionPredictor
from oracle.predictors.values import Values

__all__ = ["AT", "SortedRows"]

AT: Final = -1.0
"""What stands behind a value in a question's row, where the share up to it is asked for."""


class SortedRows(QuestionPredictor[DistributionPlan]):
    """Has the rows in order, and tells of each quantile where it was found."""

    def _take(self, keys: Keys) -> None:
        """Take the rows in: [declared] keys in order, those of blanked rows beyond all others."""
        self._keys = keys
        self._values = Values(self._plan.features)
        self._domain = domain_of(self._plan.feature)
        self._found: list[NDArray[np.float64]] = []

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        """Answer a batch in arrival order (see `Predictor.answer`)."""
        self._found = [np.empty((0, self._plan.width - 1))]
        answers = super().answer(features, present)
        found, self._found = np.concatenate(self._found), []
        return replace(answers, found=found)

    def _row_at(self, rank: int) -> NDArray[np.float64]:
        """Return the numbers of a value, by its rank among all there are."""
        return np.array(self._domain.row(rank))

    def _key_of(self, row: NDArray[np.float64]) -> Any:  # noqa: ANN401 -- a float, or bytes
        return self._values.column(row[None], 0)[0].item()

    def _count(self, key: Any) -> int:  # noqa: ANN401 -- see above
        """Return how many rows are at most a value."""
        return int(np.searchsorted(self._keys, np.array(key, dtype=self._keys.dtype), side="right"))

    def _exported(self, comparisons: int) -> dict[str, NDArray[np.generic]]:
        """Return what both profiles have in their states."""
        counters = (self._round, self._phase, self._phase_round, self.paid, comparisons)
        return {**self._header(*counters), "rows": plain_keys(self._keys).copy()}

    @classmethod
    def _reopened(cls, plan: DistributionPlan, arrays: StateArrays) -> tuple[Self, Keys, int]:
        """Return a predictor at the round of a state, its rows, and its comparisons.

        Raises:
            CorruptSnapshotError: It is not of the plan's sizes.
        """
        predictor, _ = cls._reopened_at(plan, arrays)
        keys = load_keys(arrays["rows"], Values(plan.features).kind)
        if len(keys) != plan.declared:
            raise CorruptSnapshotError("snapshot: its rows are not those of its plan")
        return predictor, keys, int(arrays["counters"][4])
