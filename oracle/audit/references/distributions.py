"""A plain re-implementation of distributions, value by value, from PRIVACY.md, section 16; slow, and meant to be read.

It shares nothing with what is audited but the numbers of purposes: noise comes from the law itself, values
are numbered here, and what is known of the thresholds is three lists.
"""

import struct
from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from functools import cache
from typing import Final, NamedTuple

from oracle.accounting.ledger import AnswerPaid, LedgerEvent
from oracle.audit.references.keyed import Keyed, logistic
from oracle.mechanisms.addresses import Purpose
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.features import Feature
from oracle.predictors.base import phase_started

__all__ = ["Given", "Plain", "count_of", "number_of", "row_of", "value_of"]

_LARGEST: Final = 0x7FEF_FFFF_FFFF_FFFF
"""Bits of the largest finite float64."""

_EPOCH: Final = date(1970, 1, 1).toordinal()
_DIGITS: Final = 15
_SIDES: Final = 1024


@cache
def _texts() -> list[str]:
    """Return all texts of two bytes of UTF-8 at most, in the order of their bytes."""
    ones = [chr(code) for code in range(0x80)]
    twos = [one + other for one in ones for other in ones] + [chr(code) for code in range(0x80, 0x800)]
    return sorted(["", *ones, *twos], key=str.encode)


@cache
def _places() -> dict[str, int]:
    return {text: place for place, text in enumerate(_texts())}


def count_of(feature: Feature) -> int:
    """Return how many values a feature has; a string is of two bytes."""
    match feature.kind:
        case "string":
            return len(_texts())
        case "date":
            return date.max.toordinal()
        case "decimal":
            return int(2 * 10**_DIGITS - 1)
        case _:
            return 2 * _LARGEST + 1


def value_of(feature: Feature, number: int) -> str | float:
    """Return a value as messages have it, by its number from 0 in the order of all."""
    match feature.kind:
        case "string":
            return _texts()[number]
        case "date":
            return date.fromordinal(number + 1).isoformat()
        case "decimal":
            return float((number - (10**_DIGITS - 1)) / 10**feature.decimals)
        case _:
            place = number - _LARGEST
            size = float(struct.unpack("<d", struct.pack("<Q", abs(place)))[0])
            return -size if place < 0 else size


def number_of(feature: Feature, value: str | float) -> int:
    """Return the number of a value."""
    if isinstance(value, str):
        return _places()[value] if feature.kind == "string" else date.fromisoformat(value).toordinal() - 1
    if feature.kind == "decimal":
        units: int = round(Fraction(value) * 10**feature.decimals)
        return units + 10**_DIGITS - 1
    bits = int(struct.unpack("<Q", struct.pack("<d", abs(value)))[0])
    return _LARGEST + (-bits if value < 0.0 else bits)


def row_of(feature: Feature, number: int) -> float:
    """Return the one number that a value is in a row of the trainer's."""
    value = value_of(feature, number)
    if not isinstance(value, str):
        return value
    if feature.kind == "date":
        return float(date.fromisoformat(value).toordinal() - _EPOCH)
    return float(int.from_bytes(bytes(byte + 1 for byte in value.encode()).ljust(6, b"\0"), "big"))


class Given(NamedTuple):
    """What a question was answered.

    Attributes:
        share: Of the rows; None where nothing was asked.
        found: Number of a quantile's value, if one was asked for.
        paid: Answers that were paid for so far.
        verified: Whether the error is promised.
    """

    share: float | None
    found: int | None
    paid: int
    verified: bool


