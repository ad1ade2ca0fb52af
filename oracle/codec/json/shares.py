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

from collections.abc import Iterable, Sequence
from itertools import product, repeat
from typing import Any, Final

import msgspec

from oracle.codec.json.bodies import Identifier
from oracle.codec.json.domains import domains_of
from oracle.codec.json.questions import Breakdown
from oracle.codec.json.runs import encode_rounds, split_texts
from oracle.planning.attributes import MOST_ATTRIBUTES
from oracle.planning.serving import most_rows
from oracle.planning.statistics.model import SparseVectorPlan, TablePlan
from oracle.predictors.base import NO_LABEL, Answers

__all__ = ["ShareWriter", "largest_answer"]

_VERIFIED: Final = (b',"verified":false', b',"verified":true')
_ABOVE: Final = {0: b'"above":false', 1: b'"above":true', NO_LABEL: b'"above":null'}
_CELL: Final = len(b'{,"value":,"verified":false},') + 24 + 2 * MOST_ATTRIBUTES
"""Bytes of a cell without its names and labels: the longest number has 24; a colon and a comma for each attribute."""

_SPENT: Final = b'"error":"budget-spent"'


def largest_answer(plan: TablePlan) -> int:
    """Return the bytes of the largest answer to a breakdown, without its id and what surrounds it."""
    cell = _CELL + sum(
        len(msgspec.json.encode(name)) + max(map(len, domain.labels))
        for name, domain in domains_of(plan.attributes).items()
    )
    return cell * min(most_rows(plan), plan.layout.size)


class ShareWriter:
    """Writes the answers of one model.

    Args:
        plan: The plan.
    """

    def __init__(self, plan: TablePlan) -> None:
        self._sparse = isinstance(plan, SparseVectorPlan)
        self._promised = plan.questions
        self._errors = (b'"error":null', b'"error":%b' % msgspec.json.encode(plan.alpha))
        self._between = tuple(b",%b,%b" % (error, b'"paid":') for error in self._errors)
        self._model = b'"model":%b,"round":' % msgspec.json.encode(plan.name)

    def singles(self, identifiers: Sequence[Identifier], answers: Answers) -> list[bytes]:
        """Return the message of each row, each of which is a question of its own.

        Args:
            identifiers: Their ids.
            answers: Theirs; `values`, `paid` and `verified` are there.
        """
        if not identifiers:
            return []
        texts = split_texts(identifiers)
        head, tail = (b'{"id":', b",") if texts is None else (b'{"id":"', b'",')
        parts = zip(
            repeat(head),
            texts or map(msgspec.json.encode, identifiers),
            repeat(tail),
            *self._single(answers),
            repeat(b"," + self._model),
            encode_rounds(answers.first_round, len(identifiers)),
            repeat(b"}"),
            strict=False,
        )
        return list(map(b"".join, parts))

    def _single(self, answers: Answers) -> list[Iterable[bytes]]:
        """Return what stands between ids and models, in columns."""
        paid = _numbers(answers.paid)
        if self._sparse:
            return [self._above_alone(answers), repeat(b',"paid":'), paid]
        between = map(self._between.__getitem__, _given(answers.verified))
        return [repeat(b'"value":'), _numbers(answers.values), between, paid, _verified(answers)]

    def _above(self, answers: Answers) -> list[bytes]:
        """Return outcomes, with values where there are any."""
        rows = zip(answers.labels.tolist(), _numbers(answers.values), _given(answers.verified), strict=True)
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

    def broken_down(self, message: Breakdown, answers: Answers) -> bytes:
        """Return the one message of a breakdown.

        Args:
            message: At least one cell.
            answers: Of its rows.
        """
        names = map(b",".join, product(*message.labels))
        return b'{"id":%b,%b%d,%b,"paid":%b,"values":[%b]}' % (
            msgspec.json.encode(message.id),
            self._model,
            answers.first_round,
            self._errors[self._all_promised(answers)],
            _numbers(answers.paid)[-1],
            b",".join(b"{%b,%b}" % item for item in zip(names, self._cells(answers), strict=True)),
        )

    def _all_promised(self, answers: Answers) -> bool:
        """Return whether the error is promised of all values: whoever reads it alone is not misled."""
        if self._sparse:
            return answers.first_round + len(answers.labels) <= self._promised
        return all(_given(answers.verified))

    def _cells(self, answers: Answers) -> Iterable[bytes]:
        if self._sparse:
            return self._above(answers)
        return map(b'"value":%b%b'.__mod__, zip(_numbers(answers.values), _verified(answers), strict=True))


def _verified(answers: Answers) -> Iterable[bytes]:
    return map(_VERIFIED.__getitem__, _given(answers.verified))


def _given(column: Any) -> list[Any]:  # noqa: ANN401 -- an array
    assert column is not None  # noqa: S101 -- those who answer questions about a table give all columns
    values: list[Any] = column.tolist()
    return values


def _numbers(column: Any) -> list[bytes]:  # noqa: ANN401 -- an array
    """Return each number as the shortest text that reads as it, null for NaN."""
    return msgspec.json.encode(_given(column))[1:-1].split(b",")
