"""All of a distribution that is public: where each threshold is known to lie, and the values that were paid for.

It sees questions and the outcomes of comparisons, and never a row: whoever has these gives the same answers
(PRIVACY.md, section 16).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.domains import Domain
from oracle.mechanisms.orders import Keys, last_key, load_keys, plain_keys
from oracle.mechanisms.thresholds.paid import HIGH, LOW
from oracle.planning.distribution.model import DistributionPlan

__all__ = ["Asker", "Ladder", "Outcome"]

Key = Any
"""A key of `oracle.mechanisms.orders`: a float, or bytes."""


class Outcome(NamedTuple):
    """What a comparison with noise told.

    Attributes:
        answer: LOW, PAID or HIGH.
        value: The noisy count, if it was paid for.
    """

    answer: int
    value: int


Asker = Callable[[Key, int], Outcome]
"""Compares the count up to a value with the threshold of a number."""


class Ladder:
    """The largest value known to be below each threshold, the smallest known to be above it, and what was paid for.

    A threshold is *retired* when a value was paid for: its pivot, which is both of these. A value is *closed* where
    each threshold is known to be above it, or below, or has it for its pivot; then its *slot* says all: twice the
    number of thresholds below it, or for the pivot of threshold m the odd number 2 m + 1.

    Formal guarantees:
        * All is a function of the plan and of outcomes.
        * Answers never fall from a value to a larger one.

    Args:
        plan: The plan.
        kind: Type of the keys.
        domain: All values there are.
    """

    def __init__(self, plan: DistributionPlan, kind: "np.dtype[Any]", domain: Domain[Any]) -> None:
        self._plan, self._kind, self._domain = plan, kind, domain
        self._least: Key = b"" if kind.kind == "S" else -np.inf
        self._last: Key = last_key(kind)
        self._below: list[Key] = [self._least] * plan.paid
        self._above: list[Key] = [self._last] * plan.paid
        self._values: dict[int, int] = {}
        self.comparisons = 0
        self._columns: tuple[Keys, Keys] | None = None
        self._shares: NDArray[np.float64] | None = None

    @property
    def paid(self) -> int:
        """Thresholds that are retired."""
        return len(self._values)

    @property
    def verified(self) -> bool:
        """Whether no more comparisons were made than the error is promised for."""
        return self.comparisons <= self._plan.comparisons

    def slots(self, keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return of each value its slot, and whether it is closed; the slot of one that is not means nothing.

        Args:
            keys: [n] keys.
        """
        if self._columns is None:
            self._columns = np.array(self._below, dtype=self._kind), np.array(self._above, dtype=self._kind)
        below, above = self._columns
        reached = np.searchsorted(below, keys, side="left")
        passed = np.searchsorted(above, keys, side="right")
        return reached + passed, reached <= passed

    def slot(self, key: Key) -> int | None:
        """Return the slot of one value, None where it is not closed."""
        reached, passed = bisect_left(self._below, key), bisect_right(self._above, key)
        return reached + passed if reached <= passed else None

    def close(self, key: Key, ask: Asker) -> int:
        """Compare a value until it is closed, by binary search over the thresholds that are open; return its slot."""
        while True:
            reached, passed = bisect_left(self._below, key), bisect_right(self._above, key)
            if reached <= passed:
                return reached + passed
            self._compare(key, (reached + passed) // 2, ask)

    def found(self, threshold: int) -> int | None:
        """Return the rank of the quantile at a threshold: its pivot, or the first value that is above it.

        None where it is not known yet; the last value of all where none is above the threshold.
        """
        low, high = self._bounds(threshold)
        return min(high, self._domain.size - 1) if high - low <= 1 else None

    def search(self, threshold: int, ask: Asker, key_of: Callable[[int], Key]) -> int:
        """Compare values with a threshold until `found` knows, by binary search over all there are; return it."""
        low, high = self._bounds(threshold)
        while high - low > 1:
            middle = (low + high) // 2
            answer = self._compare(key_of(middle), threshold, ask)
            low, high = (low if answer == HIGH else middle), (high if answer == LOW else middle)
        return min(high, self._domain.size - 1)

    def _bounds(self, threshold: int) -> tuple[int, int]:
        below, above = self._below[threshold], self._above[threshold]
        low = -1 if below == self._least else self._domain.rank(below)
        high = self._domain.size if above == self._last else self._domain.rank(above)
        return low, high

    def _compare(self, key: Key, threshold: int, ask: Asker) -> int:
        """Compare a value with a threshold at which it is open, learn from it, and return LOW, PAID or HIGH."""
        self.comparisons += 1
        outcome = ask(key, threshold)
        if outcome.answer != LOW:  # above this threshold, so above all lower ones
            first = bisect_right(self._above, key)
            self._above[first : threshold + 1] = [key] * (threshold + 1 - first)
        if outcome.answer != HIGH:
            stop = bisect_left(self._below, key)
            self._below[threshold:stop] = [key] * (stop - threshold)
        if outcome.answer not in {LOW, HIGH}:
            self._values[threshold] = outcome.value
            self._shares = None
        self._columns = None
        return outcome.answer

    @property
    def shares(self) -> NDArray[np.float64]:
        """What a value of each slot is answered with: float64[2 K + 1]."""
        if self._shares is None:
            self._shares = self._made_shares()
        return self._shares

    def _made_shares(self) -> NDArray[np.float64]:
        ladder, rows = self._plan.thresholds, self._plan.declared
        lows = np.array(self._plan.lows, dtype=np.int64)
        retired = np.fromiter(self._values, dtype=np.int64, count=self.paid)
        values = np.fromiter(self._values.values(), dtype=np.int64, count=self.paid)
        least, most = lows + ladder.gap + 1, lows - 1  # of a count above a threshold, and of one below it, but for l
        least[retired] = most[retired] = values
        doubled = np.zeros(2 * len(lows) + 1, dtype=np.int64)
        doubled[0::2] = np.append(0, least - ladder.margin) + np.append(most + ladder.margin, rows)
        doubled[1::2][retired] = 2 * values
        shares: NDArray[np.float64] = doubled / (2.0 * rows)
        return shares

    def export(self) -> dict[str, NDArray[np.generic]]:
        """Return all as arrays whose shapes depend on the plan only, but for the number of comparisons."""
        values = np.full(self._plan.paid, -1, dtype=np.int64)
        values[list(self._values)] = list(self._values.values())
        below, above = (np.array(column, dtype=self._kind) for column in (self._below, self._above))
        return {"below": plain_keys(below), "above": plain_keys(above), "values": values}

    def take_back(self, arrays: Mapping[str, NDArray[np.generic]], comparisons: int) -> None:
        """Take back what `export` returned.

        Raises:
            CorruptSnapshotError: It is not of the plan's sizes.
        """
        below, above = (load_keys(arrays[name], self._kind) for name in ("below", "above"))
        values = arrays["values"]
        if not len(below) == len(above) == len(values) == self._plan.paid:
            raise CorruptSnapshotError("snapshot: its thresholds are not those of its plan")
        self._below, self._above, self.comparisons = below.tolist(), above.tolist(), comparisons
        self._values = {number: value for number, value in enumerate(values.tolist()) if value >= 0}
        self._columns = self._shares = None
