"""What the journal and the outbox keep of messages, and how a journalled query becomes a delivery."""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from connectors.base import ARROW_STREAM, JSON, RETAINED, Delivery
from connectors.events import ANSWER_ID, CLOUD_EVENT, AnswerIds
from connectors.journal.segment import Found
from connectors.mqtt.settings import MqttSettings

__all__ = [
    "NO_PAIRS",
    "Incoming",
    "Outgoing",
    "Pairs",
    "Query",
    "Recent",
    "SessionBegan",
    "Stored",
    "delivery",
    "pack",
    "pack_pairs",
    "stored",
    "unpack",
    "unpack_pairs",
]

Pairs = tuple[tuple[str, str], ...]
"""User properties in their order; names may be repeated."""

NO_PAIRS: Final = msgspec.Raw(msgspec.msgpack.encode(()))
"""User properties of a message that has none, as all are held: packed. Python's strings can take 30 times as much."""

DIGEST_BYTES: Final = 16
_OBJECT_BYTES: Final = 512
"""What a message takes that holds nothing."""

_WIDEST: Final = 8
"""Most bytes that a character of a string takes, with the UTF-8 that Python keeps beside it."""

RESPONSE_TOPIC: Final = "response-topic"
EXPIRY: Final = "expiry"
_EVENT: Final = frozenset({"specversion", "id"})
USER: Final = "user"
"""Name of the header that holds all user properties, so that none of them can pass for another header."""


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """One message as the broker handed it over.

    Attributes:
        content_type: As its publisher declared it; empty if not.
        response_topic: Where its publisher wants the answer; empty if it does not say.
        correlation: What its publisher knows it by; None if there is no such thing.
        user: `Pairs`, packed.
        expiry: Seconds that it was still good for when the broker sent it; None for ever.
        retained: Whether its retain flag is set.
        qos: 0 or 1.
        mid: The broker's packet id; 0 with QoS 0.
        dup: Whether the broker says that it may have sent it before.
    """

    body: bytes
    topic: str = ""
    content_type: str = ""
    response_topic: str = ""
    correlation: bytes | None = None
    user: msgspec.Raw = NO_PAIRS
    expiry: int | None = None
    retained: bool = False
    qos: int = 1
    mid: int = 0
    dup: bool = False

    @property
    def digest(self) -> bytes:
        """16 bytes of a hash of all that a redelivery has in common with the first delivery; the expiry runs down."""
        same = (self.body, self.content_type, self.response_topic, self.correlation, self.user, self.retained)
        return hashlib.blake2b(msgspec.msgpack.encode(same), digest_size=DIGEST_BYTES).digest()

    @property
    def size(self) -> int:
        """About the bytes of memory that it takes, properties and all."""
        texts = _WIDEST * (len(self.response_topic) + len(self.content_type))
        return _OBJECT_BYTES + len(self.body) + len(self.correlation or b"") + len(self.user) + texts


class Query(msgspec.Struct, frozen=True, array_like=True, tag="q"):
    """A query as the journal keeps it.

    Attributes:
        body: Its payload; of one that is too long as much as shows that it is.
        content_type: Normalised; see `content_type`. The others are those of `Incoming`.
    """

    body: bytes
    content_type: str
    response_topic: str
    correlation: bytes | None
    user: msgspec.Raw
    expiry: int | None
    mid: int
    digest: bytes


class SessionBegan(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """The broker had no session of ours: packet ids from before mean nothing any more."""


class Recent(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """What the newest queries before it were, so that they themselves may be dropped.

    Attributes:
        mids: Packet ids, the oldest first.
        digests: Of each, 16 bytes, one after the other.
    """

    mids: list[int]
    digests: bytes


Stored = Query | SessionBegan | Recent
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Stored] = msgspec.msgpack.Decoder(Stored)
_pairs: msgspec.msgpack.Decoder[Pairs] = msgspec.msgpack.Decoder(tuple[tuple[str, str], ...])


class Outgoing(msgspec.Struct, frozen=True, array_like=True):
    """One message to publish: the same bytes however often.

    Attributes:
        user: The query's `Pairs`, packed.
        expiry: Seconds that it is good for, the query's; None for ever.
        ours: Whether the topic is one of the operator's own, and not one that a query named.
    """

    topic: str
    body: bytes
    content_type: str
    correlation: bytes | None = None
    user: msgspec.Raw = NO_PAIRS
    expiry: int | None = None
    ours: bool = True

    @property
    def size(self) -> int:
        """About the bytes of memory that it takes."""
        rest = len(self.user) + _WIDEST * len(self.topic)
        return _OBJECT_BYTES + len(self.body) + len(self.correlation or b"") + rest


def pack_pairs(pairs: Sequence[tuple[str, str]]) -> msgspec.Raw:
    """Return user properties as they are held."""
    return msgspec.Raw(_encoder.encode(pairs)) if pairs else NO_PAIRS


def unpack_pairs(packed: msgspec.Raw | bytes) -> Pairs:
    """Return user properties.

    >>> unpack_pairs(pack_pairs([("a", "1"), ("a", "2")]))
    (('a', '1'), ('a', '2'))
    """
    return _pairs.decode(packed)


def pack(message: Stored) -> bytes:
    """Return a journal record's body."""
    return _encoder.encode(message)


def unpack(body: bytes) -> Stored:
    """Read a journal record's body."""
    return _decoder.decode(body)


def content_type(message: Incoming) -> str:
    """Return what the body is, in lower case and without parameters, JSON if nothing is said.

    >>> content_type(Incoming(body=b"", content_type="Application/JSON; charset=utf-8"))
    'application/json'
    """
    if message.retained:
        return RETAINED
    return message.content_type.partition(";")[0].strip().lower() or JSON


def stored(message: Incoming, settings: MqttSettings) -> Query:
    """Return what the journal keeps of a message: all that its answer depends on."""
    kind = content_type(message)
    limit = settings.batch_bytes if kind == ARROW_STREAM else settings.body_bytes
    if kind == CLOUD_EVENT:  # which may hold either
        limit = max(settings.batch_bytes, settings.body_bytes)
    return Query(
        message.body[: limit + 1],
        kind,
        message.response_topic,
        message.correlation,
        message.user,
        message.expiry,
        message.mid,
        message.digest,
    )


def delivery(found: Found, answer_ids: AnswerIds) -> Delivery | None:
    """Return a journal record as a delivery; None if it is none. An empty body is a round with no query."""
    message = unpack(found.body)
    if not isinstance(message, Query):
        return None
    headers = [(USER, bytes(message.user))] if message.user != NO_PAIRS else []
    if message.response_topic:
        headers.append((RESPONSE_TOPIC, message.response_topic.encode()))
    if message.expiry is not None:
        headers.append((EXPIRY, b"%d" % message.expiry))
    if _is_event(message):
        headers.append((ANSWER_ID, answer_ids.of(found.position)))
    body = message.body or (None if message.content_type == JSON else b"")
    return Delivery(found.position, body, message.content_type, tuple(headers), message.correlation)


def _is_event(message: Query) -> bool:
    """Return whether a query is a CloudEvent: an envelope, or user properties are the attributes (binary mode)."""
    if message.content_type == CLOUD_EVENT:
        return True
    return message.user != NO_PAIRS and {name for name, _ in unpack_pairs(message.user)} >= _EVENT
