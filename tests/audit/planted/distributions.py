"""Distributions, broken on purpose."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from oracle.mechanisms.thresholds.paid import PAID, PaidQuestions
from oracle.planning.distribution import guarantees, tight
from oracle.predictors.distribution import predictor
from oracle.predictors.distribution.ladder import Ladder, Outcome
from oracle.predictors.distribution.predictor import Distribution
from oracle.predictors.distribution.trainer import DistributionTrainer

__all__ = ["MUTANTS_OF_DISTRIBUTIONS"]

Patch = pytest.MonkeyPatch


def _not_retired(patch: Patch) -> None:
    """A threshold that was paid for stays open above its pivot."""
    real = Ladder._compare

    def compare(self: Ladder, key: Any, threshold: int, ask: Any) -> int:
        before = self._above[threshold]
        answer = real(self, key, threshold, ask)
        if answer == PAID:
            self._above[threshold] = before
        return answer

    patch.setattr(Ladder, "_compare", compare)


def _louder(patch: Patch) -> None:
    """Noise has half the plan's scale."""

    def questions(law: Any, slope: float, paid: int) -> PaidQuestions:
        return PaidQuestions(law, 2.0 * slope, paid)

    patch.setattr(predictor, "PaidQuestions", questions)


def _same_noise(patch: Patch) -> None:
    """All comparisons of a question have the noise of its first."""
    real = Distribution.words

    def words(self: Distribution, question: Any, _step: int) -> Any:
        drawn = real(self, question, 0)
        return np.repeat(drawn[:1], len(drawn), axis=0)

    patch.setattr(Distribution, "words", words)


def _free_counts(patch: Patch) -> None:
    """A question that was compared and cost nothing is told its noisy count."""
    compare, answered, told = Distribution.compare, Distribution._answered, dict[Any, float]()

    def compared(self: Distribution, key: Any, threshold: int, words: Any) -> Outcome:
        outcome = compare(self, key, threshold, words)
        noise = int(self._questions._noise(words)[0])
        if outcome.answer != PAID:
            told[key] = (self._count(key) + noise) / self._plan.declared
        return outcome

    def answers(self: Distribution, segment: Any, events: Any) -> Any:
        told.clear()
        values = answered(self, segment, events)
        keys = self._values.column(self._found[-1], 0).tolist()
        return np.array([told.get(key, value) for key, value in zip(keys, values.tolist(), strict=True)])

    patch.setattr(Distribution, "compare", compared)
    patch.setattr(Distribution, "_answered", answers)


def _following(patch: Patch) -> None:
    """A threshold's zone is a row higher where the true count is in it."""
    real = Distribution.compare

    def compare(self: Distribution, key: Any, threshold: int, words: Any) -> Outcome:
        lows = self._lows
        near = lows[threshold] <= self._count(key) <= lows[threshold] + self._plan.thresholds.gap
        self._lows = lows + 2 * int(near)
        outcome = real(self, key, threshold, words)
        self._lows = lows
        return outcome

    patch.setattr(Distribution, "compare", compare)


def _true_values(patch: Patch) -> None:
    """What is paid for is the true count."""
    real = Distribution.compare

    def compare(self: Distribution, key: Any, threshold: int, words: Any) -> Outcome:
        outcome = real(self, key, threshold, words)
        low = int(self._lows[threshold])
        true = min(max(self._count(key), low), low + self._plan.thresholds.gap)
        return outcome._replace(value=true) if outcome.answer == PAID else outcome

    patch.setattr(Distribution, "compare", compare)


def _short_plan(patch: Patch) -> None:
    """K is one too large: it is charged as if there was one threshold less, by planner and proof."""
    real, slope = guarantees.distribution_event, tight.__dict__["noise_slope"]

    def event(plan: Any) -> Any:
        found: Any = real(plan)
        return replace(found, paid=max(found.paid - 1, 1))

    patch.setattr(tight, "distribution_event", event)
    patch.setattr(tight, "noise_slope", lambda paid, *rest, **more: slope(max(paid - 1, 1), *rest, **more))


def _one_more(patch: Patch) -> None:
    """A threshold that had retired is paid for once more after a restart."""
    real = Ladder.take_back

    def take_back(self: Ladder, arrays: Any, comparisons: int) -> None:
        real(self, arrays, comparisons)
        for threshold in list(self._values)[-1:]:
            self._above[threshold] = (*self._above, self._last)[threshold + 1]

    patch.setattr(Ladder, "take_back", take_back)


def _two_rows(patch: Patch) -> None:
    """The middle row counts twice."""
    real = Distribution._count

    def count(self: Distribution, key: Any) -> int:
        there = self._keys[self._keys < self._ladder._last]
        return real(self, key) + int(key >= there[len(there) // 2])

    patch.setattr(Distribution, "_count", count)


def _blanks_counted(patch: Patch) -> None:
    """A blanked row counts as if it was there."""
    real = DistributionTrainer._take
    patch.setattr(DistributionTrainer, "_take", lambda self, rows, labels: real(self, rows, np.ones_like(labels)))


def _uncounted(patch: Patch) -> None:
    """Comparisons are counted from nothing after a restart."""
    real = Ladder.take_back
    patch.setattr(Ladder, "take_back", lambda self, arrays, _comparisons: real(self, arrays, 0))


MUTANTS_OF_DISTRIBUTIONS: Final[dict[str, Callable[[Patch], None]]] = {
    "a threshold that does not retire": _not_retired,
    "comparisons with half the noise": _louder,
    "one draw for all thresholds": _same_noise,
    "a free comparison's count told": _free_counts,
    "zones that follow the count": _following,
    "true counts paid for": _true_values,
    "one threshold not paid for": _short_plan,
    "a threshold open again after a restart": _one_more,
    "a row that counts twice": _two_rows,
    "blanked rows counted": _blanks_counted,
    "comparisons forgotten after a restart": _uncounted,
}
"""What breaks them, by name."""
