"""Answers of one length: where a label is encoded in fewer bytes than another, a field of zeros makes up for it."""

from collections.abc import Callable, Mapping
from itertools import count

__all__ = ["padded"]


def padded(parts: Mapping[int, bytes], field: Callable[[int], bytes]) -> dict[int, bytes]:
    """Return for each part the field of zeros with which all are of one length, the shortest that there is.

    Args:
        parts: What differs between answers, by what they say.
        field: The whole field of so many zeros, its length in front: so not every length of it is possible.

    >>> padded({0: b"a", 1: b"abc"}, lambda size: b"%d" % size + b"0" * size)
    {0: b'200', 1: b'0'}
    """
    longest = max(map(len, parts.values()))
    for length in count(longest + len(field(0))):
        found = {number: _of_length(length - len(part), field) for number, part in parts.items()}
        if all(one is not None for one in found.values()):
            return {number: one for number, one in found.items() if one is not None}
    raise AssertionError("some length fits all")  # `count` never ends


def _of_length(length: int, field: Callable[[int], bytes]) -> bytes | None:
    fields = (field(size) for size in range(length + 1))
    return next((one for one in fields if len(one) == length), None)
