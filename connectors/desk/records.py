"""What the journals of questions and of answers hold, and how a question becomes a delivery."""

import hashlib
from typing import Final

import msgspec

from connectors.base import JSON, Delivery, Headers
from connectors.events import ANSWER_ID, CLOUD_EVENT, AnswerIds
from connectors.journal.segment import Found

__all__ = ["Answered", "Answers", "Question", "delivery", "digest_of", "pack", "question_of"]

_ID: Final = "id"
_DIGEST: Final = "digest"
_DIGEST_BYTES: Final = 16


class Question(msgspec.Struct, frozen=True, array_like=True):
    """A question as it was handed in.

    Attributes:
        id: Known to its asker, and to nobody else.
        digest: Of the body; who hands in an id again must hand in the same.
        content_type: Of the body.
    """

    id: bytes
    digest: bytes
    body: bytes
    content_type: str = JSON


class Answered(msgspec.Struct, frozen=True, array_like=True):
    """The reply to one question; `body` is the reply's."""

    id: bytes
    digest: bytes
    body: bytes


class Answers(msgspec.Struct, frozen=True, array_like=True):
    """One commit.

    Attributes:
        ledger: Events, each one line of the ledger's file.
        length: Bytes of the ledger's file before them.
    """

    position: int
    metadata: bytes
    replies: list[Answered]
    ledger: list[bytes]
    length: int


_encoder = msgspec.msgpack.Encoder()
_questions = msgspec.msgpack.Decoder(Question)


def digest_of(body: bytes, content_type: str = JSON) -> bytes:
    """Return 16 bytes of a hash of a question's body, and of its content type if that is not JSON."""
    whole = body if content_type == JSON else content_type.encode() + b"\0" + body
    return hashlib.blake2b(whole, digest_size=_DIGEST_BYTES).digest()


def pack(record: Question | Answers) -> bytes:
    """Return a journal record's body."""
    return _encoder.encode(record)


def question_of(found: Found) -> Question:
    """Read a record of the journal of questions."""
    return _questions.decode(found.body)


def delivery(found: Found) -> Delivery:
    """Return a journalled question as a delivery, which the reply's headers name."""
    question = question_of(found)
    headers: Headers = ((_ID, question.id), (_DIGEST, question.digest))
    if question.content_type == CLOUD_EVENT:
        headers += ((ANSWER_ID, AnswerIds(question.id).of(found.position)),)
    return Delivery(found.position, question.body, question.content_type, headers)
