"""How deep a message is nested decides the same everywhere: on any stack, in any thread."""

import threading

import pytest

from oracle.codec.json.messages import JsonCodec
from oracle.codec.rejections import Reason, Rejection
from tests.support.shards import small_plan


def nested(depth: int) -> bytes:
    """Return a query with a field that nobody reads, `depth` arrays deep."""
    return b'{"id":1,"y":' + b"[" * depth + b"]" * depth + b',"x":[0.5,0.5]}'


def decode_at(frames: int, body: bytes) -> object:
    """Decode below so many frames of Python."""
    return decode_at(frames - 1, body) if frames else JsonCodec(small_plan()).decode(body)


@pytest.mark.parametrize("depth", [1, 2, 30, 62, 63, 64, 65, 100, 900, 950, 960, 990, 999, 1001, 5000])
def test_the_stack_decides_nothing(depth: int) -> None:
    """A deep stack, a shallow one and a thread's agree on every depth."""
    body = nested(depth)
    results = [decode_at(frames, body) for frames in (0, 40, 400)]
    thread = threading.Thread(target=lambda: results.append(decode_at(0, body)))
    thread.start()
    thread.join()
    assert len(results) == 4
    assert all(result == results[0] for result in results)
    assert isinstance(results[0], Rejection) == (depth > 63)


def test_brackets_in_strings_do_not_count() -> None:
    """Only structure is nested; escapes and quotes are understood."""
    body = b'{"id":"' + b"[" * 200 + b'","y":"' + rb"\"\\" * 50 + b"{" * 900 + b'","x":[0.5,0.5]}'
    assert JsonCodec(small_plan()).decode(body) == ("[" * 200, [0.5, 0.5])


def test_the_asker_gets_a_named_rejection() -> None:
    """A message that is too deep is malformed, and its id is not looked for."""
    codec = JsonCodec(small_plan())
    rejection = codec.decode(nested(70))
    assert isinstance(rejection, Rejection)
    assert rejection.reason is Reason.MALFORMED
    assert codec.encode_rejection(nested(70), rejection).startswith(b'{"id":null,"error":"malformed"')
