"""One value of a JSON message as what a predictor takes, by its feature's type.

A number is a JSON number, a string or a date a JSON string, and a decimal either: of a JSON number its text counts, not
the float64 nearest to it.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from oracle.codec.rejections import Reason, Rejection
from oracle.mechanisms.orders import text_digits
from oracle.mechanisms.scalars import day_of, decimal_of
from oracle.planning.features import Feature

__all__ = ["read_values"]

_NUMBER: Final = msgspec.json.Decoder(float)
_TEXT: Final = msgspec.json.Decoder(str)


def read_values(
    features: Sequence[Feature], raws: Sequence[msgspec.Raw], fields: Sequence[str]
) -> list[float] | Rejection:
    """Return the numbers of a query, or why it is none.

    Args:
        features: The features.
        raws: Of each its value, well-formed JSON.
        fields: What each value is called in the message.
    """
    row: list[float] = []
    for feature, raw, field in zip(features, raws, fields, strict=True):
        try:
            numbers = _numbers(feature, bytes(raw))
        except (msgspec.MsgspecError, UnicodeError) as exc:
            if feature.kind == "number" and "out of range" in str(exc):
                return Rejection(Reason.NOT_FINITE, field, "a finite float64")
            numbers = None
        if numbers is None:
            return Rejection(Reason.WRONG_TYPE, field, feature.accepts)
        row += numbers
    return row


def _numbers(feature: Feature, raw: bytes) -> list[float] | None:
    """Return the numbers of one value, or None if the feature does not accept it.

    Raises:
        msgspec.MsgspecError: It has another type.
        UnicodeError: It is a text that has no UTF-8.
    """
    if feature.kind == "number":
        return [_NUMBER.decode(raw)]
    if feature.kind == "decimal":
        text = _TEXT.decode(raw) if raw.startswith(b'"') else raw.decode()
        number = decimal_of(text, feature.decimals)
        return None if number is None else [number]
    text = _TEXT.decode(raw)
    if feature.kind == "date":
        day = day_of(text)
        return None if day is None else [day]
    data = text.encode()
    return text_digits(data, feature.width) if len(data) <= feature.longest else None
