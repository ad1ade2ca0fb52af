"""Labels that come later, as JSON, and the answers that they belong to."""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from oracle.codec.json.bodies import BAD_ID, Identifier, JsonBodies
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.plan import Plan

__all__ = ["MOST_ROUNDS", "NO_ANSWER", "Answered", "Truth", "TruthCodec"]

NO_ANSWER: Final = -1
"""In the place of a label: the round had no query, or its query no answer."""

MOST_ROUNDS: Final = 2**63
"""Rounds are below it."""

_ROUND: Final = Rejection(Reason.WRONG_TYPE, "round", "the answer's round: a whole number from 0 to 2^63 - 1")
_LABEL: Final = Rejection(Reason.WRONG_TYPE, "label", "one of the model's labels")
_MODEL: Final = Rejection(Reason.WRONG_TYPE, "model", "this model's name, or left out")


class Truth(NamedTuple):
    """A true label.

    Attributes:
        identifier: Of the answer, as JSON.
        round: Of the answer.
        label: The label's number.
    """

    identifier: bytes
    round: int
    label: int


class Answered(NamedTuple):
    """An answer; `label` is the label's number or `NO_ANSWER`, the others are as in `Truth`."""

    identifier: bytes
    round: int
    label: int


class _TruthMessage(msgspec.Struct):
    round: int
    label: str | int
    id: Identifier = None
    model: str | UnsetType = UNSET


class _AnswerMessage(msgspec.Struct):
    id: Identifier = None
    round: int | UnsetType = UNSET
    label: str | int | UnsetType | None = UNSET
    model: str = ""


class TruthCodec(JsonBodies):
    """Reads messages like {"id": "a", "round": 17, "label": 1}, and answers of one model.

    Args:
        framed: Reads answers that are not JSON: they begin with a zero. None where all are JSON.
    """

    def __init__(self, plan: Plan, framed: Callable[[bytes], Answered | None] | None = None) -> None:
        super().__init__(plan)
        self._framed = framed
        self._name = plan.name
        self._numbers: dict[str | int, int] = {label: number for number, label in enumerate(plan.labels)}
        self._truths = msgspec.json.Decoder(_TruthMessage)
        self._answers = msgspec.json.Decoder(_AnswerMessage)

    def truth(self, body: bytes | None) -> Truth | Rejection:
        """Return a true label, or what is wrong with its message; which is never compared with any answer."""
        try:
            message = self._read(self._truths, body or b"")
        except msgspec.ValidationError as exc:
            return _not_valid(str(exc))
        if isinstance(message, Rejection):
            return message
        number = self._numbers.get(message.label)
        if not 0 <= message.round < MOST_ROUNDS:
            return _ROUND
        if message.model not in (UNSET, self._name):
            return _MODEL
        return _LABEL if number is None else Truth(msgspec.json.encode(message.id), message.round, number)

    def answer(self, body: bytes | None) -> Answered | None:
        """Return an answer; None of a line that is none: a rejection has no round, and is no answer."""
        if self._framed is not None and body is not None and body.startswith(b"\0"):
            return self._framed(body)
        try:
            message = self._answers.decode(body or b"")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if message.model != self._name or message.round is UNSET or not 0 <= message.round < MOST_ROUNDS:
            return None
        label = NO_ANSWER if message.label in (None, UNSET) else self._numbers.get(message.label, NO_ANSWER)
        return Answered(msgspec.json.encode(message.id), message.round, label)


def _not_valid(text: str) -> Rejection:
    """Name the field of a message that has the wrong type, or is missing, without quoting the message."""
    if "`round`" in text or "$.round" in text:
        return _ROUND
    if "`label`" in text or "$.label" in text:
        return _LABEL
    if "$.id" in text:
        return BAD_ID
    if "$.model" in text:
        return _MODEL
    return Rejection(Reason.WRONG_TYPE, "body", "a JSON object")
