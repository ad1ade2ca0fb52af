"""Paid questions: is a count above its threshold, or between two? What is free says no more; what is paid has a value.

Source: PRIVACY.md, Theorem 17 ("above", Gumbel noise), Theorem 18 ("between", logistic noise: BetweenThresholds of Bun,
Steinke and Ullman, 2017, without noise on thresholds and with the value), Theorem 19 ("above", one-sided noise: Lyu, Su
and Li, 2017, Algorithm 1). With fresh noise Z a question's noisy count is y = c + Z: LOW if y < t_l, HIGH if y > t_h,
else PAID, and then y is released. Above: there is no t_h.

`BetweenThresholds` asks between two thresholds that stay, and releases no values; a Stopper counts what is paid.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.mechanisms.noise.tables import Edges, Law, edges, geometric, sample, tail_reach

__all__ = ["CLOSED", "HIGH", "LOW", "PAID", "Answers", "BetweenThresholds", "PaidLaw", "PaidQuestions"]

LOW: Final = 0
PAID: Final = 1
HIGH: Final = 2
CLOSED: Final = 3
"""The data were not touched: all paid answers are spent."""

PaidLaw = Literal["gumbel", "logistic", "exponential"]

LARGEST: Final = 1 << 60
"""Counts and thresholds are at most so large, either way."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What a column of questions was answered.

    Attributes:
        outcomes: int8[n] of LOW, PAID, HIGH, CLOSED.
        values: int64[n], the noisy counts that were paid for; 0 elsewhere.
        spent: Paid answers so far, these included.
    """

    outcomes: NDArray[np.int8]
    values: NDArray[np.int64]
    spent: int


@dataclass(frozen=True, slots=True)
class PaidQuestions:
    """The public parameters of one instance; its only state is how many answers were paid.

    Formal guarantees:
        * If one record moves each count by at most 1 (either way, another way at each question), thresholds depend on
          earlier answers and public numbers only, and every question has words of its own, all answers are (epsilon,
          delta)-indistinguishable by `oracle.accounting.paid_questions`, any number of free ones included.
        * "Exponential" has delta = 0 but for its tables, and takes one `offset` for the whole instance.
        * An answer is a pure function of (count, thresholds, offset, 128 uniform bits, paid answers so far); once
          `paid` are spent it does not depend on the count.

    Args:
        law: "gumbel" and "exponential" for questions "above", "logistic" for both kinds.
        slope: e of the noise on counts (nats).
        paid: K, at least 1.
        threshold_slope: e of the noise on thresholds (nats), for "exponential" only.

    >>> above = PaidQuestions("gumbel", 0.5, paid=1)
    >>> words = np.array([[1 << 63, 0], [1 << 63, 1]], dtype=np.uint64)
    >>> above.ask(np.array([7, 7]), np.array([9, 5]), words, spent=0)
    Answers(outcomes=array([0, 1], dtype=int8), values=array([0, 7]), spent=1)
    """

    law: PaidLaw
    slope: float
    paid: int
    threshold_slope: float | None = None

    def __post_init__(self) -> None:
        """Check that the law has what it needs."""
        if self.paid < 1:
            raise InputError("paid", self.paid, "must be at least 1")
        if (self.law == "exponential") != (self.threshold_slope is not None):
            raise InputError(
                "threshold slope", self.threshold_slope, "must be given for exponential noise, and only then"
            )

    def offset(self, words: NDArray[np.uint64]) -> int:
        """Return the noise on all thresholds of the instance: 0 but for exponential noise.

        Args:
            words: uint64[2], uniform bits that serve nothing else.
        """
        if self.threshold_slope is None:
            return 0
        return int(geometric(self.threshold_slope, words.reshape(1, 2))[0])

    def ask(  # noqa: PLR0913 -- one question's parts
        self,
        counts: NDArray[np.int64],
        lows: NDArray[np.int64],
        words: NDArray[np.uint64],
        *,
        spent: int,
        highs: NDArray[np.int64] | None = None,
        offset: int = 0,
    ) -> Answers:
        """Answer a column of questions, in order, until the last paid answer is spent.

        Args:
            counts: int64[n], secret.
            lows: int64[n], t_l of each question.
            words: uint64[n, 2], uniform bits that serve nothing else.
            spent: Paid answers given before.
            highs: int64[n], t_h of each question, not below `lows`; None for "above".
            offset: What `offset` gave this instance.

        Raises:
            InputError: Thresholds are out of order, a number is too large, or the kind of question has no proof for
                the law; nothing was answered.
        """
        self._check(counts, lows, highs)
        outcomes = self._outcomes(counts - offset, lows, highs, words)
        paid_before = spent + np.cumsum(outcomes == PAID) - (outcomes == PAID)
        outcomes[paid_before >= self.paid] = CLOSED
        paid = np.flatnonzero(outcomes == PAID)
        values = np.zeros(len(counts), dtype=np.int64)
        # not below the threshold, though a table ends: one word in 2^128 stands for all noise beyond its end
        values[paid] = np.maximum(counts[paid] - offset + self._noise(words[paid]), lows[paid])
        return Answers(outcomes, values, spent + len(paid))

    def _outcomes(
        self,
        counts: NDArray[np.int64],
        lows: NDArray[np.int64],
        highs: NDArray[np.int64] | None,
        words: NDArray[np.uint64],
    ) -> NDArray[np.int8]:
        reach = tail_reach(self.slope)
        if self.law != "exponential":
            return _compared(edges(self.law, self.slope, 1 - reach, reach), counts, lows, highs, words)
        table = edges("laplace", self.slope, 1 - reach, reach)  # |X| of X by Laplace's law, rounded down
        mirrored = table.exceed(counts - lows - table.first, words)
        return np.maximum(_compared(table, counts, lows, None, words), mirrored.view(np.int8) * PAID)

    def _noise(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return geometric(self.slope, words) if self.law == "exponential" else sample(self.law, self.slope, words)

    def _check(self, counts: NDArray[np.int64], lows: NDArray[np.int64], highs: NDArray[np.int64] | None) -> None:
        if highs is not None:
            if self.law != "logistic":
                raise InputError("law", self.law, "must be logistic for questions between two thresholds")
            if not (lows <= highs).all():
                raise InputError("thresholds", "...", "must satisfy low <= high")
        for name, numbers in (("count", counts), ("threshold", lows), ("threshold", lows if highs is None else highs)):
            if len(numbers) and not -LARGEST <= int(numbers.min()) <= int(numbers.max()) <= LARGEST:
                raise InputError(name, "...", f"must be from {-LARGEST} to {LARGEST}")


@dataclass(frozen=True)
class BetweenThresholds:
    """The public parameters of one instance whose thresholds stay: is a depth low, medium (paid) or high?

    Source: Stemmer (2024), Algorithm 3 (after Bun, Steinke and Ullman, 2017). The `tight` profile takes integer noise
    and accounts for it exactly; the `paper` profile takes Laplace's, as written.

    Formal guarantees:
        * Adding or removing one of the instance's points moves every depth by at most 1; the answers up to the
          K-th medium are then (epsilon, delta)-indistinguishable by `oracle.accounting.between_thresholds`.
        * An answer is a pure function of (depth, 128 uniform bits).

    Args:
        law: Law of Z.
        scale: e (nats per point).
        low: t_l.
        high: t_h, not below t_l.
        points: M, the largest depth there can be, not below t_h.
    """

    law: Law
    scale: float
    low: int
    high: int
    points: int

    def __post_init__(self) -> None:
        """Check the order of the thresholds."""
        if not 0 < self.low <= self.high <= self.points:
            raise InputError("thresholds", (self.low, self.high, self.points), "must satisfy 0 < low <= high <= points")

    @cached_property
    def _edges(self) -> Edges:
        return edges(self.law, self.scale, self.low - self.points, self.high + 1)

    @cached_property
    def _most(self) -> int:
        """The largest y that is not high; Laplace's noise is real and meets t_h with probability 0, its floor may."""
        return self.high - 1 if self.law == "laplace" else self.high

    def answers(self, depths: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int8]:
        """Answer a column of depths.

        Args:
            depths: int64[n], each from 0 to M.
            words: uint64[n, 2], fresh uniform bits for each.

        Returns:
            int8[n] of LOW, PAID, HIGH.
        """
        return _compared(self._edges, depths, self.low, self._most, words)


def _compared(
    table: Edges,
    counts: NDArray[np.int64],
    lows: NDArray[np.int64] | int,
    highs: NDArray[np.int64] | int | None,
    words: NDArray[np.uint64],
) -> NDArray[np.int8]:
    """Return LOW where c + Z < t_l, HIGH where c + Z > t_h, else PAID: one comparison with each threshold's edge."""
    low = table.exceed(lows - table.first - counts, words)
    if highs is None:
        return PAID - low.view(np.int8)
    not_high = table.exceed(highs + 1 - table.first - counts, words)
    return HIGH - not_high.view(np.int8) - low.view(np.int8)
