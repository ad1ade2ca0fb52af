"""One value of a JSON message as what a predictor takes, by its feature's type.

A number is a JSON number, a string, a date or a category a JSON string, and a decimal either: of a JSON number its text
counts, not the float64 nearest to it. Where values may be missing, null says that one is.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from oracle.codec.categories import category_numbers, other_category
from oracle.codec.rejections import Reason, Rejection
from oracle.mechanisms.orders import text_digits
from oracle.mechanisms.scalars import day_of, decimal_of
from oracle.planning.ensemble.model import MISSING
from oracle.planning.features import Feature

__all__ = ["NOT_MISSING", "ValueReader", "read_values"]

NOT_MISSING: Final = f"a finite float64 above {MISSING!r}, which stands for null"
"""What a number must be where values may be missing."""

_NUMBER: Final = msgspec.json.Decoder(float)
_TEXT: Final = msgspec.json.Decoder(str)
_NULL: Final = b"null"


class ValueReader:
    """Reads the values of one feature.

    Attributes:
        accepts: What a value must be, in words.
        known: Of categories, the number of each text; else empty.
        other: What any other text becomes.
    """

    def __init__(self, feature: Feature, *, missing: bool) -> None:
        self.kind = feature.kind
        self.accepts = f"{feature.accepts}, or null" if missing else feature.accepts
        self.known = category_numbers(feature) if feature.kind == "category" else {}
        self.other = other_category(feature)
        self._missing = missing
        self._feature = feature

    def read(self, raw: bytes, field: str) -> list[float] | Rejection:
        """Return the numbers of one value, well-formed JSON, or why it is none."""
        if self._missing and raw == _NULL:
            return [MISSING] * self._feature.width
        try:
            numbers = self._numbers(raw)
        except (msgspec.MsgspecError, UnicodeError) as exc:
            if self.kind == "number" and "out of range" in str(exc):
                return Rejection(Reason.NOT_FINITE, field, "a finite float64")
            numbers = None
        if numbers is None:
            return Rejection(Reason.WRONG_TYPE, field, self.accepts)
        if self._missing and self.kind == "number" and numbers[0] == MISSING:
            return Rejection(Reason.NOT_FINITE, field, NOT_MISSING)
        return numbers

    def _numbers(self, raw: bytes) -> list[float] | None:
        """Return the numbers of one value, or None if the feature does not accept it.

        Raises:
            msgspec.MsgspecError: It has another type.
            UnicodeError: It is a text that has no UTF-8.
        """
        if self.kind == "number":
            return [_NUMBER.decode(raw)]
        if self.kind == "decimal":
            text = _TEXT.decode(raw) if raw.startswith(b'"') else raw.decode()
            number = decimal_of(text, self._feature.decimals)
            return None if number is None else [number]
        text = _TEXT.decode(raw)
        if self.kind == "category":
            return [self.known.get(text, self.other)]
        if self.kind == "date":
            day = day_of(text)
            return None if day is None else [day]
        data = text.encode()
        return text_digits(data, self._feature.width) if len(data) <= self._feature.longest else None


def read_values(
    readers: Sequence[ValueReader], raws: Sequence[msgspec.Raw], fields: Sequence[str]
) -> list[float] | Rejection:
    """Return the numbers of a query, each value well-formed JSON, or why it is none."""
    row: list[float] = []
    for reader, raw, field in zip(readers, raws, fields, strict=True):
        numbers = reader.read(bytes(raw), field)
        if isinstance(numbers, Rejection):
            return numbers
        row += numbers
    return row
