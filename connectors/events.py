"""Answers to CloudEvents (version 1.0) are events of their own: what they are known by, on any bus.

A de-duplicator drops an event whose `source` and `id` it has seen, so no answer has its query's. `causationid` names
the query, as CloudEvents' extension for correlation has it; `correlationid` and all else of an asker's own comes back.
"""

import hmac
from typing import Final
from urllib.parse import quote

import msgspec

__all__ = ["ANSWER_ID", "CAUSE", "CLOUD_EVENT", "TYPE", "VERSION", "AnswerIds", "is_replaced", "source_of"]

CLOUD_EVENT: Final = "application/cloudevents+json"
"""Content type of an event in structured mode: an envelope of JSON, which the codec opens."""

VERSION: Final = "1.0"
"""Of CloudEvents."""

TYPE: Final = "perpetua.answer"
"""Of all answers, rejections too."""

CAUSE: Final = "causationid"
"""The attribute that holds the query's id."""

ANSWER_ID: Final = "answer-id"
"""Header of a delivery that is an event: the id of its answer. No asker's header is handed on by this name."""

_REPLACED: Final = frozenset({"specversion", "id", "source", "type", CAUSE, "time", "datacontenttype", "dataschema"})
_PURPOSE: Final = b"perpetua/event/1/"
_BYTES: Final = 16


class AnswerIds:
    """The ids of answers: the same for a query whenever it is answered again, and never another's.

    Args:
        secret: Of the state, so that another state's answers to the same queries have other ids.
        log: What positions count in: a topic, and a partition if it has several.
    """

    def __init__(self, secret: bytes, *log: str | int) -> None:
        self._secret, self._log = secret, log

    def of(self, position: int) -> bytes:
        """Return the id of the answer to what is at a position: 32 hex digits.

        >>> AnswerIds(b"s", "queries", 0).of(17)
        b'5793760dc30cae51ea807127c5451ce1'
        """
        place = msgspec.msgpack.encode((*self._log, position))
        return hmac.digest(self._secret, _PURPOSE + place, "sha256")[:_BYTES].hex().encode()


def source_of(model: str) -> str:
    """Return the `source` of a model's answers.

    >>> source_of("vfr")
    '/perpetua/vfr'
    """
    return f"/perpetua/{quote(model, safe='')}"


def is_replaced(attribute: str) -> bool:
    """Return whether an answer has its own, or none, in place of its query's; other attributes come back."""
    return attribute in _REPLACED
