"""What messages of public questions have in common: several answers in one message, and what is said beside a value."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.codec.json.bodies import Identifier
from oracle.codec.json.runs import encode_rounds, split_texts
from oracle.planning.features import NAME_LIMIT
from oracle.planning.plan import Plan
from oracle.predictors.base import Answers

__all__ = ["PublicWriter", "Several", "given", "named", "number_texts"]

_VERIFIED: Final = (b',"verified":false', b',"verified":true')


@dataclass(frozen=True, slots=True)
class Several:
    """A message that asks for several things, each of which takes a round."""

    id: Identifier


SeveralT = TypeVar("SeveralT", bound=Several)


class PublicWriter(ABC, Generic[SeveralT]):
    """Writes the answers of one model, each a value with the error that is promised of it."""

    def __init__(self, plan: Plan) -> None:
        self._errors = (b'"error":null', b'"error":%b' % msgspec.json.encode(plan.alpha))
        self._between = tuple(b",%b,%b" % (error, b'"paid":') for error in self._errors)
        self._model = b'"model":%b,"round":' % msgspec.json.encode(plan.name)

    @property
    @abstractmethod
    def largest(self) -> int:
        """Bytes of the largest answer to a message that asks for several things, without what surrounds these."""

    def singles(self, identifiers: Sequence[Identifier], rows: NDArray[np.float64], answers: Answers) -> list[bytes]:
        """Return the message of each row, each of which is a question of its own.

        Args:
            identifiers: Their ids.
            rows: float64[n, D], as the predictor was given them.
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
            *self._single(rows, answers),
            repeat(b"," + self._model),
            encode_rounds(answers.first_round, len(identifiers)),
            repeat(b"}"),
            strict=False,
        )
        return list(map(b"".join, parts))

    def _single(self, rows: NDArray[np.float64], answers: Answers) -> list[Iterable[bytes]]:
        """Return what stands between ids and models, in columns."""
        between = map(self._between.__getitem__, given(answers.verified))
        return [
            self._asked(rows, answers),
            number_texts(answers.values),
            between,
            number_texts(answers.paid),
            _verified(answers),
        ]

    def _asked(self, rows: NDArray[np.float64], answers: Answers) -> Iterable[bytes]:  # noqa: ARG002 -- of those who say more
        """Return what stands before each value, its name included."""
        return repeat(b'"value":')

    def _values(self, rows: NDArray[np.float64], answers: Answers) -> Iterable[bytes]:
        """Return what is said of each row where one message has several."""
        parts = zip(self._asked(rows, answers), number_texts(answers.values), _verified(answers), strict=False)
        return map(b"".join, parts)

    def several(self, message: SeveralT, rows: NDArray[np.float64], answers: Answers) -> bytes:
        """Return the one message of a question that asks for several things."""
        return b'{"id":%b,%b%d,%b,"paid":%b,"values":[{%b}]}' % (
            msgspec.json.encode(message.id),
            self._model,
            answers.first_round,
            self._errors[self._all_promised(answers)],
            number_texts(answers.paid)[-1],
            b"},{".join(self._items(message, rows, answers)),
        )

    def _all_promised(self, answers: Answers) -> bool:
        """Return whether the error is promised of all values: whoever reads it alone is not misled."""
        return all(given(answers.verified))

    @abstractmethod
    def _items(self, message: SeveralT, rows: NDArray[np.float64], answers: Answers) -> Iterable[bytes]:
        """Return what is said of each of several things, without its braces."""


def named(name: str) -> str:
    """Return a name that there is not, as it may be shown anywhere: no longer than one may be, and printable."""
    short = name if len(name) <= NAME_LIMIT else f"{name[:NAME_LIMIT]}..."
    return short if short.isprintable() else ascii(short)[1:-1]


def given(column: Any) -> list[Any]:  # noqa: ANN401 -- an array
    """Return a column of answers that is there."""
    assert column is not None  # noqa: S101 -- those who answer public questions give all columns
    values: list[Any] = column.tolist()
    return values


def number_texts(column: Any) -> list[bytes]:  # noqa: ANN401 -- an array
    """Return each number as the shortest text that reads as it, null for NaN."""
    return msgspec.json.encode(given(column))[1:-1].split(b",")


def _verified(answers: Answers) -> Iterable[bytes]:
    return map(_VERIFIED.__getitem__, given(answers.verified))
