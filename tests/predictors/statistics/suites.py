"""The suite over plans of public questions, and of those about a table."""

from abc import abstractmethod
from typing import Any

import numpy as np

from oracle.accounting.ledger import AnswerPaid
from oracle.planning.questions import QuestionPlan
from oracle.planning.statistics.model import TablePlan
from tests.predictors.suite import SECRET, Calls, Features, PredictorSuite, Present, answer_in_batches, train
from tests.predictors.tables import any_questions, drawn_questions, random_rows


class QuestionSuite(PredictorSuite):
    """The suite over a plan of public questions: numbers, one phase, nothing that is armed, and paid answers."""

    @abstractmethod
    def plan(self) -> QuestionPlan:
        """Return the plan."""

    @abstractmethod
    def rows(self, seed: int) -> Features:
        """Return as many rows as the plan declares."""

    def train(self, secret: bytes = SECRET, seed: int = 1) -> Any:
        """Return a predictor of some rows."""
        rows = self.rows(seed)
        return train(self.plan(), rows, np.ones(len(rows), dtype=np.bool_), secret)

    def test_work_does_not_depend_on_labels(self):
        """Questions are not protected, but the rows are: calls tell nothing of them before the first paid answer."""
        features, present = self.stream(100)
        rows = self.rows(1)
        there = np.ones(len(rows), dtype=np.bool_)
        fewer = there.copy()
        fewer[7] = False
        longest = 0
        for secret in range(12):
            key = bytes([secret] * 32)
            free = min(self._free(left, key) for left in (there, fewer))
            works = []
            for left in (there, fewer):
                predictor = train(self.plan(), rows, left, key)
                with Calls() as calls:
                    predictor.answer(features[:free], present[:free])
                works.append(calls.made)
            assert works[0] == works[1]
            longest = max(longest, free)
        assert longest > 1

    def _free(self, there: Present, secret: bytes) -> int:
        """Return how many rounds come before the first paid answer."""
        predictor = train(self.plan(), self.rows(1), there, secret)
        answers = predictor.answer(*self.stream(100))
        return min((event.round for event in answers.events if isinstance(event, AnswerPaid)), default=100)

    def test_paid_answers_are_counted_once(self):
        """Events count up to K and no further, in the order of rounds, wherever batches are cut or a state restored."""
        features, present = self.whole()
        for cuts in ((), range(1, len(features), 7)):
            run = answer_in_batches(self.train(), features, present, cuts)
            paid = [event for event in run.events if isinstance(event, AnswerPaid)]
            assert [event.paid for event in paid] == list(range(1, len(paid) + 1))
            assert 3 < len(paid) <= self.plan().paid
            assert sorted(event.round for event in paid) == [event.round for event in paid]
            assert all(present[event.round] for event in paid)

    def test_every_answer_says_what_was_paid(self):
        """`Answers.paid` of a round is how many events there were up to it."""
        features, present = self.whole()
        answers = self.train().answer(features, present)
        rounds = [event.round for event in answers.events if isinstance(event, AnswerPaid)]
        assert answers.paid is not None
        counted = np.searchsorted(rounds, np.arange(len(features)), side="right")
        assert answers.paid[present].tolist() == counted[present].tolist()


class TableSuite(QuestionSuite):
    """The suite over a plan about a table."""

    @abstractmethod
    def plan(self) -> TablePlan:
        """Return the plan."""

    def rows(self, seed: int) -> Features:
        """Return some table."""
        return random_rows(self.plan(), 1000 + seed)[0]

    def stream(self, rounds: int, seed: int = 1) -> tuple[Features, Present]:
        """Return questions, some of which are repeated, some rounds without one."""
        return drawn_questions(self.plan(), rounds, 10 + seed)

    def outside(self, rows: int) -> Features:
        """Return different questions."""
        return any_questions(self.plan(), rows, np.random.default_rng(999))
