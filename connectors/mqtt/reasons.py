"""MQTT 5 reason codes in the words of `oracle.errors`: what a caller does about them."""

from typing import Final

from oracle.errors import BusError, FencedError, RefusedError

__all__ = ["ACCEPTED", "QUOTA_EXCEEDED", "broken", "refusal", "words"]

ACCEPTED: Final = 0x80
"""Reasons below this are successes."""

QUOTA_EXCEEDED: Final = 0x97
_UNSPECIFIED: Final = 0x80
_TAKEN_OVER: Final = 0x8E

_WORDS: Final = {
    0x81: "malformed packet",
    0x82: "protocol error",
    0x84: "it speaks no MQTT 5",
    0x85: "it does not take the client id",
    0x86: "user name or password is wrong",
    0x87: "not authorized",
    0x88: "it is unavailable",
    0x89: "it is busy",
    0x8A: "banned",
    0x8B: "it is shutting down",
    0x8C: "it does not take this way to log in",
    0x8D: "keep alive ran out",
    0x8E: "the session was taken over",
    0x8F: "topic filter invalid",
    0x90: "topic name invalid",
    0x93: "receive maximum exceeded",
    0x95: "packet too large",
    0x97: "quota exceeded",
    0x98: "administrative action",
    0x99: "payload format invalid",
    0x9A: "it retains no messages",
    0x9B: "QoS not supported",
}
_FOR_GOOD: Final = frozenset({0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x95, 0x9A, 0x9B})
"""Reasons that only another setting helps against."""


def words(code: int | None) -> str:
    """Return a reason in words.

    >>> words(0x87)
    'not authorized (0x87)'
    """
    if code is None:
        return "no reason given"
    return f"{_WORDS[code]} ({code:#04x})" if code in _WORDS else f"reason {code:#04x}"


def refusal(where: str, code: int | None) -> RefusedError | BusError:
    """Return what a refused connection or subscription is to us."""
    if code in _FOR_GOOD:
        return RefusedError(f"{where}: refuses us: {words(code)}")
    return BusError(f"{where}: {words(code)}")


def broken(where: str, code: int | None) -> RefusedError | BusError:
    """Return what the end of a connection is to us."""
    if code == _TAKEN_OVER:
        return FencedError(
            f"{where}: another client has connected under mqtt.client_id; each state needs one of its own"
        )
    if code in {None, _UNSPECIFIED}:
        return BusError(f"{where}: the connection was lost")
    return refusal(where, code)
