"""Which messages are part of a sampled trace, by the headers of every bus."""

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.mqtt.messages import USER, pack_pairs
from connectors.traceparents import is_sampled, sampled
from tests.support.collector import TRACEPARENT, UNSAMPLED

if TYPE_CHECKING:
    from connectors.base import Headers


def _mqtt(*pairs):
    return ((USER, bytes(pack_pairs(list(pairs)))),)


def test_headers_and_user_properties_are_read():
    """By their place among all messages, as many as are wanted, and each message's first."""
    headers = [
        (),
        (("correlation-id", b"7"), ("traceparent", TRACEPARENT.encode())),
        (("traceparent", UNSAMPLED.encode()),),
        _mqtt(("a", "b"), ("traceparent", TRACEPARENT)),
        (("traceparent", UNSAMPLED.encode()), ("traceparent", TRACEPARENT.encode())),
        _mqtt(("not", "traceparent")),
        (("traceparent", TRACEPARENT.encode()),),
    ]
    assert sampled(headers, 10) == [(1, TRACEPARENT), (3, TRACEPARENT), (6, TRACEPARENT)]
    assert sampled(headers, 2) == [(1, TRACEPARENT), (3, TRACEPARENT)]
    assert sampled([], 2) == []
    many: list[Headers] = [()] * 2047
    many += [(("traceparent", TRACEPARENT.encode()),)] * 2
    assert [place for place, _ in sampled(many, 10)] == [2047]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        TRACEPARENT[:-1].encode(),
        f"{TRACEPARENT}\n".encode(),
        f"{TRACEPARENT}-00".encode(),
        TRACEPARENT.upper().encode(),
        UNSAMPLED.encode(),
        b"\xff" * 55,
        b"0" * 10_000_000,
    ],
)
def test_what_looks_otherwise_is_passed_over(value):
    """Nobody's bytes go further than this, whatever they are."""
    assert not is_sampled(value)
    assert sampled([(("traceparent", value),)], 5) == []


@given(st.binary(max_size=60), st.text(max_size=60))
def test_no_bytes_and_no_text_make_it_fail(value, text):
    """It says no, or yes."""
    assert sampled([(("traceparent", value),), _mqtt(("traceparent", text))], 5) in ([], [(0, value.decode("latin-1"))])
