"""Where a reply goes and what goes with it: pure functions of the query's headers and the allow-list."""

import base64
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from connectors.base import JSON, Headers
from connectors.events import ANSWER_ID, CAUSE, TYPE, VERSION, is_replaced, source_of

__all__ = ["REPLY_TOPIC", "content_type", "dead_letter", "is_event", "kept_headers", "reply_headers", "reply_topic"]

REPLY_TOPIC: Final = "reply-topic"
"""Header of a query that asks for its answer on another topic."""

_REPLY_TOPICS: Final = (REPLY_TOPIC, "kafka_replyTopic")
_KEPT: Final = frozenset({"correlation-id", "kafka_correlationId", "traceparent", "tracestate"})
_CLOUD_EVENTS: Final = "ce_"
_EVENT_ID: Final = "ce_id"
_CONTENT_TYPE: Final = "content-type"
_MOST_KEPT: Final = 256


def content_type(headers: Sequence[tuple[str, bytes | None]], default: str = JSON) -> str:
    """Return the content type that a query's headers declare, in lower case and without parameters, else the default.

    >>> content_type([("Content-Type", b"Application/JSON; charset=utf-8")])
    'application/json'
    """
    declared = next((value for name, value in headers if name.lower() == _CONTENT_TYPE), None)
    return (declared or b"").decode("latin-1").partition(";")[0].strip().lower() or default


def kept_headers(headers: Sequence[tuple[str, bytes | None]], *, structured: bool = False) -> Headers:
    """Return what the reply will need of a query's headers; a repeated name is kept as often as it stands there.

    Of an event in `structured` mode they are no attributes: its envelope has these.

    Names that are not UTF-8, which have lone surrogates here, are left out: they could not be written again. So are all
    beyond the first 256: a record of 1 MB can have 175,000, which take 20 times their bytes.
    """
    kept = (
        (name, value or b"")  # the bus knows headers without a value
        for name, value in headers
        if name in _KEPT
        or name in _REPLY_TOPICS
        or (name.startswith(_CLOUD_EVENTS) and not structured and _is_utf8(name))
    )
    return tuple(islice(kept, _MOST_KEPT))


def is_event(headers: Headers) -> bool:
    """Return whether a query is a CloudEvent in binary mode: it has an id as such."""
    return any(name == _EVENT_ID for name, _ in headers)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def reply_topic(headers: Headers, allowed: Collection[str], default: str) -> str:
    """Return the topic that a query's headers name if it is allowed, else the default.

    A topic that is not allowed is passed over, not refused: the answer must go somewhere, and its asker can read the
    default. (Otherwise anybody who may ask could write to any topic that the daemon may write to.)
    """
    for name, value in headers:
        if name in _REPLY_TOPICS:
            named = value.decode("utf-8", errors="replace")
            return named if named in allowed else default
    return default


def reply_headers(content_type: str, headers: Headers, model: str = "") -> list[tuple[str, bytes]]:
    """Return a reply's headers: its content type, and what its asker sent to know it by.

    The reply to a CloudEvent is one of its own, of the id that its source has given it.
    """
    kept = [(name, value) for name, value in headers if name not in _REPLY_TOPICS and name != ANSWER_ID]
    own = next((value for name, value in headers if name == ANSWER_ID), None)
    if own is not None:
        kept = [*_event(own, dict(reversed(kept)).get(_EVENT_ID), model), *filter(_comes_back, kept)]
    return [(_CONTENT_TYPE, content_type.encode()), *kept]


def _event(own: bytes, asked: bytes | None, model: str) -> list[tuple[str, bytes]]:
    """Return the attributes of an answer: what it is, and what it answers."""
    made = {"specversion": VERSION.encode(), "id": own, "source": source_of(model).encode(), "type": TYPE.encode()}
    if asked is not None:
        made[CAUSE] = asked
    return [(_CLOUD_EVENTS + name, value) for name, value in made.items()]


def _comes_back(header: tuple[str, bytes]) -> bool:
    name, _ = header
    return not (name.startswith(_CLOUD_EVENTS) and is_replaced(name.removeprefix(_CLOUD_EVENTS)))


def dead_letter(reason: str, query: tuple[str, int, int], body: bytes, *, bodies: bool, **more: str) -> bytes:
    """Return the note on a query (topic, partition, offset) that was rejected, or its answer given up, as JSON."""
    topic, partition, offset = query
    note: dict[str, Any] = {"reason": reason, "topic": topic, "partition": partition, "offset": offset}
    note |= {"size": len(body), **more}
    if bodies:
        note["body"] = base64.b64encode(body).decode()
    return msgspec.json.encode(note)
