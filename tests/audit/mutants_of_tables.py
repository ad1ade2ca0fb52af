"""Bugs of questions about a table, planted by patching classes for a while."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from oracle.accounting.ledger import AnswerPaid
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.predictors.statistics import start
from oracle.predictors.statistics.predictor import Statistics
from oracle.predictors.statistics.sparse import SparseVector
from oracle.predictors.statistics.sums import Rows

__all__ = ["MUTANTS_OF_TABLES"]

Patch = pytest.MonkeyPatch


def _released_free(patch: Patch) -> None:
    """A free answer is told with the noisy count that was compared."""
    real = Statistics._answered

    def answered(self: Statistics, features: Any, *rest: Any) -> Any:
        _, rounds, hashes, events = rest
        values = real(self, features, *rest)
        counts = self._rows.over(self._plan.layout.masks(features))
        words = self._addresses.words(Purpose.QUESTION, rounds, np.zeros(1, dtype=np.uint64), hashes)[0]
        told = (counts + self._questions._noise(words)) / self._plan.declared
        paid = {event.round - self._round for event in events if isinstance(event, AnswerPaid)}
        return np.where([row in paid for row in range(len(values))], values, told)

    patch.setattr(Statistics, "_answered", answered)


def _of_the_question_alone(patch: Patch) -> None:
    """A question that comes again is asked with the noise that it had."""
    real = Addresses.words

    def words(self: Addresses, purpose: Purpose, rounds: Any, sides: Any, hashes: Any) -> Any:
        if purpose == Purpose.QUESTION and hashes is not None:
            rounds = np.zeros_like(rounds)
        return real(self, purpose, rounds, sides, hashes)

    patch.setattr(Addresses, "words", words)


def _uncounted(patch: Patch) -> None:
    """Paid answers are counted from nothing after a restart, and what they told is forgotten."""
    for kind in (Statistics, SparseVector):
        real = kind.export

        def export(self: Any, real: Callable[[Any], Any] = real) -> Any:
            arrays = dict(real(self))
            counters = arrays["counters"].copy()
            counters[3:] = 0
            return arrays | {"counters": counters}

        patch.setattr(kind, "export", export)


def _true_count(patch: Patch) -> None:
    """What the hypothesis learns is the true count; the noisy one is what the ledger says."""
    real = Statistics._ask

    def ask(self: Statistics, asked: Any) -> Any:
        found = real(self, asked)
        if found is None:
            return None
        true = int(self._rows.over([mask[found.number : found.number + 1] for mask in asked.masks])[0])
        said = int(found.count)
        self._said = [*getattr(self, "_said", []), said]  # type: ignore[attr-defined]  # the mutation
        return dataclasses.replace(found, count=true)

    answer = Statistics.answer

    def answered(self: Statistics, *batch: Any) -> Any:
        self._said = []  # type: ignore[attr-defined]  # as above
        answers = answer(self, *batch)
        noisy = iter(self._said)  # type: ignore[attr-defined]  # as above
        events = [
            AnswerPaid(round=event.round, paid=event.paid, count=next(noisy), above=event.above)
            if isinstance(event, AnswerPaid)
            else event
            for event in answers.events
        ]
        return dataclasses.replace(answers, events=events)

    patch.setattr(Statistics, "_ask", ask)
    patch.setattr(Statistics, "answer", answered)


def _bare_marginals(patch: Patch) -> None:
    """The marginals of the start have no noise."""
    patch.setattr(start, "sample", lambda _law, _slope, words: np.zeros(len(words), dtype=np.int64))


def _counted_twice(patch: Patch) -> None:
    """The last row is counted twice."""
    real = Rows.__init__

    def begin(self: Rows, shape: Any, cells: Any) -> None:
        real(self, shape, np.append(cells, cells[-1]))

    patch.setattr(Rows, "__init__", begin)


MUTANTS_OF_TABLES: Final[dict[str, Callable[[Patch], None]]] = {
    "a value told with a free answer": _released_free,
    "noise of the question alone": _of_the_question_alone,
    "K counted from nothing after a restart": _uncounted,
    "a hypothesis of true counts": _true_count,
    "marginals without noise": _bare_marginals,
    "a row counted twice": _counted_twice,
}
"""What breaks it, by name."""
