"""Games against paid questions: what thousands of answers, and the values of the paid ones, tell of one record.

The strongest simple strategy asks for what is rare (PRIVACY.md, Theorem 17: the price is attained far from the
threshold), and spends what is left at the end on noisy counts.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.paid_questions import noise_slope, one_sided_slopes
from oracle.audit.randomness import Randomness
from oracle.errors import InputError
from oracle.mechanisms.thresholds.paid import HIGH, LOW, PAID, Answers, PaidLaw, PaidQuestions

__all__ = ["QUESTIONERS", "Questioner", "log_above", "log_below", "log_mass", "play_questions", "questioner"]

_PAID: Final = 6
_RARE: Final = 1_200
"""Questions of which about twice K are paid for."""

_SURE: Final = 60
"""Questions that are paid for at once, asked last."""

_ZONE: Final = 2.5
"""Nats between two thresholds."""

_BEYOND: Final = 40.0
"""Nats beyond which no noise goes here."""

QUESTIONERS: Final = (
    ("gumbel", "rarely above"),
    ("logistic", "rarely above"),
    ("logistic", "rarely not above"),
    ("exponential", "rarely above"),
)
"""The law of the noise, and the strategy."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Questioner:
    """A fixed list of questions to one instance; their counts are 0 without the record.

    The first two are paid for, and the record changes one of them alone: equal noise would show it.

    Attributes:
        questions: The mechanism.
        moves: int64[n], what the record adds to each count.
        lows: int64[n], thresholds.
        highs: int64[n], upper thresholds; None for questions "above".
    """

    questions: PaidQuestions
    moves: Ints
    lows: Ints
    highs: Ints | None


def questioner(law: str, strategy: str, epsilon: float, delta: float, less: float = 1.0) -> Questioner:
    """Return an attack on nearly the least noise that the accountant passes.

    Args:
        law: Of the noise; logistic noise is asked between two thresholds.
        strategy: One of `QUESTIONERS`.
        epsilon: Claimed (nats).
        delta: Claimed; 0 for "exponential" only.
        less: What is rare is made for so many times less noise.

    Raises:
        InputError: There is no such strategy for the law.
    """
    if (law, strategy) not in QUESTIONERS:
        raise InputError("strategy", (law, strategy), f"must be one of {QUESTIONERS}")
    questions = _instance(law, epsilon, delta)
    slope = questions.slope
    zone, far = math.ceil(_ZONE / slope), math.ceil(_BEYOND / slope)
    rare = round(math.log(_RARE / (2.0 * _PAID)) / (slope * less))
    if strategy == "rarely not above":
        rare = -rare - zone
    count = 2 + _RARE + _SURE
    lows, moves = np.full(count, rare, dtype=np.int64), np.ones(count, dtype=np.int64)
    highs = lows + zone
    for sure in (slice(2), slice(count - _SURE, count)):
        lows[sure], highs[sure] = -far, far
    moves[1] = 0
    if law == "exponential":  # what is free in one direction and paid in the other is what Theorem 19 has to pay for
        moves[-_SURE:] = -1
    return Questioner(questions, moves, lows, highs if law == "logistic" else None)


def _instance(law: str, epsilon: float, delta: float) -> PaidQuestions:
    if law == "exponential":
        noise = one_sided_slopes(_PAID, epsilon, _RARE, 0.01)
        return PaidQuestions("exponential", noise.slope, _PAID, noise.threshold_slope)
    if law == "gumbel":
        return PaidQuestions("gumbel", noise_slope(_PAID, epsilon, delta, exact=True), _PAID)
    return PaidQuestions("logistic", noise_slope(_PAID, epsilon, delta, gap_nats=_ZONE), _PAID)


