"""Which messages their askers trace, and sample: what a `traceparent` says (W3C Trace Context), on every bus."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from connectors.base import Headers
from connectors.mqtt.messages import USER, unpack_pairs

__all__ = ["TRACEPARENT", "is_sampled", "sampled"]

TRACEPARENT: Final = "traceparent"
"""Name of the header, or of MQTT's user property."""

_SAMPLED: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]")
"""What it looks like where the asker samples the trace; without what later versions may add."""


def is_sampled(value: bytes) -> bool:
    """Return whether a `traceparent` is part of a trace that its asker samples."""
    return _SAMPLED.fullmatch(value) is not None


def sampled(headers: Sequence[Headers], most: int) -> list[tuple[int, str]]:
    """Return the places of messages that are part of a sampled trace, and each one's `traceparent`; the first `most`.

    What does not look like one is passed over, and so are all but a message's first.

    >>> asked = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    >>> sampled([(), (("traceparent", asked),), (("traceparent", b"?"),)], 10) == [(1, asked.decode())]
    True
    """
    return list(islice(_found(headers), most)) if any(headers) else []


def _found(headers: Sequence[Headers]) -> Iterator[tuple[int, str]]:
    for place, kept in enumerate(headers):
        if kept:
            value = _value(kept)
            if value is not None and is_sampled(value):
                yield place, value.decode()


def _value(kept: Headers) -> bytes | None:
    for name, value in kept:
        if name == TRACEPARENT:
            return value
        if name == USER and TRACEPARENT.encode() in value:
            return next((text.encode() for name, text in unpack_pairs(value) if name == TRACEPARENT), None)
    return None
