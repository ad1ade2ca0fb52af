"""Answers to questions about a table as JSON.

    {"id":"q1","value":0.1234,"error":0.02,"paid":17,"verified":true,"model":"s","round":0}
    {"id":"q2","model":"s","round":1,"error":0.02,"paid":18,"values":[{"origin":"EWR","value":0.1,"verified":true},...]}
    {"id":"q6","value":0.1234,"error":null,"paid":20,"verified":false,"model":"s","round":9}

`error` is what the plan promises of each value beside it: `null` where that is not promised (any more).
Of a sparse vector:

    {"id":"q3","above":false,"paid":3,"model":"v","round":0}
    {"id":"q4","above":true,"value":0.061,"error":0.02,"paid":4,"model":"v","round":1}
    {"id":"q5","error":"budget-spent","paid":4,"model":"v","round":2}

`round` is the first where there are several, `paid` is counted behind the last. Answers are public, so their length is.
"""

from collections.abc import Iterable
from itertools import product, repeat
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.codec.json.domains import domains_of
from oracle.codec.json.public import PublicWriter, given, number_texts
from oracle.codec.json.questions import Breakdown
from oracle.planning.attributes import MOST_ATTRIBUTES
from oracle.planning.serving import most_rows
from oracle.planning.statistics.model import SparseVectorPlan, TablePlan
from oracle.predictors.base import NO_LABEL, Answers

__all__ = ["ShareWriter"]

_ABOVE: Final = {0: b'"above":false', 1: b'"above":true', NO_LABEL: b'"above":null'}
_CELL: Final = len(b'{,"value":,"verified":false},') + 24 + 2 * MOST_ATTRIBUTES
"""Bytes of a cell without its names and labels: the longest number has 24; a colon and a comma for each attribute."""

_SPENT: Final = b'"error":"budget-spent"'


class ShareWriter(PublicWriter[Breakdown]):
    """Writes the answers of one model about a table."""

    def __init__(self, plan: TablePlan) -> None:
        super().__init__(plan)
        self._sparse = isinstance(plan, SparseVectorPlan)
        self._promised = plan.questions
        self._plan = plan

    @property
    def largest(self) -> int:
        """Bytes of the largest answer to a breakdown, without its id and what surrounds it."""
        cell = _CELL + sum(
            len(msgspec.json.encode(name)) + max(map(len, domain.labels))
            for name, domain in domains_of(self._plan.attributes).items()
        )
        return cell * min(most_rows(self._plan), self._plan.layout.size)

    def _single(self, rows: NDArray[np.float64], answers: Answers) -> list[Iterable[bytes]]:
        if self._sparse:
            return [self._above_alone(answers), repeat(b',"paid":'), number_texts(answers.paid)]
        return super()._single(rows, answers)

    def _above(self, answers: Answers) -> list[bytes]:
        """Return outcomes, with values where there are any."""
        rows = zip(answers.labels.tolist(), number_texts(answers.values), given(answers.verified), strict=True)
        return [
            _SPENT
            if label != NO_LABEL and not answered
            else _ABOVE[label]
            if value == b"null"
            else b'%b,"value":%b' % (_ABOVE[label], value)
            for label, value, answered in rows
        ]

    def _above_alone(self, answers: Answers) -> list[bytes]:
        """Return the same with the error of each value, which is promised of the first questions."""
        promised = self._promised - answers.first_round
        return [
            b"%b,%b" % (text, self._errors[number < promised]) if b'"value":' in text else text
            for number, text in enumerate(self._above(answers))
        ]

    def _all_promised(self, answers: Answers) -> bool:
        if self._sparse:
            return answers.first_round + len(answers.labels) <= self._promised
        return super()._all_promised(answers)

    def _items(self, message: Breakdown, rows: NDArray[np.float64], answers: Answers) -> Iterable[bytes]:
        names = map(b",".join, product(*message.labels))
        cells = self._above(answers) if self._sparse else self._values(rows, answers)
        return map(b"%b,%b".__mod__, zip(names, cells, strict=True))
