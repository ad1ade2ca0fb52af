"""Values as rows of numbers and as what is compared, for the plain re-implementations; one at a time.

From the docstrings that fix the formats: `oracle.mechanisms.orders` (keys that are only compared), `grid` (the places
of float64 numbers) and `scalars` (dates, decimals).
"""

import math
import struct
from collections.abc import Sequence
from datetime import date
from typing import Final

from oracle.planning.features import Feature

__all__ = ["PLACES", "Key", "Row", "Value", "key_size", "mirrored", "numbers_of", "oriented", "place_of", "value_at"]

Value = float | str
"""As messages have it."""

Row = Sequence[Value]

Key = float | bytes
"""The outermost is the smallest."""

_EPOCH: Final = date(1970, 1, 1).toordinal()
_DIGIT: Final = 6
_POSITIVE: Final = 0x7FEF_FFFF_FFFF_FFFF
"""How many positive finite float64 numbers there are."""

PLACES: Final = 2 * _POSITIVE + 2
"""Places of finite numbers, and the last one, which nothing reaches."""


def numbers_of(features: Sequence[Feature], row: Sequence[Value]) -> list[float]:
    """Return the numbers that a row takes; -0.0 is 0.0."""
    numbers: list[float] = []
    for feature, value in zip(features, row, strict=True):
        if not isinstance(value, str):
            numbers.append(value + 0.0)
        elif feature.kind == "date":
            numbers.append(float(date.fromisoformat(value).toordinal() - _EPOCH))
        else:
            raised = _raised(value).ljust(_digits(feature) * _DIGIT, b"\0")
            digits = (raised[start : start + _DIGIT] for start in range(0, len(raised), _DIGIT))
            numbers += [float(int.from_bytes(digit, "big")) for digit in digits]
    return numbers


def _raised(text: str) -> bytes:
    return bytes(byte + 1 for byte in text.encode())


def _digits(feature: Feature) -> int:
    return math.ceil(feature.longest / _DIGIT)


def key_size(features: Sequence[Feature]) -> int:
    """Return how many bytes a key has; 0 where all that may have sides are numbers."""
    texts = [_digits(feature) for feature in features if feature.kind == "string" and feature.sides != "none"]
    return 1 + max(8, _DIGIT * max(texts)) if texts else 0


def oriented(feature: Feature, value: Value, size: int, *, lower: bool) -> Key:
    """Return a value's key at a side.

    Args:
        feature: Whose value.
        value: The value.
        size: What `key_size` returned.
        lower: Whether the smallest values are outermost.
    """
    if feature.kind == "string":
        content = _raised(str(value))
    else:
        (number,) = numbers_of([feature], [value])
        if not size:
            return number if lower else 0.0 - number
        (bits,) = struct.unpack(">Q", struct.pack(">d", number))
        content = struct.pack(">Q", bits ^ ((1 << 64) - 1 if bits >> 63 else 1 << 63))
    framed = (b"\1" + content).ljust(size, b"\0")
    return framed if lower else bytes(255 - byte for byte in framed)


def place_of(number: float) -> int:
    """Return a number's place among all finite ones, from 0 for the least."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", abs(number)))
    return int(_POSITIVE + (bits if number > 0.0 else -bits))


def value_at(place: int) -> float:
    """Return the number at a place; the last place is infinite."""
    if place == PLACES - 1:
        return math.inf
    (size,) = struct.unpack("<d", struct.pack("<Q", abs(place - _POSITIVE)))
    return -float(size) if place < _POSITIVE else float(size)


def mirrored(place: int) -> int:
    """Return the place of the negated number."""
    return PLACES - 2 - place
