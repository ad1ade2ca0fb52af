"""What messages take in memory is what is counted, whatever their properties; what is on disk stays readable."""

import tracemalloc

import msgspec
import pytest

from connectors.base import Commit, Replies, Reply
from connectors.events import AnswerIds
from connectors.journal.segment import Found
from connectors.mqtt.messages import Incoming, Outgoing, Query, delivery, pack, stored, unpack, unpack_pairs
from connectors.mqtt.packets import MOST_USER_PROPERTIES, publish_of
from connectors.mqtt.replies import outgoing
from connectors.mqtt.settings import MqttSettings

_SETTINGS = MqttSettings(host="h", port=1, client_id="c", topic="q", answers="a", model="m", reply_topics=("r/#",))
_CASES = {
    "many short ones": ("ab", "cd", MOST_USER_PROPERTIES),
    "long ones with one character of four bytes": ("n", "v" * 4000 + "\U0001f600", 100),
    "none": ("", "", 0),
}


def _text(text: str) -> bytes:
    return len(text.encode()).to_bytes(2, "big") + text.encode()


def _came(name: str, value: str, count: int) -> Incoming:
    region = b"\x08" + _text("r/" + value[:900]) + (b"\x26" + _text(name) + _text(value)) * count
    head = b"".join(bytes([len(region) >> shift & 127 | (128 if shift < 21 else 0)]) for shift in (0, 7, 14, 21))
    message = publish_of({"command": 0x32, "packet": _text("q") + b"\0\1" + head + region + b"{}"})
    assert message is not None
    return message


def _answer(message: Incoming) -> Outgoing:
    came = delivery(Found(1, pack(stored(message, _SETTINGS)), 0), AnswerIds(b""))
    assert came is not None
    return outgoing(Commit(Replies.of([Reply(b"{}", headers=came.headers)]), [], 1, b""), _SETTINGS)[0]


@pytest.mark.parametrize("case", _CASES)
def test_no_more_is_held_than_is_counted(case):
    """Python's strings take up to 30 times the bytes that came: neither what came nor an answer is held as such."""
    message = _came(*_CASES[case])
    for make in (lambda _: _came(*_CASES[case]), _answer):
        make(message)
        tracemalloc.start()
        held = [make(message) for _ in range(50)]
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert taken <= 1.5 * sum(message.size for message in held)


def test_records_of_earlier_versions_are_read():
    """There properties were pairs of strings; packed, these are the same bytes."""
    fields = ["q", b"{}", "t", "r", None, [["a", "1"], ["\ufeff", ""]], None, 7, b"d"]
    record = msgspec.msgpack.encode(fields)
    found = unpack(record)
    assert isinstance(found, Query)
    assert unpack_pairs(found.user) == (("a", "1"), ("\ufeff", ""))
    assert pack(found) == record
