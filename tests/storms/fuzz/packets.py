"""Fuzzing what an asker controls over MQTT: from a PUBLISH's bytes to the packet that answers it."""

import random
from pathlib import Path
from typing import Any, Final

from connectors.base import Commit, Replies, Reply
from connectors.events import AnswerIds
from connectors.journal.segment import Found
from connectors.mqtt.client import _publish_properties
from connectors.mqtt.messages import Incoming, Outgoing, delivery, pack, pack_pairs, stored, unpack_pairs
from connectors.mqtt.packets import packet_id, publish_of
from connectors.mqtt.replies import outgoing
from connectors.mqtt.settings import MqttSettings
from tests.storms.fuzz.mutate import mutated
from tests.storms.fuzz.verdicts import BrokenPromiseError
from tests.support.mqtt_script import length_of

_SETTINGS: Final = MqttSettings(
    host="h", port=1, client_id="c", topic="q", answers="a", model="m", ledger="l", reply_topics=("r/#", "\ufeffr/+")
)
_PIECES: Final = (
    *("", "a", "r/", "/", "x" * 300, "/" * 140, "$SYS/", "é", "日本", "\U0001f600"),
    *("\ufeff", "\ufefftext", "text\ufeff", "\ufeffr/a", "\ufffe", "\uffff", "\ufdd0", "\U0001ffff"),
    *("\x01", "\x1f", "\x7f", "\x85", "\u2028", "+", "#", "r/+", "q", "l", "application/json"),
)
_MOST_LEVELS: Final = 128
_MOST_BYTES: Final = 1024
_BAD: Final = b"\0\xc0\x80\xed\xa0\x80\xff"


def try_packet(rng: random.Random, _folder: Path) -> str:
    """Read one packet, changed or not, and answer it; return what became of it.

    Raises:
        BrokenPromiseError: Another message was read than was written, or its answer could not be sent.
    """
    wanted = _message(rng)
    data = _written(wanted)
    changed = rng.random() < 0.5
    if changed:
        data = mutated(rng, data, [data, _BAD])
    packet: dict[str, Any] = {"command": 0x32, "packet": data}
    try:
        packet_id(packet)
        read = publish_of(packet)
        answer = None if read is None else _answer(read)
    except Exception as exc:
        raise BrokenPromiseError(f"{type(exc).__name__}: {str(exc)[:300]}: {data[:2000]!r}") from exc
    if not changed and read != wanted:
        raise BrokenPromiseError(f"another message is read: {wanted!r} {read!r}")
    if read is None or answer is None:
        return "unreadable"
    _judge(read, answer)
    return "accepted"


def _answer(message: Incoming) -> Outgoing | None:
    """Return what is published for a message, after making a packet's properties of it."""
    came = delivery(Found(1, pack(stored(message, _SETTINGS)), 0), AnswerIds(b""))
    if came is None:
        return None
    (answer,) = outgoing(Commit(Replies.of([Reply(b"{}", headers=came.headers, key=came.key)]), [], 1, b""), _SETTINGS)
    _publish_properties(answer).pack()
    answer.topic.encode()
    return answer


def _judge(message: Incoming, answer: Outgoing) -> None:
    asked = unpack_pairs(message.user)
    same = list(unpack_pairs(answer.user)) == [pair for pair in asked if not answer.ours or not any(map(_marked, pair))]
    if not same or answer.correlation != message.correlation or answer.expiry != message.expiry:
        raise BrokenPromiseError(f"properties do not come back: {message!r}")
    if answer.ours:
        return
    levels = answer.topic.split("/")
    fits = len(levels) <= _MOST_LEVELS and len(answer.topic.encode()) <= _MOST_BYTES and levels[0] in {"r", "\ufeffr"}
    if not fits or set(answer.topic) & set("+#\0\x01\x1f\x7f\x85\ufffe\uffff\ufdd0\U0001ffff"):
        raise BrokenPromiseError(f"an answer goes to {answer.topic!r}")


def _marked(text: str) -> bool:
    return "\ufeff" in text


def _text(rng: random.Random) -> str:
    return "".join(rng.choice(_PIECES) for _ in range(rng.choice((0, 1, 1, 2, 3))))


def _message(rng: random.Random) -> Incoming:
    named = rng.choice(("", "r/", "\ufeffr/")) + _text(rng)
    return Incoming(
        topic=_text(rng) or "q",
        body=rng.randbytes(rng.randrange(4)),
        content_type=_text(rng),
        response_topic=named,
        correlation=rng.choice((None, b"", b"\xef\xbb\xbf", rng.randbytes(5))),
        user=pack_pairs([(_text(rng), _text(rng)) for _ in range(rng.choice((0, 0, 1, 3)))]),
        expiry=rng.choice((None, 0, 1, 2**32 - 1)),
        mid=rng.randrange(1, 65_536),
    )


def _written(message: Incoming) -> bytes:
    properties = [(3, message.content_type), (8, message.response_topic)]
    region = b"".join(bytes([name]) + _string(text) for name, text in properties if text)
    if message.correlation is not None:
        region += b"\x09" + len(message.correlation).to_bytes(2, "big") + message.correlation
    if message.expiry is not None:
        region += b"\x02" + message.expiry.to_bytes(4, "big")
    region += b"".join(b"\x26" + _string(name) + _string(value) for name, value in unpack_pairs(message.user))
    return _string(message.topic) + message.mid.to_bytes(2, "big") + length_of(region) + region + message.body


def _string(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data
