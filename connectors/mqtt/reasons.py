"""MQTT 5 reason codes in the words of `oracle.errors`: what a caller does about them."""

from enum import Enum, auto
from typing import Final

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from oracle.errors import BusError, FencedError, RefusedError

__all__ = [
    "ACCEPTED",
    "QUOTA_EXCEEDED",
    "Ending",
    "broken",
    "closed_to_us",
    "ending",
    "name_of",
    "of_the_message",
    "refusal",
]

ACCEPTED: Final = 0x80
"""Reasons below this are successes."""

QUOTA_EXCEEDED: Final = 0x97
_UNSPECIFIED: Final = 0x80
_NOT_AUTHORIZED: Final = 0x87
_TAKEN_OVER: Final = 0x8E
_TOPIC_NAME_INVALID: Final = 0x90
_PACKET_TOO_LARGE: Final = 0x95
_PAYLOAD_FORMAT_INVALID: Final = 0x99

_NAMES: Final = {code: next(iter(names)) for code, names in ReasonCode(PacketTypes.CONNACK).names.items()}
_FOR_GOOD: Final = frozenset({0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x90, 0x95, 0x99, 0x9A, 0x9B, 0x9D})
"""Reasons for refusing a connection or a subscription that only another setting helps against, here or there."""

_ADVICE: Final = {0x84: "; it must support MQTT 5", 0x9D: "; change mqtt.server"}

_OF_A_PACKET: Final = frozenset({0x81, 0x82, 0x83, 0x87, 0x90, 0x94, 0x95, 0x99, 0x9A, 0x9B})
"""Reasons for ending a connection that may be about the packet that came last."""


class Ending(Enum):
    """What the end of a connection says of a message that was in flight.

    `ELSEWHERE`: nothing, as the reason lies elsewhere (keep-alive, shutdown, a quota) or with us. `SILENT`: it ended
    without a word, as where the network is cut, the broker is killed, or chokes on the message. `NAMED`: the broker
    named a reason that may be the message's.
    """

    ELSEWHERE = auto()
    SILENT = auto()
    NAMED = auto()


def ending(code: int | None, *, by_broker: bool) -> Ending:
    """Return what the end of a connection says, by its reason, if it has one, and by whose it is."""
    if by_broker and code in _OF_A_PACKET:
        return Ending.NAMED
    return Ending.SILENT if code in {None, 0, _UNSPECIFIED, 0x82} else Ending.ELSEWHERE


def name_of(code: int | None) -> str:
    """Return a reason's name in MQTT 5 (section 2.4), and its code.

    >>> name_of(0x87)
    'not authorized (0x87)'
    """
    if code is None:
        return "no reason given"
    return f"{_NAMES[code].lower()} ({code:#04x})" if code in _NAMES else f"reason {code:#04x}"


def closed_to_us(code: int) -> bool:
    """Return whether a refused message says that its topic is closed to us, whatever the message."""
    return code in {_NOT_AUTHORIZED, _TOPIC_NAME_INVALID}


def of_the_message(code: int) -> bool:
    """Return whether a refused message is refused for what is in it, so that it will be again."""
    return code in {_PACKET_TOO_LARGE, _PAYLOAD_FORMAT_INVALID}


def refusal(where: str, code: int | None) -> RefusedError | BusError:
    """Return what a refused connection or subscription is to us."""
    if code in _FOR_GOOD:
        return RefusedError(f"{where}: refused: {name_of(code)}{_ADVICE.get(code, '')}")
    return BusError(f"{where}: {name_of(code)}")


def broken(where: str, code: int | None) -> BusError:
    """Return what the end of a connection is to us: only the next one tells whether the broker still lets us in."""
    if code == _TAKEN_OVER:
        return FencedError(f"{where}: another client connected with the same mqtt.client_id; each state needs its own")
    reason = "" if code in {None, 0, _UNSPECIFIED} else f": {name_of(code)}"
    return BusError(f"{where}: connection lost{reason}")
