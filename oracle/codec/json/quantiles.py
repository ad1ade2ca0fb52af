"""Answers to questions about a distribution as JSON.

    {"id":"1","value":0.62,"error":0.05,"paid":3,"verified":true,"model":"d","round":0}
    {"id":"2","quantile":12.0,"value":0.497,"error":0.05,"paid":4,"verified":true,"model":"d","round":1}
    {"id":"3","model":"d","round":2,"error":0.05,"paid":9,"values":[{"value":0.1,"verified":true},...]}
    {"id":"4","model":"d","round":9,"error":0.05,"paid":9,"values":[{"quantile":"A320","value":0.1,"verified":true},...]}

`value` is the share of the rows that are no greater than what was asked at, or than the quantile beside it. `error` is
what the plan promises of it: `null` where that is not promised any more.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.codec.json.public import PublicWriter, Several, number_texts
from oracle.mechanisms.orders import digits_texts
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.features import Feature
from oracle.planning.serving import most_rows
from oracle.predictors.base import Answers

__all__ = ["DistributionWriter"]

_ITEM = len(b'{"quantile":,"value":,"verified":false},') + 2 * 24
"""Bytes of an item: the longest number, date or decimal has 24."""

_ESCAPED = len(b"\\u0000")
"""Bytes that one of a text may take."""


class DistributionWriter(PublicWriter[Several]):
    """Writes the answers of one model about a distribution."""

    def __init__(self, plan: DistributionPlan) -> None:
        super().__init__(plan)
        self._plan = plan
        self._feature = plan.features[0]

    @property
    def largest(self) -> int:
        """Bytes of the largest answer to a list, without its id and what surrounds it."""
        item = _ITEM + (2 + _ESCAPED * self._feature.longest if self._feature.kind == "string" else 0)
        return item * min(most_rows(self._plan), self._plan.limits.body_bytes // len(b"0,"))

    def _asked(self, rows: NDArray[np.float64], answers: Answers) -> Iterable[bytes]:
        """Return what stands before each value: of a quantile, what was found."""
        assert answers.values is not None and answers.found is not None  # noqa: S101, PT018 -- its predictor gives both
        asked = [b'"value":'] * len(rows)
        sought = np.flatnonzero((rows[:, -1] >= 0.0) & ~np.isnan(answers.values))
        for place, text in zip(sought.tolist(), _texts(self._feature, answers.found[sought]), strict=True):
            asked[place] = b'"quantile":%b,"value":' % text
        return asked

    def _items(self, message: Several, rows: NDArray[np.float64], answers: Answers) -> Iterable[bytes]:  # noqa: ARG002 -- the id says it
        return self._values(rows, answers)


def _texts(feature: Feature, found: NDArray[np.float64]) -> Sequence[bytes]:
    """Return values (float64[n, k], their numbers) as JSON, as a question may ask at them: decimals with all places."""
    if not len(found):
        return []
    if feature.kind == "string":
        return [msgspec.json.encode(text.decode()) for text in digits_texts(found)]
    if feature.kind == "date":
        days = found[:, 0].astype(np.int64).astype("datetime64[D]")
        return [msgspec.json.encode(str(day)) for day in days]
    if feature.kind == "decimal":
        return [b"%.*f" % (feature.decimals, number) for number in found[:, 0].tolist()]
    return number_texts(found[:, 0])
