"""Values of all types for tests, each made of a number from 0 to 1 and in the numbers' order.

A text is the number written with ten characters of all lengths in UTF-8; dates lie around 1970, decimals around 0.
"""

import datetime as dt
from collections.abc import Sequence

import numpy as np

from oracle.mechanisms.orders import DIGIT_BYTES, text_digits
from oracle.mechanisms.scalars import day_of, decimal_of
from oracle.planning.features import Feature
from tests.predictors.suite import Features

_TEN = "\x00\x01 9A\x7f\u00e9\u20ac\U0001f600\U0010ffff"
_LENGTH = 5
_DAYS = 20_000


def text(name: str, max_bytes: int = 20) -> Feature:
    """Return a feature that is a string."""
    return Feature(name=name, type="string", max_bytes=max_bytes)


def write_text(number: float) -> str:
    """Return a text for a number from 0 to 1, rounded; the texts are in the numbers' order."""
    return "".join(_TEN[int(digit)] for digit in f"{round(number * 10**_LENGTH):0{_LENGTH}d}"[-_LENGTH:])


def as_value(feature: Feature, number: float) -> float | str:
    """Return a feature's value for a number from 0 to 1, as JSON has it."""
    if feature.kind == "string":
        return write_text(number)
    if feature.kind == "date":
        return (dt.date(1970, 1, 1) + dt.timedelta(days=round(_DAYS * (number - 0.5)))).isoformat()
    return f"{100.0 * number - 50.0:.{feature.decimals}f}" if feature.kind == "decimal" else number


def as_rows(features: Sequence[Feature], numbers: Features) -> Features:
    """Return what a codec makes of these numbers, written as `as_value` does: float64[n, d] to float64[n, D]."""
    columns: list[Features] = []
    for feature, column in zip(features, numbers.T, strict=True):
        if feature.kind == "number":
            columns.append(column[:, None])
        else:
            columns.append(np.array([_digits(feature, str(as_value(feature, number))) for number in column.tolist()]))
    return np.concatenate(columns, axis=1)


def _digits(feature: Feature, value: str) -> list[float]:
    if feature.kind == "string":
        return text_digits(value.encode(), feature.width)
    number = day_of(value) if feature.kind == "date" else decimal_of(value, feature.decimals)
    assert number is not None
    return [number]


def read_text(digits: Sequence[float]) -> str:
    """Return the text that digits stand for."""
    raised = b"".join(int(digit).to_bytes(DIGIT_BYTES, "big") for digit in digits).rstrip(b"\0")
    return bytes(byte - 1 for byte in raised).decode()