def play_questions(shape: Questioner, games: int, randomness: Randomness, *, present: bool) -> Floats:
    """Play games against one instance each.

    Args:
        shape: What is asked.
        games: How many.
        randomness: The mechanism's.
        present: Which world.

    Returns:
        float64[games, 4]: the privacy loss of all answers by the claimed law, how many were paid, the sum of what was
        told as the value of others, and by how much the first two values differ, if there are two.
    """
    law = _Law(shape)
    views = np.empty((games, 4))
    for number in range(games):
        words = randomness.words(number, len(shape.moves) + 1)
        offset = shape.questions.offset(words[-1])
        counts = shape.moves * int(present)
        answers = shape.questions.ask(counts, shape.lows, words[:-1], spent=0, highs=shape.highs, offset=offset)
        paid = answers.outcomes == PAID
        differ = float(answers.values[0] - answers.values[1]) if paid[:2].all() else 0.0
        views[number] = law.loss(answers), np.count_nonzero(paid), answers.values[~paid].sum(), differ
    return views


class _Law:
    """The law of the answers, as it is claimed, with the record and without."""

    def __init__(self, shape: Questioner) -> None:
        self._slope, self._law = shape.questions.slope, shape.questions.law
        self._shape = shape
        kinds = np.column_stack([shape.lows, shape.lows if shape.highs is None else shape.highs, shape.moves])
        self._kinds, owners = np.unique(kinds, axis=0, return_inverse=True)
        self._owners = owners.reshape(-1)
        slope = shape.questions.threshold_slope
        self._offsets = np.arange(1 if slope is None else math.ceil(_BEYOND / slope), dtype=np.int64)
        self._weights = np.zeros(1) if slope is None else -slope * self._offsets
        self._tables = [self._table(present) for present in (0, 1)]

    def _table(self, present: int) -> Floats:
        """Return ln P(LOW), ln P(HIGH) by kind of question and offset."""
        lows, highs, moves = (column[:, None] for column in self._kinds.T)
        counts = moves * present - self._offsets[None, :]
        low = log_below(self._law, self._slope, lows - counts)
        high = log_above(self._slope, highs + 1 - counts)
        return np.stack([low, high])

    def loss(self, answers: Answers) -> float:
        """Return ln P(answers | record there)/P(answers | not there): 0 if the law has them never."""
        logs = [self._log(answers, present) for present in (0, 1)]
        loss = logs[1] - logs[0] if all(map(math.isfinite, logs)) else 0.0
        return min(max(loss, -1e6), 1e6)

    def _log(self, answers: Answers, present: int) -> float:
        total = self._weights.copy()
        for outcome, table in zip((LOW, HIGH), self._tables[present], strict=True):
            times = np.bincount(self._owners[answers.outcomes == outcome], minlength=len(self._kinds))
            total += times[times > 0] @ table[times > 0]
        for row in np.flatnonzero(answers.outcomes == PAID):
            count = int(self._shape.moves[row]) * present
            total += log_mass(self._law, self._slope, int(answers.values[row]) - count + self._offsets)
        most = float(total.max())
        return most + math.log(float(np.exp(total - most).sum())) if math.isfinite(most) else -math.inf


def log_below(law: PaidLaw, slope: float, z: Ints) -> Floats:
    """Return ln P(Z < z)."""
    with np.errstate(divide="ignore", over="ignore"):
        if law == "gumbel":
            return np.asarray(-np.exp(-slope * z))
        if law == "logistic":
            return np.asarray(-np.logaddexp(0.0, -slope * (z - 0.5)))
        return np.asarray(np.log(-np.expm1(-slope * np.maximum(z, 0))))


def log_above(slope: float, z: Ints) -> Floats:
    """Return ln P(Z >= z) of logistic noise: other laws are asked "above" only."""
    return np.asarray(-np.logaddexp(0.0, slope * (z - 0.5)))


def log_mass(law: PaidLaw, slope: float, z: Ints) -> Floats:
    """Return ln P(Z = z)."""
    if law == "exponential":
        return np.where(z >= 0, -slope * z + math.log(-math.expm1(-slope)), -np.inf)
    if law == "logistic":  # P(Z >= z) = x/(1 + x), x = exp(-e (z - 1/2)); the difference to z + 1, in full
        near, far = np.logaddexp(0.0, slope * (z - 0.5)), np.logaddexp(0.0, -slope * (z + 0.5))
        return np.asarray(math.log(-math.expm1(-slope)) - near - far)
    less, more = log_below(law, slope, z), log_below(law, slope, z + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isfinite(more), more + np.log(-np.expm1(less - more)), -np.inf)
