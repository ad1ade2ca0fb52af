"""What is published for a reply, and where: pure functions of the query's properties and the allow-list."""

import base64
import re
from typing import Any, Final

import msgspec

from connectors.base import JSON, Commit, Rejected, Reply
from connectors.events import ANSWER_ID, CAUSE, TYPE, VERSION, is_replaced, source_of
from connectors.mqtt.client import matches
from connectors.mqtt.messages import (
    EXPIRY,
    NO_PAIRS,
    RESPONSE_TOPIC,
    USER,
    Outgoing,
    Pairs,
    pack_pairs,
    unpack_pairs,
)
from connectors.mqtt.settings import MqttSettings

__all__ = ["dead_letter", "outgoing", "reply_topic", "status", "undelivered"]

_MARK: Final = "\ufeff"
"""A character like any other (MQTT 5, section 1.5.4), at which clients that use paho end their connection."""

_UNPUBLISHABLE: Final = re.compile(
    "[+#\\x00-\\x1f\\x7f-\\x9f\ufdd0-\ufdef"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
    + "]"
)
"""Wildcards; and what a broker may end the connection for (MQTT 5, section 1.5.4): controls and non-characters."""


def reply_topic(named: str, settings: MqttSettings) -> str:
    """Return the response topic that a query names if the allow-list and brokers take it, else the answer topic.

    A topic that is not allowed, or that brokers may not take, is passed over, not refused: the answer must go
    somewhere, and its asker can read the default. (Otherwise anybody who may ask could write wherever the daemon may.)
    The model's own topics are never allowed, whatever the filters say: an answer among the queries would be a query.
    """
    usable = _publishable(named, settings) and named not in settings.own_topics
    if usable and any(matches(named, one) for one in settings.reply_topics):
        return named
    return settings.answers


def _publishable(topic: str, settings: MqttSettings) -> bool:
    """Return whether brokers take a message on a topic: its form, its length and its levels; not the broker's own.

    Mosquitto ends the connection above 200 levels, EMQX above 128, others far below.
    """
    fits = topic.count("/") < settings.reply_levels and 0 < len(topic.encode()) <= settings.reply_bytes
    return fits and not topic.startswith("$") and _UNPUBLISHABLE.search(topic) is None


def outgoing(commit: Commit, settings: MqttSettings) -> list[Outgoing]:
    """Return all that is published for a commit, in order: replies, each with its note if it was rejected; events."""
    messages: list[Outgoing] = []
    for reply in commit.replies.rows():
        messages.append(_answer(reply, settings))
        if reply.rejected is not None and settings.dead_letter is not None:
            note = dead_letter(reply.rejected, settings.topic, bodies=settings.dead_letter_bodies)
            messages.append(Outgoing(settings.dead_letter, note, JSON))
    if settings.ledger is not None:
        messages += [Outgoing(settings.ledger, event, JSON) for event in commit.ledger]
    return messages


def _answer(reply: Reply, settings: MqttSettings) -> Outgoing:
    headers = dict(reply.headers)
    user = msgspec.Raw(headers.get(USER, NO_PAIRS))
    expiry = int(headers[EXPIRY]) if EXPIRY in headers else None
    if ANSWER_ID in headers:
        user = _event(headers[ANSWER_ID].decode(), unpack_pairs(user), settings.model)
    topic = reply_topic(headers.get(RESPONSE_TOPIC, b"").decode(), settings)
    ours = topic == settings.answers
    if ours and _MARK.encode() in bytes(user):  # others read it too
        user = pack_pairs([pair for pair in unpack_pairs(user) if not any(_MARK in text for text in pair)])
    return Outgoing(topic, reply.body, reply.content_type, reply.key, user, expiry, ours)


def _event(own: str, asked: Pairs, model: str) -> msgspec.Raw:
    """Return the properties of the answer to a CloudEvent: its own attributes, and what else comes back."""
    made = [("specversion", VERSION), ("id", own), ("source", source_of(model)), ("type", TYPE)]
    causes = [(CAUSE, value) for name, value in asked if name == "id"][:1]
    return pack_pairs([*made, *causes, *(pair for pair in asked if not is_replaced(pair[0]))])


def dead_letter(rejected: Rejected, topic: str, *, bodies: bool) -> bytes:
    """Return the note on a rejected message: one JSON object, with the message in base64 if `bodies`."""
    note: dict[str, Any] = {
        "reason": rejected.reason,
        "topic": topic,
        "position": rejected.position,
        "size": len(rejected.body),
    }
    if bodies:
        note["body"] = base64.b64encode(rejected.body).decode()
    return msgspec.json.encode(note)


def undelivered(size: int, position: int, topic: str) -> bytes:
    """Return the note on an answer that was given up, all of it public; its query is at `position` or just before."""
    return msgspec.json.encode({"reason": "undelivered", "topic": topic, "position": position, "size": size})


def status(settings: MqttSettings, *, online: bool) -> bytes:
    """Return the status message.

    >>> status(MqttSettings(host="h", port=1, client_id="c", topic="q", answers="a", model="vfr"), online=True)
    b'{"model":"vfr","online":true}'
    """
    return msgspec.json.encode({"model": settings.model, "online": online})
