"""Changes to bytes that know nothing of what the bytes mean."""

import random
from typing import Final

_PIECES: Final = (
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-0.0",
    b"\\ud800",
    b"\\u0000",
    b"[[",
    b"{{",
    b"}",
    b"]",
    b'"',
    b",",
    b":",
    b"null",
    b"true",
    b"-",
    b"9" * 30,
    b"9" * 400,
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xff\xfe",
    b"\0",
    b"\n",
    b" " * 20,
)
_BYTES: Final = (0, 1, 10, 34, 44, 48, 57, 91, 92, 93, 123, 125, 127, 128, 192, 237, 255)
_WORDS: Final = (0, 1, -1, 2**31 - 1, -(2**31), 2**24, 2**16, 255, 2**32, 2**62, 2**63 - 1)


def mutated(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Return data with one to four changes: bytes set, cut out, doubled, moved, taken from elsewhere; huge lengths.

    Args:
        rng: Draws the changes.
        data: What to change.
        others: Where to take bytes from.
    """
    body = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        _change(rng, body, others)
    return bytes(body)


def _change(rng: random.Random, body: bytearray, others: list[bytes]) -> None:  # noqa: C901 -- one for each kind of change
    place = rng.randrange(len(body) + 1)
    kind = rng.randrange(10)
    if kind == 0:
        body[place : place + 1] = bytes([rng.choice(_BYTES)])
    elif kind == 1 and body:
        body[place % len(body)] ^= 1 << rng.randrange(8)
    elif kind == 2:
        del body[place : place + rng.randint(1, 12)]
    elif kind == 3:
        body[place:place] = rng.choice(_PIECES)
    elif kind == 4:
        width = rng.choice((4, 8))
        place -= place % width
        body[place : place + width] = (rng.choice(_WORDS) & (2 ** (8 * width) - 1)).to_bytes(width, "little")
    elif kind == 5:
        body[place:place] = body[place : place + rng.randint(1, 60)]
    elif kind == 6 and others:
        other = rng.choice(others)
        start = rng.randrange(len(other) + 1)
        body[place : place + rng.randrange(20)] = other[start : start + rng.randint(1, 80)]
    elif kind == 7:
        end = min(len(body), place + rng.randint(2, 30))
        middle = (place + end) // 2
        body[place:end] = body[middle:end] + body[place:middle]
    elif kind == 8:
        body[place : place + 1] = bytes([rng.randrange(256)])
    elif rng.random() < 0.3:
        del body[place:]
