"""Dates and decimals as float64 numbers: exactly, one to one, and in their order.

A date is the number of its day since 1970-01-01. A decimal of at most 15 digits is the nearest float64 of its value:
two such decimals never have the same one (float64 tells all decimals of 15 digits apart), and rounding to the nearest
keeps the order; so comparing the numbers compares the decimals.
"""

import re
from decimal import Decimal, InvalidOperation
from typing import Final

import numpy as np

__all__ = ["FIRST_DAY", "LAST_DAY", "day_of", "decimal_number", "decimal_of", "largest_decimal"]

_DIGITS: Final = 15

FIRST_DAY: Final = -719_162
"""Day of 0001-01-01."""

LAST_DAY: Final = 2_932_896
"""Day of 9999-12-31."""

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DECIMAL: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,9})?", re.ASCII)


def day_of(text: str) -> float | None:
    """Return the day of a date, or None if the text is none.

    >>> day_of("1970-01-02"), day_of("2023-02-29"), day_of("20230228")
    (1.0, None, None)
    """
    if _DATE.fullmatch(text) is None:
        return None
    try:
        day = float(np.datetime64(text, "D").astype(np.int64))
    except ValueError:
        return None
    return day if day >= FIRST_DAY else None  # there is a year 0 elsewhere


def largest_decimal(places: int) -> int:
    """Return the number that all decimals with so many digits after the point stay below."""
    limit: int = 10 ** (_DIGITS - places)
    return limit


def decimal_of(text: str, places: int) -> float | None:
    """Return the number of a decimal in text, written as JSON writes numbers, or None (see `decimal_number`).

    >>> decimal_of("12.30", 2), decimal_of("1e2", 2), decimal_of("0.001", 2), decimal_of("NaN", 2)
    (12.3, 100.0, None, None)
    """
    if _DECIMAL.fullmatch(text) is None:
        return None
    try:
        return decimal_number(Decimal(text), places)
    except InvalidOperation:  # an exponent that no decimal can have
        return None


def decimal_number(value: Decimal, places: int) -> float | None:
    """Return the number of a decimal, or None if it is not one of those that are told apart.

    Args:
        value: The decimal.
        places: Most digits after the point, zeros at the end aside, from 0 to 12; before it there may be 15 less these.
    """
    limit = largest_decimal(places)
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or not -limit < value < limit:  # NaN and infinities have letters there
        return None
    beyond = -places - exponent
    if beyond > 0 and any(digits[-beyond:]):
        return None
    return float(value) + 0.0
