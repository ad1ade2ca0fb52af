"""What stands in MQTT packets beside messages: pure functions of what the client has parsed, or could not."""

from typing import Any, Final

from connectors.mqtt.settings import MqttSettings
from oracle.errors import RefusedError

__all__ = ["packet_id", "unfit"]

_QOS: Final = 1
_UNLIMITED: Final = 268_435_455


def packet_id(packet: Any) -> int:  # noqa: ANN401 -- paho's own dictionary
    r"""Return the packet id of a PUBLISH as it came; 0 if it has none.

    >>> packet_id({"command": 0x32, "packet": b"\0\1t\0\7..."})
    7
    """
    data = bytes(packet["packet"])
    begin = 2 + int.from_bytes(data[:2], "big")
    has_one = packet["command"] & 0x06
    return int.from_bytes(data[begin : begin + 2], "big") if has_one else 0


def unfit(properties: object, settings: MqttSettings) -> RefusedError | None:
    """Return why a broker that lets us in will not do, if it will not."""
    if getattr(properties, "MaximumQoS", 2) < _QOS:
        return RefusedError("broker: it takes QoS 0 only, which promises nothing")
    if settings.status is not None and not getattr(properties, "RetainAvailable", 1):
        return RefusedError("broker: it retains no messages; leave out sink.status")
    largest = getattr(properties, "MaximumPacketSize", _UNLIMITED)
    if largest < settings.largest_reply:
        return RefusedError(
            f"broker: it takes packets of at most {largest} bytes, and an answer may have {settings.largest_reply}; "
            "raise its max_packet_size, or lower source.message_bytes"
        )
    return None
