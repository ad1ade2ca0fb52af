"""Parsers of MQTT packets: pure functions of what has come, as bytes or as the client has parsed it.

A PUBLISH is parsed here and not by paho, whose time grows as the square of the number of properties: one message of
250 kB with 50,000 of them held it for 18 seconds, past any keep-alive, whereupon the broker sends it again, for ever.
"""

from collections.abc import Callable
from typing import Any, Final

from connectors.mqtt.messages import Incoming, pack_pairs
from connectors.mqtt.settings import MqttSettings
from oracle.errors import RefusedError

__all__ = ["MOST_USER_PROPERTIES", "packet_id", "puback_of", "publish_of", "unfit"]

MOST_USER_PROPERTIES: Final = 256
"""A message with more is not read."""

_QOS: Final = 1
_UNLIMITED: Final = 268_435_455
_VARIABLE_BYTES: Final = 4
_CONTINUED: Final = 0x80
_SUBSCRIPTION: Final = 0x0B
_USER: Final = 0x26
_FIELDS: Final = {0x02: "expiry", 0x03: "content_type", 0x08: "response_topic", 0x09: "correlation"}
"""`Incoming`'s fields that are properties."""


def packet_id(packet: Any) -> int:  # noqa: ANN401 -- paho's own dictionary
    r"""Return the packet id of a PUBLISH as it came; 0 if it has none.

    >>> packet_id({"command": 0x32, "packet": b"\0\1t\0\7..."})
    7
    """
    data = bytes(packet["packet"])
    begin = 2 + int.from_bytes(data[:2], "big")
    has_one = packet["command"] & 0x06
    return int.from_bytes(data[begin : begin + 2], "big") if has_one else 0


def puback_of(packet: Any) -> tuple[int, int] | None:  # noqa: ANN401 -- as above
    r"""Read a PUBACK's packet id and reason code, whatever properties it has; None if it is too short.

    >>> puback_of({"packet": b"\0\7\x87"})
    (7, 135)
    """
    data = bytes(packet["packet"])
    if len(data) < 2:  # noqa: PLR2004 -- a packet id
        return None
    return int.from_bytes(data[:2], "big"), data[2] if len(data) > 2 else 0  # noqa: PLR2004 -- as above


def publish_of(packet: Any) -> Incoming | None:  # noqa: ANN401 -- as above
    r"""Read a PUBLISH, in time linear in its length; None if it is malformed or has too many user properties.

    >>> publish_of({"command": 0x32, "packet": b"\0\1t\0\7\0body"}).body
    b'body'
    """
    command = int(packet["command"])
    try:
        reader = _Reader(bytes(packet["packet"]))
        topic = reader.text()
        qos = command >> 1 & 3
        mid = reader.number(2) if qos else 0
        properties = _properties(_Reader(reader.take(reader.variable())))
    except ValueError:  # UTF-8's errors are such, too
        return None
    return Incoming(
        topic=topic,
        body=reader.rest(),
        retained=bool(command & 1),
        qos=qos,
        mid=mid,
        dup=bool(command & 8),
        **properties,
    )


def unfit(properties: object, settings: MqttSettings) -> RefusedError | None:
    """Return what a broker that lets us in lacks; None if it has all that is needed."""
    if getattr(properties, "MaximumQoS", 2) < _QOS:
        return RefusedError("broker: supports QoS 0 only; QoS 1 is required")
    if settings.status is not None and not getattr(properties, "RetainAvailable", 1):
        return RefusedError("broker: does not support retained messages; remove sink.status")
    largest = getattr(properties, "MaximumPacketSize", _UNLIMITED)
    if largest < settings.largest_reply:
        return RefusedError(
            f"broker: accepts packets of at most {largest} bytes, but an answer may have {settings.largest_reply}; "
            "raise its max_packet_size, or lower source.message_bytes"
        )
    return None


class _Reader:
    """Reads on in bytes; ValueError where they end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) < count:
            raise ValueError
        self._at += count
        return taken

    def rest(self) -> bytes:
        return self._data[self._at :]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def variable(self) -> int:
        """Return a variable byte integer (MQTT 5, section 1.5.5)."""
        value = 0
        for index in range(_VARIABLE_BYTES):
            byte = self.number(1)
            value |= (byte & ~_CONTINUED) << 7 * index
            if byte < _CONTINUED:
                return value
        raise ValueError

    def binary(self) -> bytes:
        return self.take(self.number(2))

    def text(self) -> str:
        """Return a UTF-8 string that follows its length; U+FEFF is a character like any other (section 1.5.4)."""
        text = self.binary().decode()
        if "\0" in text:
            raise ValueError
        return text


_READ: Final[dict[int, Callable[[_Reader], Any]]] = {
    0x01: lambda reader: reader.number(1),
    0x02: lambda reader: reader.number(4),
    0x03: lambda reader: reader.text(),
    0x08: lambda reader: reader.text(),
    0x09: lambda reader: reader.binary(),
    0x23: lambda reader: reader.number(2),
}
"""How the properties that a PUBLISH has once are read (MQTT 5, section 3.3.2.3)."""


def _properties(reader: _Reader) -> dict[str, Any]:
    """Read properties, and return `Incoming`'s fields; ValueError for what a PUBLISH has not, or twice."""
    user: list[tuple[str, str]] = []
    found: dict[int, Any] = {}
    while reader:
        name = reader.variable()
        if name == _USER:
            user.append((reader.text(), reader.text()))
            if len(user) > MOST_USER_PROPERTIES:
                raise ValueError
        elif name == _SUBSCRIPTION:
            reader.variable()
        elif name in found or name not in _READ:
            raise ValueError
        else:
            found[name] = _READ[name](reader)
    return {"user": pack_pairs(user), **{_FIELDS[name]: value for name, value in found.items() if name in _FIELDS}}
