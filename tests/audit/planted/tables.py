"""Bugs of questions about a table, planted by patching classes for a while."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from oracle.accounting.ledger import AnswerPaid
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.noise.tables import sample
from oracle.mechanisms.thresholds.paid import PaidQuestions
from oracle.predictors.phased import Segment
from oracle.predictors.statistics import paid, predictor, sparse, start, trainer
from oracle.predictors.statistics.base import TablePredictor
from oracle.predictors.statistics.predictor import Statistics
from oracle.predictors.statistics.sparse import SparseVector
from oracle.predictors.statistics.start import Marginals, split_marginals
from oracle.predictors.statistics.sums import Rows

__all__ = ["MUTANTS_OF_TABLES"]

Patch = pytest.MonkeyPatch


def _released_free(patch: Patch) -> None:
    """A free answer is told with the noisy count that was compared."""
    real = Statistics._answered

    def answered(self: Statistics, segment: Segment, events: Any) -> Any:
        values = real(self, segment, events)
        counts = self._rows.over(self._plan.layout.masks(segment.features))
        side = np.zeros(1, dtype=np.uint64)
        words = self._addresses.words(Purpose.QUESTION, segment.rounds, side, segment.hashes)[0]
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


def _one_bare_marginal(patch: Patch) -> None:
    """The second marginal of the start has no noise."""
    real = start.noisy_marginals

    def noisy_marginals(plan: Any, cells: Any, addresses: Any) -> Any:
        counts = real(plan, cells, addresses)
        if len(plan.start) > 1:
            split_marginals(plan, counts)[1][...] = _true_marginals(plan, cells)[1]
        return counts

    patch.setattr(trainer, "noisy_marginals", noisy_marginals)


def _true_marginals(plan: Any, cells: Any) -> list[Any]:
    places = np.unravel_index(cells[cells >= 0], plan.layout.shape)
    found = []
    for about in plan.start:
        counts = np.zeros([plan.layout.shape[attribute] for attribute in about], dtype=np.int64)
        np.add.at(counts, tuple(places[attribute] for attribute in about), 1)
        found.append(counts)
    return found


def _one_draw_for_marginals(patch: Patch) -> None:
    """All marginals have the noise of the first one."""
    real = Addresses.words

    def words(self: Addresses, purpose: Purpose, rounds: Any, sides: Any, hashes: Any) -> Any:
        same = purpose is Purpose.QUESTION and hashes is None
        return real(self, purpose, rounds, sides * np.uint64(not same), hashes)

    patch.setattr(Addresses, "words", words)


def _following_thresholds(patch: Patch) -> None:
    """A threshold that lies near the true count is raised."""
    real = Statistics._paid

    def near_raised(self: Statistics, counts: Any, thresholds: Any, words: Any) -> Any:
        step = round(1.0 / self._questions.slope)
        near = np.abs(counts - thresholds) < 3 * step
        return real(self, counts, thresholds + step * near, words)

    patch.setattr(Statistics, "_paid", near_raised)


def _steeper(patch: Patch) -> None:
    """Noise on counts has twice the plan's slope."""
    for module in (predictor, sparse):
        real = paid.paid_questions

        def twice(plan: Any, real: Callable[[Any], PaidQuestions] = real) -> PaidQuestions:
            found = real(plan)
            return dataclasses.replace(found, slope=2.0 * found.slope)

        patch.setattr(module, "paid_questions", twice)


def _slope_of_the_start(patch: Patch) -> None:
    """Values have the noise of the marginals."""
    real = paid.paid_questions

    class Questions(PaidQuestions):
        def _noise(self, words: Any) -> Any:
            return sample("discrete-laplace", _SLOPES[-1], words)

    def paid_questions(plan: Any) -> PaidQuestions:
        found = real(plan)
        if not isinstance(plan.start_slope, float):
            return found
        _SLOPES.append(plan.start_slope)
        return Questions(found.law, found.slope, found.paid, found.threshold_slope)

    patch.setattr(predictor, "paid_questions", paid_questions)


_SLOPES: Final[list[float]] = []


def _one_more_after_restart(patch: Patch) -> None:
    """A state that is restored may be paid for once more."""
    _reopened(patch, lambda plan: msgspec.structs.replace(plan, paid=plan.paid + 1))


def _reopened(patch: Patch, change: Callable[[Any], Any]) -> None:
    """Have the plan changed under which a state is restored."""
    real = TablePredictor.__dict__["_reopened"].__func__

    def reopened(cls: Any, plan: Any, arrays: Any) -> Any:
        return real(cls, change(plan), arrays)

    patch.setattr(TablePredictor, "_reopened", classmethod(reopened))


