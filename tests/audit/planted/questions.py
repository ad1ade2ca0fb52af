"""Paid questions, broken on purpose."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from oracle.mechanisms.thresholds.paid import LOW, Answers, PaidQuestions

__all__ = ["MUTANTS_OF_QUESTIONS"]

Patch = pytest.MonkeyPatch


def _value_of_a_free_answer(patch: Patch) -> None:
    """A free answer comes with its noisy count too."""
    real = PaidQuestions.ask

    def ask(self: PaidQuestions, counts: Any, lows: Any, words: Any, **rest: Any) -> Answers:
        given = real(self, counts, lows, words, **rest)
        noisy = counts + self._noise(words) - rest.get("offset", 0)
        return replace(given, values=np.where(given.outcomes == LOW, noisy, given.values))

    patch.setattr(PaidQuestions, "ask", ask)


def _one_draw_for_two(patch: Patch) -> None:
    """Each second question has the noise of the one before it."""
    real = PaidQuestions.ask

    def ask(self: PaidQuestions, counts: Any, lows: Any, words: Any, **rest: Any) -> Answers:
        return real(self, counts, lows, words[np.arange(len(words)) // 2 * 2], **rest)

    patch.setattr(PaidQuestions, "ask", ask)


def _never_spent(patch: Patch) -> None:
    """Paid answers are not counted: the data are asked for ever."""
    real = PaidQuestions.ask

    def ask(self: PaidQuestions, counts: Any, lows: Any, words: Any, *, spent: int, **rest: Any) -> Answers:
        without_end = replace(self, paid=1 << 40)
        return replace(real(without_end, counts, lows, words, spent=0, **rest), spent=spent)

    patch.setattr(PaidQuestions, "ask", ask)


def _no_offset(patch: Patch) -> None:
    """Thresholds of one-sided noise have none."""
    patch.setattr(PaidQuestions, "offset", lambda _self, _words: 0)


MUTANTS_OF_QUESTIONS: Final[dict[str, Callable[[Patch], None]]] = {
    "a value with a free answer": _value_of_a_free_answer,
    "one draw for two questions": _one_draw_for_two,
    "paid answers not counted": _never_spent,
    "one-sided noise on counts only": _no_offset,
}
"""What breaks them, by name."""
