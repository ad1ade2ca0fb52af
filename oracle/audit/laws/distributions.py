"""Whether a distribution's comparisons have the noise that the plan says, judged by who knows the rows.

A live predictor is asked, and each comparison is listened to: its outcome is as likely as the law says of the count
that the auditor knows, and a value that is paid for stands in that law; or a bet on it gains (`bets.py`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from oracle.audit.games.questions import log_below
from oracle.audit.laws.bets import Bets
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.runs.trials import ask
from oracle.errors import DataError
from oracle.mechanisms.thresholds.paid import LOW, PAID
from oracle.planning.distribution.model import DistributionPlan
from oracle.predictors.base import Predictor
from oracle.predictors.distribution.base import AT
from oracle.predictors.distribution.ladder import Outcome
from oracle.predictors.distribution.predictor import Distribution
from oracle.predictors.kinds import new_trainer

__all__ = ["Compared", "judge_comparisons", "live_comparisons"]

_QUESTIONS: Final = 60
_QUANTILES: Final = 0.1

Floats = NDArray[np.float64]


class Compared(NamedTuple):
    """One comparison.

    Attributes:
        value: What was asked about.
        threshold: Number of the threshold.
        words: uint64[1, 2], the bits of its noise.
        outcome: What it told.
    """

    value: float
    threshold: int
    words: NDArray[np.uint64]
    outcome: Outcome


@contextmanager
def _listened() -> Iterator[list[Compared]]:
    """Record all comparisons for a while."""
    found: list[Compared] = []
    real = Distribution.compare

    def compare(self: Distribution, key: Any, threshold: int, words: NDArray[np.uint64]) -> Outcome:  # noqa: ANN401 -- as `compare`
        outcome = real(self, key, threshold, words)
        found.append(Compared(float(key), threshold, words.reshape(1, 2).copy(), outcome))
        return outcome

    with patch.object(Distribution, "compare", compare):
        yield found


def live_comparisons(plan: DistributionPlan, randomness: Randomness, number: int) -> tuple[Floats, list[Compared]]:
    """Ask a predictor of random rows random questions; return its rows, and all comparisons.

    Args:
        plan: Of numbers.
        randomness: Of the key, the rows and the questions.
        number: Of the run.
    """
    draws = Draws(randomness, number)
    rows = draws.uniform(plan.declared)
    predictor = _trained(plan, randomness.secret(number), rows)
    at = np.array([_near(plan, np.sort(rows), draws) for _ in range(_QUESTIONS)])
    questions = np.column_stack([at, np.full(_QUESTIONS, AT)])
    questions[draws.uniform(_QUESTIONS) < _QUANTILES, :] = 0.0, draws.one()
    with _listened() as found:
        ask(predictor, questions)
    return rows, found


def _near(plan: DistributionPlan, ascending: Floats, draws: Draws) -> float:
    """Return a value up to which the count is about a threshold, where noise decides what is told."""
    reach = round(2.0 / plan.thresholds.slope)
    count = plan.lows[draws.below(plan.paid)] - reach + draws.below(plan.thresholds.gap + 2 * reach)
    low, high = ascending[count - 1 : count + 1].tolist()
    return float(low + (high - low) * draws.one())


def _trained(plan: DistributionPlan, secret: bytes, rows: Floats) -> Predictor:
    trainer = new_trainer(plan, secret)
    trainer.add(rows[:, None], np.ones(len(rows), dtype=np.bool_))
    return trainer.finish()


def judge_comparisons(plan: DistributionPlan, rows: Floats, compared: list[Compared], bets: Bets, coins: Draws) -> None:
    """Bet on all that was told.

    Args:
        plan: What the noise and the thresholds are claimed to be.
        rows: float64[n], the rows.
        compared: All comparisons.
        bets: Takes what is gained.
        coins: Where a law has atoms, a place within one is drawn.

    Raises:
        DataError: What was told by its law cannot be.
    """
    slope, gap = plan.thresholds.slope, plan.thresholds.gap
    for value, threshold, _, outcome in compared:
        low = plan.lows[threshold] - int(np.count_nonzero(rows <= value))  # as noise
        told = outcome.value - plan.lows[threshold] + low
        cuts = np.array([low, low + gap + 1, told, told + 1])
        below, not_above, least, most = np.exp(log_below("logistic", slope, cuts)).tolist()
        bets.on_chance("what is low", below, happened=outcome.answer == LOW)
        bets.on_chance("what is paid for", not_above - below, happened=outcome.answer == PAID)
        if outcome.answer == PAID:
            if not low <= told <= low + gap:
                raise DataError("a count is paid for that is in no zone")
            place = least + coins.one() * (most - least)
            bets.on_place("counts", (place - below) / (not_above - below))