class Plain:
    """One shard of a distribution.

    Args:
        plan: The plan.
        secret: The genesis key.
        rows: Numbers of the values of all rows that are there.

    Attributes:
        events: What the ledger must say.
        comparisons: With noise, so far.
        round: Rounds so far.
    """

    def __init__(self, plan: DistributionPlan, secret: bytes, rows: Sequence[int]) -> None:
        self._plan, self._rows, self._size = plan, list(rows), count_of(plan.feature)
        self._keyed = Keyed(secret).ratchet()
        ladder, count = plan.thresholds, plan.paid
        first, last = ladder.width - ladder.margin - ladder.gap, plan.declared + ladder.margin - ladder.width
        lows = [first + (last - first) * number // (count - 1) for number in range(count)]
        self._zones = [(low, low + ladder.gap) for low in lows]
        self._below, self._above = [-1] * count, [self._size] * count
        self._told: list[int | None] = [None] * count
        self.events: list[LedgerEvent] = [phase_started(plan, 1)]
        self.comparisons = self.round = 0
        self._step, self._hash = 0, 0

    @property
    def paid(self) -> int:
        """Thresholds that are retired."""
        return sum(value is not None for value in self._told)

    def answer(self, at: int | None = None, quantile: float | None = None) -> Given:
        """Answer a round: the share up to a value, a quantile, or nothing."""
        share = None
        if at is not None or quantile is not None:
            self._begin(at, quantile)
            if at is None:
                at = self._quantile(Fraction(quantile or 0.0))
            share = self._share(at)
        self.round += 1
        found = None if quantile is None else at
        return Given(share, found, self.paid, self.comparisons <= self._plan.comparisons)

    def _begin(self, at: int | None, quantile: float | None) -> None:
        row = [0.0, quantile or 0.0] if at is None else [row_of(self._plan.feature, at), -1.0]
        self._step = 0
        self._hash = self._keyed.hash([number + 0.0 for number in row])

    def _share(self, value: int) -> float:
        """Compare with the middle one of the thresholds at which a value is open, until it is closed."""
        while True:
            found = [m for m in range(len(self._zones)) if self._below[m] < value < self._above[m]]
            if not found:
                break
            self._compare(value, found[len(found) // 2])
        above = [m for m, lowest in enumerate(self._above) if lowest <= value]
        if above and self._told[above[-1]] is not None and self._below[above[-1]] == value:
            return (self._told[above[-1]] or 0) / self._plan.declared
        least = 0 if not above else self._least(above[-1])
        most = self._plan.declared if len(above) == len(self._zones) else self._most(len(above))
        return (least + most) / (2 * self._plan.declared)

    def _least(self, threshold: int) -> int:
        told = self._told[threshold]
        return (self._zones[threshold][1] + 1 if told is None else told) - self._plan.thresholds.margin

    def _most(self, threshold: int) -> int:
        told = self._told[threshold]
        return (self._zones[threshold][0] - 1 if told is None else told) + self._plan.thresholds.margin

    def _quantile(self, share: Fraction) -> int:
        """Compare middles of the values that may be the quantile, until one is left."""
        plan = self._plan
        eta = Fraction(plan.thresholds.width + 1, 2 * plan.declared)
        if share < eta:
            return 0
        if share >= 1 - eta:
            return self._size - 1
        middles = [Fraction(low + high, 2) for low, high in self._zones]
        m = min(range(len(middles)), key=lambda m: (abs(middles[m] - share * plan.declared), -m))
        while self._told[m] is None and self._above[m] - self._below[m] > 1:
            self._compare((self._below[m] + self._above[m]) // 2, m)
        return min(self._above[m], self._size - 1)

    def _compare(self, value: int, threshold: int) -> None:
        """Compare the noisy count up to a value with a zone, and learn."""
        low, high = self._zones[threshold]
        noisy = sum(row <= value for row in self._rows) + logistic(self._plan.thresholds.slope, self._word())
        self.comparisons += 1
        if noisy >= low:
            for m in range(threshold + 1):
                self._above[m] = min(self._above[m], value)
        if noisy <= high:
            for m in range(threshold, len(self._zones)):
                self._below[m] = max(self._below[m], value)
        if low <= noisy <= high:
            self._told[threshold] = noisy
            self.events.append(AnswerPaid(round=self.round, paid=self.paid, count=noisy))

    def _word(self) -> int:
        """Return the next 128 uniform bits of a round as a whole number."""
        part, side = divmod(self._step, _SIDES)
        self._step += 1
        return self._keyed.word(Purpose.QUESTION, self.round, side, self._hash ^ part)

    @property
    def drawn(self) -> list[tuple[int, int]]:
        """All words that were drawn."""
        return self._keyed.drawn
