"""PUBLISH packets: read as paho reads them, in time that grows with their length alone."""

import contextlib
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paho.mqtt import MQTTException
from paho.mqtt._packet import decode_publish
from paho.mqtt.client import MQTTv5
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from connectors.mqtt.messages import unpack_pairs
from connectors.mqtt.packets import MOST_USER_PROPERTIES, _Reader, packet_id, puback_of, publish_of
from tests.storms.fuzz.readers import fuzz_reader
from tests.storms.fuzz.verdicts import BrokenPromiseError

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), max_size=6)
_NAMES = {
    "PayloadFormatIndicator": st.integers(0, 1),
    "MessageExpiryInterval": st.integers(0, 2**32 - 1),
    "ContentType": _TEXT,
    "ResponseTopic": _TEXT.filter(lambda text: not set(text) & set("+#")),
    "CorrelationData": st.binary(max_size=6),
    "UserProperty": st.lists(st.tuples(_TEXT, _TEXT), min_size=1, max_size=4),
}


def _packet(given: dict[str, object], *, body: bytes = b"body", command: int = 0x32) -> dict[str, Any]:
    properties = Properties(PacketTypes.PUBLISH)
    for name, value in given.items():
        setattr(properties, name, value)
    mid = b"\1\2" if command & 6 else b""
    return {"command": command, "packet": b"\0\1q" + mid + properties.pack() + body}


@settings(max_examples=200, deadline=None)
@given(
    properties=st.fixed_dictionaries({}, optional=_NAMES),
    body=st.binary(max_size=20),
    flags=st.sampled_from([0x30, 0x31, 0x32, 0x33, 0x3A, 0x3B]),
)
def test_packets_are_read_as_by_paho(properties, body, flags):
    """Every field of every packet is what paho finds there."""
    packet = _packet(properties, body=body, command=flags)
    message, theirs = publish_of(packet), decode_publish(flags, packet["packet"], MQTTv5)
    assert message is not None
    assert (message.topic, message.body, message.mid) == (theirs.topic.decode(), theirs.payload, theirs.mid)
    assert (message.qos, message.dup, message.retained) == (theirs.qos, theirs.dup, theirs.retain)
    assert (message.content_type, message.response_topic, message.correlation, message.expiry) == (
        getattr(theirs.properties, "ContentType", ""),
        getattr(theirs.properties, "ResponseTopic", ""),
        getattr(theirs.properties, "CorrelationData", None),
        getattr(theirs.properties, "MessageExpiryInterval", None),
    )
    assert list(unpack_pairs(message.user)) == getattr(theirs.properties, "UserProperty", [])
    assert packet_id(packet) == message.mid


@settings(max_examples=300, deadline=None)
@given(properties=st.fixed_dictionaries({}, optional=_NAMES), data=st.data())
def test_any_bytes_are_read_or_refused(properties, data):
    """Cut or changed anywhere, a packet is read as paho reads it, or refused; nothing else ever happens."""
    whole = bytearray(_packet(properties)["packet"])
    offset = data.draw(st.integers(0, len(whole) - 1))
    whole[offset] = data.draw(st.integers(0, 255))
    packet: dict[str, Any] = {"command": 0x32, "packet": bytes(whole[: data.draw(st.integers(offset, len(whole)))])}
    message = publish_of(packet)
    assert packet_id(packet) >= 0
    if message is not None:
        with contextlib.suppress(MQTTException):  # it looks at properties, too, that are of no use to us
            theirs = decode_publish(0x32, packet["packet"], MQTTv5)
            assert (message.body, message.mid) == (theirs.payload, theirs.mid)


@pytest.mark.parametrize(
    ("packet", "found"),
    [
        (b"\0\7", (7, 0)),
        (b"\1\2\x10", (258, 0x10)),
        (b"\0\7\x95", (7, 0x95)),
        (b"\0\7\x87\7\x1f\0\4a\xef\xbb\xbf", (7, 0x87)),
        (b"\0\7\xfe\xff\xff", (7, 0xFE)),
        (b"\0", None),
    ],
)
def test_acknowledgements_are_read_whatever_else_is_in_them(packet, found):
    """Reason codes that are none of a PUBACK's, and texts that paho ends the connection at, harm nothing."""
    assert puback_of({"packet": packet}) == found


_WRONG = {
    "a zero character": b"\x03\0\1\0",
    "no UTF-8": b"\x08\0\1\xff",
    "a property of other packets": b"\x21\0\1",
    "a property twice": b"\x03\0\1x\x03\0\1x",
    "a length beyond the end": b"\x09\0\5x",
    "an endless number": b"\x0b\xff\xff\xff\xff\1",
    "too many user properties": b"\x26\0\0\0\0" * (MOST_USER_PROPERTIES + 1),
}


@pytest.mark.parametrize("case", _WRONG)
def test_what_is_wrong_is_refused(case):
    """Each of these is no message; its packet id is known all the same, so that it can be acknowledged."""
    region = _WRONG[case]
    rest, length = divmod(len(region), 128)
    head = bytes([length | 128, rest]) if rest else bytes([length])
    packet: dict[str, Any] = {"command": 0x32, "packet": b"\0\1q\0\7" + head + region + b"body"}
    assert publish_of(packet) is None
    assert packet_id(packet) == 7
    if case != "too many user properties":
        with pytest.raises((MQTTException, UnicodeError, KeyError)):
            decode_publish(0x32, packet["packet"], MQTTv5)


def test_the_fuzzer_notices_a_reader_that_strips_byte_order_marks(monkeypatch, tmp_path):
    """And one that refuses them: each breaks a promise within a thousand packets."""
    text = _Reader.text
    monkeypatch.setattr(_Reader, "text", lambda reader: text(reader).removeprefix("\ufeff"))
    with pytest.raises(BrokenPromiseError, match="another message"):
        fuzz_reader("MQTT packet", 5, 0, Counter(), tmp_path)
    monkeypatch.setattr(_Reader, "text", lambda reader: text(reader).encode("utf-8").decode("ascii"))
    with pytest.raises(BrokenPromiseError, match="another message"):
        fuzz_reader("MQTT packet", 5, 0, Counter(), tmp_path)


def test_time_does_not_grow_as_the_square():
    """A megabyte of empty properties, on which paho spends minutes, is refused within a second."""
    region = b"\x26\0\0\0\0" * 200_000
    started = time.process_time()
    assert publish_of({"command": 0x32, "packet": b"\0\1q\0\7\xc0\x84\x3d" + region}) is None
    assert time.process_time() - started < 1.0
