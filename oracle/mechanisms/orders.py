"""Keys: what armed sides and windows compare, and nothing else.

In a model whose sides all look at numbers (dates and decimals are such), a key is a float64. In any other it is a
string of so many bytes for all sides, so that the size of a state depends on the plan alone:

    * a first byte 1;
    * of a number the 8 bytes, high ones first, of its bits, all of them flipped if it is negative, else the sign only;
    * of a string its UTF-8, every byte raised by 1 (UTF-8 has no byte 255);
    * zeros up to the length.

Both orders are those of the values: bits of float64, read as integers, ascend with it, and flipping mends the negative
ones; raised bytes leave 0 to what lies behind the end, so "a" comes before "a" and a zero byte, and no two values have
one key. A side that looks from above has all bytes of a key flipped. Then the first byte is 254, and no key is 255 all
over: that is the one beyond all, as infinity is for numbers.

A string travels as digits of base 2^48, each a float64: whole, finite, not negative, and exact.

Formal guarantees:
    * Every argument about armed sides uses that points and queries are totally ordered, and that a query's depth is
      the number of points at or beyond it: adding or removing a record changes it by at most 1, ties going by the
      record's number (PRIVACY.md, Lemma 3; Stemmer, 2024, Section 4). None uses arithmetic on keys but
      the rule `faces`, which strings are refused for. So the guarantees of boxes and stumps on numbers are those on
      any of these orders.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oracle.errors import CorruptSnapshotError

__all__ = [
    "DIGIT_BYTES",
    "NUMBERS",
    "NUMBER_BYTES",
    "Keys",
    "blank_keys",
    "code_bytes",
    "digit_codes",
    "digit_count",
    "digits_texts",
    "key_type",
    "last_key",
    "load_keys",
    "mirrored",
    "number_codes",
    "ordinals",
    "plain_keys",
    "text_digits",
    "text_of",
    "texts_digits",
]

Keys = NDArray[Any]
"""Keys: of type float64, or bytes of one length."""

NUMBERS: Final = np.dtype(np.float64)
"""Type of the keys of a model whose sides all look at numbers."""

NUMBER_BYTES: Final = 8
"""Bytes of such a key."""

DIGIT_BYTES: Final = 6
"""Bytes of a string in one digit: the most that float64 holds exactly."""

_FIRST: Final = 1
_RAISED: Final = bytes([*range(1, 256), 255])
_LOWERED: Final = bytes([255, *range(255)])
_SIGN: Final = np.uint64(1 << 63)
_MAGNITUDE: Final = (1 << 63) - 1
_ROWS: Final = 4096
"""Texts that are encoded at once."""


def digit_count(length: int) -> int:
    """Return how many digits a string of at most `length` bytes takes.

    >>> digit_count(6), digit_count(7)
    (1, 2)
    """
    return -(-length // DIGIT_BYTES)


def code_bytes(digits: int) -> int:
    """Return the bytes of a key, in a model whose longest string has so many digits; a number has room in it too."""
    return 1 + max(digits * DIGIT_BYTES, NUMBER_BYTES)


def key_type(size: int) -> "np.dtype[Any]":
    """Return the type of keys of so many bytes; `NUMBERS` for `NUMBER_BYTES`."""
    return NUMBERS if size == NUMBER_BYTES else np.dtype(f"S{size}")


def last_key(kind: "np.dtype[Any]") -> float | bytes:
    """Return the key beyond all that there are."""
    return np.inf if kind == NUMBERS else b"\xff" * kind.itemsize


def blank_keys(count: int, kind: "np.dtype[Any]") -> Keys:
    """Return `count` keys beyond all that there are."""
    return np.full(count, last_key(kind), dtype=kind)


def text_digits(text: bytes, count: int) -> list[float]:
    """Return the digits of one text.

    Args:
        text: At most `count` * `DIGIT_BYTES` bytes, UTF-8.
        count: How many digits.

    >>> text_digits(b"JFK", 2)
    [82769589829632.0, 0.0]
    """
    raised = text.translate(_RAISED).ljust(count * DIGIT_BYTES, b"\0")
    starts = range(0, len(raised), DIGIT_BYTES)
    return [float(int.from_bytes(raised[start : start + DIGIT_BYTES], "big")) for start in starts]


def texts_digits(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """Return the digits of many texts: float64[n, count], the same as `text_digits` of each.

    Args:
        data: uint8[m], the bytes of all texts, UTF-8.
        starts: int64[n], where each text begins.
        lengths: int64[n], how many bytes it has: at most what the digits hold.
        count: How many digits.
    """
    digits = np.zeros((len(starts), count))
    for start in range(0, len(starts), _ROWS):
        rows = slice(start, start + _ROWS)
        used = digit_count(int(lengths[rows].max()))  # most texts are far shorter than they may be
        positions = np.arange(used * DIGIT_BYTES)
        there = positions < lengths[rows, None]
        raised = np.zeros(there.shape, dtype=np.uint8)
        raised[there] = data[(starts[rows, None] + positions)[there]] + np.uint8(1)
        words = np.zeros((len(raised), used, NUMBER_BYTES), dtype=np.uint8)
        words[:, :, NUMBER_BYTES - DIGIT_BYTES :] = raised.reshape(len(raised), used, DIGIT_BYTES)
        digits[rows, :used] = words.view(">u8")[:, :, 0]
    return digits


def digits_texts(digits: NDArray[np.float64]) -> list[bytes]:
    """Return the texts whose digits these are.

    Args:
        digits: float64[n, count], as `text_digits` returns them.

    >>> digits_texts(np.array([text_digits(b"JFK", 2), text_digits(b"", 2), text_digits(b"N14228", 2)]))
    [b'JFK', b'', b'N14228']
    """
    rows, count = digits.shape
    words = digits.astype(">u8", order="C").view(np.uint8).reshape(rows, count, NUMBER_BYTES)
    raised = words[:, :, NUMBER_BYTES - DIGIT_BYTES :].reshape(rows, count * DIGIT_BYTES)
    return [text_of(bytes(row)) for row in raised]


def text_of(raised: bytes) -> bytes:
    """Return the text of raised bytes, with any zeros behind them."""
    return raised.rstrip(b"\0").translate(_LOWERED)


def digit_codes(digits: NDArray[np.float64], size: int) -> Keys:
    """Return the keys of strings.

    Args:
        digits: float64[n, count].
        size: Bytes of a key, at least `code_bytes(count)`.
    """
    rows, count = digits.shape
    words = digits.astype(">u8", order="C").view(np.uint8).reshape(rows, count, NUMBER_BYTES)
    raised = words[:, :, NUMBER_BYTES - DIGIT_BYTES :].reshape(rows, count * DIGIT_BYTES)
    return _framed(raised, size)


def number_codes(numbers: NDArray[np.float64], size: int) -> Keys:
    """Return the keys of numbers in a model with strings.

    Args:
        numbers: float64[n], finite, without -0.0.
        size: Bytes of a key, at least `code_bytes(1)`.
    """
    bits = np.ascontiguousarray(numbers).view(np.uint64)
    ranks = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    return _framed(ranks.astype(">u8").view(np.uint8).reshape(len(numbers), NUMBER_BYTES), size)


def _framed(content: NDArray[np.uint8], size: int) -> Keys:
    codes = np.zeros((len(content), size), dtype=np.uint8)
    codes[:, 0] = _FIRST
    codes[:, 1 : 1 + content.shape[1]] = content
    return codes.view(key_type(size)).reshape(-1)


def ordinals(keys: Keys) -> Keys:
    """Return what is ordered as the keys are and compared faster: of numbers, int64[n]; of others, the keys.

    Args:
        keys: [n] keys, without -0.0.

    >>> ordinals(np.array([-1.0, -5e-324, 0.0, 5e-324])).tolist()
    [-4607182418800017409, -2, 0, 1]
    """
    if keys.dtype != NUMBERS:
        return keys
    bits = keys.view(np.int64)
    return bits ^ ((bits >> 63) & _MAGNITUDE)


def mirrored(keys: Keys) -> Keys:
    """Return keys in the opposite order: -x of a number x, never -0.0, or all bytes flipped."""
    if keys.dtype == NUMBERS:
        negative: Keys = 0.0 - keys
        return negative
    flipped = ~np.ascontiguousarray(keys).view(np.uint8)
    return flipped.view(keys.dtype)


def plain_keys(keys: Keys) -> NDArray[Any]:
    """Return keys as arrays of numbers, for a state: float64[...], or uint8[..., size]."""
    if keys.dtype == NUMBERS:
        return keys
    return np.ascontiguousarray(keys).view(np.uint8).reshape(*keys.shape, keys.dtype.itemsize)


def load_keys(plain: NDArray[Any], kind: "np.dtype[Any]") -> Keys:
    """Take back what `plain_keys` returned of keys of this type.

    Raises:
        CorruptSnapshotError: They are of another type.
    """
    if kind == NUMBERS and plain.dtype == NUMBERS:
        return np.array(plain, dtype=NUMBERS)
    if kind == NUMBERS or plain.dtype != np.uint8 or plain.shape[-1:] != (kind.itemsize,):
        raise CorruptSnapshotError("snapshot: its keys are of another length")
    return np.array(plain, dtype=np.uint8, order="C").view(kind)[..., 0]
