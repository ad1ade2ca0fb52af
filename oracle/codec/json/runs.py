"""Many JSON messages at once: what makes it fast, and why nothing else comes out than one by one.

Each function does the whole of its work or returns None; then its caller goes message by message.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final, TypeVar

import msgspec

__all__ = ["encode_rounds", "read_together", "split_texts"]

Message = TypeVar("Message")

_BETWEEN: Final = b"}\n{"
_THOUSAND: Final = 1000
_DIGITS: Final = [b"%03d" % number for number in range(_THOUSAND)]


def read_together(decoder: msgspec.json.Decoder[Message], bodies: Sequence[bytes]) -> list[Message] | None:
    """Return what the decoder makes of each body, or None where one has to look at them one by one.

    Formal guarantees:
        What is returned is what the decoder returns for each body alone. The bodies are joined by newlines. No body
        has a newline of its own, each begins with a brace that opens and ends with one that closes: otherwise the
        joined text would have fewer places of a newline between these braces, or more newlines, than were put in. A
        string of JSON holds no newline, so each newline and its braces stand outside of strings. Within a value a
        closing brace is followed by a comma or by what closes its owner, never by an opening one, so no value goes on
        over a newline. So each body is one or more whole values, and as there are as many values as bodies, one.
        UTF-8 is never cut by an ASCII byte either, so the text is UTF-8 if and only if each body is.

    Args:
        decoder: Its errors are of msgspec's kinds or RecursionError.
        bodies: At least one.
    """
    text = b"\n".join(bodies)
    seams = len(bodies) - 1
    if not (text.startswith(b"{") and text.endswith(b"}") and text.count(_BETWEEN) == text.count(b"\n") == seams):
        return None
    try:
        if not text.isascii():
            text.decode()
        messages = decoder.decode_lines(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return messages if len(messages) == len(bodies) else None


def split_texts(texts: Sequence[object]) -> list[bytes] | None:
    """Return each text as JSON without its quotes; None if one is no text or needs an escape.

    Where nothing is escaped, every quote begins or ends a text. So behind the first opening quote the next one closes
    the text, and a comma and an opening quote follow, or the end.
    """
    if set(map(type, texts)) != {str}:
        return None
    encoded = msgspec.json.encode(texts)
    return None if b"\\" in encoded else encoded[2:-2].split(b'","')


def encode_rounds(first: int, count: int) -> list[bytes]:
    """Return `count` consecutive numbers from `first` on (at least 0), in decimal."""
    numbers: list[bytes] = []
    while count > 0:
        thousands, rest = divmod(first, _THOUSAND)
        digits: Iterable[bytes] = _DIGITS[rest : rest + count]
        if thousands:
            numbers += map(b"".join, zip(repeat(b"%d" % thousands), digits, strict=False))
        else:
            numbers += [b"%d" % number for number in range(rest, min(rest + count, _THOUSAND))]
        step = _THOUSAND - rest
        first, count = first + step, count - step
    return numbers
