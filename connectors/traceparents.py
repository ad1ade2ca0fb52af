"""Which messages their askers trace, and sample: what a `traceparent` says (W3C Trace Context), on every bus."""

import re
from collections.abc import Sequence
from typing import Final

from connectors.base import Headers
from connectors.mqtt.messages import USER, unpack_pairs

__all__ = ["TRACEPARENT", "is_sampled", "sampled"]

TRACEPARENT: Final = "traceparent"
"""Name of the header, or of MQTT's user property."""

_SAMPLED: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]")
"""What it looks like where the asker samples the trace; without what later versions may add."""

_ODD: Final = frozenset({b"1", b"3", b"5", b"7", b"9", b"b", b"d", b"f"})
"""What it ends with there."""

_LOOKED_AT: Final = 2048


def is_sampled(value: bytes) -> bool:
    """Return whether a `traceparent` is part of a trace that its asker samples."""
    return _SAMPLED.fullmatch(value) is not None


def sampled(headers: Sequence[Headers], most: int) -> list[tuple[int, str]]:
    """Return the places of messages that are part of a sampled trace, and each one's `traceparent`; the first `most`.

    What does not look like one is passed over, and so are all but a message's first, and messages behind the first
    2,048: under load this must not take time from answering.

    >>> asked = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    >>> sampled([(), (("traceparent", asked),), (("traceparent", b"?"),)], 10) == [(1, asked.decode())]
    True
    """
    found: list[tuple[int, str]] = []
    if not any(headers):
        return found
    for place, kept in enumerate(headers[:_LOOKED_AT]):
        for name, value in kept:
            if name in (TRACEPARENT, USER):
                given = value if name == TRACEPARENT else _property(value)
                if given[-1:] in _ODD and is_sampled(given):
                    found.append((place, given.decode()))
                if given:
                    break
        if len(found) == most:
            break
    return found


def _property(pairs: bytes) -> bytes:
    """Return MQTT's user property of that name; empty if there is none."""
    if TRACEPARENT.encode() not in pairs:
        return b""
    return next((text.encode() for name, text in unpack_pairs(pairs) if name == TRACEPARENT), b"")