def _below_as_above(patch: Patch) -> None:
    """Whether there is less is asked with the noise of whether there is more."""
    patch.setattr(predictor, "_BELOW", 0)


def _below_the_other_way(patch: Patch) -> None:
    """What is told of a count that is below has its noise the other way round."""
    real = Statistics._ask

    def ask(self: Statistics, asked: Any) -> Any:
        found = real(self, asked)
        if found is None or found.above:
            return found
        true = int(self._rows.over([mask[found.number : found.number + 1] for mask in asked.masks])[0])
        return dataclasses.replace(found, count=2 * true - found.count)

    patch.setattr(Statistics, "_ask", ask)


def _fitted_to_rows(patch: Patch) -> None:
    """What the hypothesis is fitted to later are the rows' marginals."""
    real = Statistics.begin

    def begin(self: Statistics, cells: Any, *rest: Any) -> None:
        real(self, cells, *rest)
        true = np.concatenate([part.reshape(-1) for part in _true_marginals(self._plan, cells)] or [np.zeros(0, int)])
        self._public._marginals = Marginals(self._plan, true)

    patch.setattr(Statistics, "begin", begin)


def _from_the_rows(patch: Patch, when: Callable[[Statistics, int], bool]) -> None:
    """Some questions are answered with the rows' share."""
    real = Statistics._answered

    def answered(self: Statistics, segment: Segment, events: Any) -> Any:
        true = self._rows.over(self._plan.layout.masks(segment.features)) / self._plan.declared
        chosen = np.array([when(self, question) for question in segment.hashes.tolist()])
        return np.where(chosen, true, real(self, segment, events))

    patch.setattr(Statistics, "_answered", answered)


def _repeats_from_the_rows(patch: Patch) -> None:
    """A question that comes again is answered with the rows' share."""
    _from_the_rows(patch, lambda self, question: self._public.repeats.find(question, 0) is not None)


def _rows_at_the_end(patch: Patch) -> None:
    """Behind the last paid answer the rows answer."""
    _from_the_rows(patch, lambda self, _question: self.paid >= self._plan.paid)


def _verified_by_rows(patch: Patch) -> None:
    """An answer is verified if it is near the rows' share."""
    real = Statistics._answered

    def answered(self: Statistics, segment: Segment, events: Any) -> Any:
        values = real(self, segment, events)
        true = self._rows.over(self._plan.layout.masks(segment.features)) / self._plan.declared
        paid, verified = self._told[-1]
        self._told[-1] = (paid, verified & (np.abs(values - true) < 0.05))
        return values

    patch.setattr(Statistics, "_answered", answered)


def _another_noise_after_restart(patch: Patch) -> None:
    """A restored state asks with other noise."""
    real, restored = Addresses.words, [0]

    def again(plan: Any) -> Any:
        restored[0] += 1
        return plan

    _reopened(patch, again)

    def words(self: Addresses, purpose: Purpose, rounds: Any, sides: Any, hashes: Any) -> Any:
        return real(self, purpose, rounds, sides, None if hashes is None else hashes + np.uint64(restored[0]))

    patch.setattr(Addresses, "words", words)


def _sure_thresholds(patch: Patch) -> None:
    """Thresholds of one-sided noise have none."""
    for module in (predictor, sparse):
        patch.setattr(module, "threshold_offset", lambda _questions, _addresses: 0)


MUTANTS_OF_TABLES: Final[dict[str, Callable[[Patch], None]]] = {
    "a value told with a free answer": _released_free,
    "noise of the question alone": _of_the_question_alone,
    "K counted from nothing after a restart": _uncounted,
    "a hypothesis of true counts": _true_count,
    "marginals without noise": _bare_marginals,
    "a row counted twice": _counted_twice,
    "one marginal without noise": _one_bare_marginal,
    "one draw for all marginals": _one_draw_for_marginals,
    "thresholds that follow the rows": _following_thresholds,
    "noise of twice the slope": _steeper,
    "values with the noise of marginals": _slope_of_the_start,
    "K one more after a restart": _one_more_after_restart,
    "one draw above and below": _below_as_above,
    "noise the other way round": _below_the_other_way,
    "a hypothesis fitted to true marginals": _fitted_to_rows,
    "repeats answered from the rows": _repeats_from_the_rows,
    "rows answer when K is spent": _rows_at_the_end,
    "verified by the rows": _verified_by_rows,
    "another noise after a restart": _another_noise_after_restart,
    "one-sided thresholds without noise": _sure_thresholds,
}
"""What breaks it, by name."""
