"""What a value of each type stands for, read by other code than the product's: numbers as the predictors take them."""

import datetime as dt
import math
import re
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, Self

import pyarrow as pa

from oracle.planning.features import Feature

_DIGIT: Final = 6  # bytes of a string in one number
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
_DECIMAL: Final = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,9}))?")
_MOST_DIGITS: Final = 15
_MISSING: Final = -sys.float_info.max


class Written(float):
    """A JSON number with a point or an exponent, which remembers how it was written."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Read a number."""
        number = super().__new__(cls, text)
        number.text = text
        return number


def read_value(feature: Feature, value: object, *, missing: bool = False) -> list[float] | None:
    """Return the numbers of a JSON value, or None if the feature does not accept it; `missing` where null is one."""
    if missing and value is None:
        return [_MISSING] * feature.width
    if missing and value == _MISSING:
        return None
    if feature.kind == "category":
        return _read_category(feature, value) if isinstance(value, str) else None
    if feature.kind == "string":
        return _read_text(feature, value) if isinstance(value, str) else None
    if feature.kind == "date":
        number = _read_date(value) if isinstance(value, str) else None
    elif feature.kind == "number":
        number = _read_number(value)
    elif isinstance(value, str | Written) or type(value) is int:
        number = _read_decimal(value.text if isinstance(value, Written) else str(value), feature.decimals)
    else:
        number = None
    return None if number is None else [number]


def _read_number(value: object) -> float | None:
    if type(value) not in {int, float, Written}:
        return None
    try:
        number = float(value)  # type: ignore[arg-type]  # int or float
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _read_category(feature: Feature, text: str) -> list[float]:
    categories = feature.categories or ()
    if not text and "" not in categories:
        return [_MISSING]
    return [float(next((place for place, one in enumerate(categories) if one == text), len(categories)))]


def _read_text(feature: Feature, text: str) -> list[float] | None:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return None
    if len(data) > feature.longest:
        return None
    raised = [byte + 1 for byte in data] + [0] * (-len(data) % _DIGIT)
    raised += [0] * (_DIGIT * -(-feature.longest // _DIGIT) - len(raised))
    digits = [raised[start : start + _DIGIT] for start in range(0, len(raised), _DIGIT)]
    return [float(sum(byte * 256**place for place, byte in enumerate(reversed(digit)))) for digit in digits]


def _read_date(text: str) -> float | None:
    if not (len(text) == 10 and text.isascii() and text[4] == text[7] == "-"):
        return None
    parts = text.split("-")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return None
    try:
        return float(dt.date(*map(int, parts)).toordinal() - _EPOCH)
    except ValueError:
        return None


def _read_decimal(text: str, places: int) -> float | None:
    found = _DECIMAL.fullmatch(text)
    if found is None:
        return None
    sign, whole, part, exponent = found.groups()
    digits = (whole + (part or "")).lstrip("0")
    power = int(exponent or 0) - len(part or "")
    kept = digits.rstrip("0")
    power += len(digits) - len(kept)
    if not kept:
        return 0.0
    if power < -places or len(kept) + power > _MOST_DIGITS - places:
        return None
    return float(Fraction(int(sign + kept)) * Fraction(10) ** power)


def column_values(feature: Feature, column: pa.Array) -> Sequence[list[float] | None]:
    """Return the numbers of each value of an Arrow column; of a null None, and of a value that is not accepted []."""
    if feature.kind == "date":
        day = 1 if column.type == pa.date32() else 86_400_000
        numbers = column.view(pa.int32() if day == 1 else pa.int64()).to_pylist()
        return [None if number is None else _of_day(number // day) for number in numbers]
    values = column.to_pylist()
    if feature.kind == "decimal":
        values = [None if value is None else format(value, "" if isinstance(value, int) else "f") for value in values]
    return [None if value is None else read_value(feature, value) or [] for value in values]


def _of_day(day: int) -> list[float]:
    return [float(day)] if 1 - _EPOCH <= day <= dt.date.max.toordinal() - _EPOCH else []
