"""Texts for tests: numbers from 0 to 1 written with ten characters of all lengths in UTF-8, in the numbers' order."""

from collections.abc import Sequence

import numpy as np

from oracle.mechanisms.orders import DIGIT_BYTES, text_digits
from oracle.planning.features import Feature
from tests.predictors.suite import Features

__all__ = ["as_rows", "read_text", "text"]

_TEN = "\x00\x01 9A\x7f\u00e9\u20ac\U0001f600\U0010ffff"
_LENGTH = 5


def text(name: str, max_bytes: int = 20) -> Feature:
    """Return a feature that is a string."""
    return Feature(name=name, type="string", max_bytes=max_bytes)


def write_text(number: float) -> str:
    """Return a text for a number from 0 to 1, rounded; the texts are in the numbers' order."""
    return "".join(_TEN[int(digit)] for digit in f"{round(number * 10**_LENGTH):0{_LENGTH}d}"[-_LENGTH:])


def as_rows(features: Sequence[Feature], numbers: Features) -> Features:
    """Return what a codec makes of these numbers, those of strings written as texts: float64[n, D]."""
    columns: list[Features] = []
    for feature, column in zip(features, numbers.T, strict=True):
        if feature.kind == "string":
            columns.append(np.array([text_digits(write_text(value).encode(), feature.width) for value in column]))
        else:
            columns.append(column[:, None])
    return np.concatenate(columns, axis=1)


def read_text(digits: Sequence[float]) -> str:
    """Return the text that digits stand for."""
    raised = b"".join(int(digit).to_bytes(DIGIT_BYTES, "big") for digit in digits).rstrip(b"\0")
    return bytes(byte - 1 for byte in raised).decode()
