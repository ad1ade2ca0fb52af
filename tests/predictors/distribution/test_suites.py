"""Distributions of every type, in both profiles, under the suite of all predictors."""

import numpy as np

from oracle.accounting.ledger import AnswerPaid, PlanEnded
from oracle.planning.distribution.model import DistributionPlan
from oracle.predictors.base import NO_LABEL
from tests.predictors.distribution.values import FEATURES, any_questions, ask, at, draw_values, drawn_questions
from tests.predictors.plans import tiny_distribution_plan
from tests.predictors.statistics.suites import QuestionSuite
from tests.predictors.suite import Calls, Features, Present, Run, train

_ROUNDS = 400


class DistributionSuite(QuestionSuite):
    """Values of one type."""

    kind = "number"

    def plan(self) -> DistributionPlan:
        """Return the plan."""
        return tiny_distribution_plan(_ROUNDS, of=FEATURES[self.kind])

    def rows(self, seed: int) -> Features:
        """Return as many values as the plan declares."""
        return draw_values(self.plan().feature, self.plan().declared, np.random.default_rng(100 + seed))

    def stream(self, rounds: int, seed: int = 1) -> tuple[Features, Present]:
        """Return questions, some of which are repeated, some rounds without one."""
        return drawn_questions(self.plan(), rounds, 10 + seed)

    def outside(self, rows: int) -> Features:
        """Return different questions."""
        return any_questions(self.plan(), rows, np.random.default_rng(999))

    def check_run(self, run: Run) -> None:
        """Assert that there were several numbers, and that some were paid for."""
        assert {NO_LABEL, 0} == set(run.labels)
        assert [value == "nan" for value in run.values] == [label == NO_LABEL for label in run.labels]
        assert len(set(run.values)) > self.plan().paid // 2
        assert sum(isinstance(event, AnswerPaid) for event in run.events) > 2
        assert isinstance(run.events[-1], PlanEnded)

    def test_work_does_not_depend_on_labels(self):
        """Questions are not protected, but rows are: calls tell nothing of one before an answer does."""
        plan, rows = self.plan(), self.rows(1)
        features = at(draw_values(plan.feature, 30, np.random.default_rng(7)))
        there = np.ones(len(rows), dtype=np.bool_)
        fewer = there.copy()
        fewer[7] = False
        ask(self.train(), features)  # noise tables are made once
        longest = 0
        for secret in range(20):
            made, told = [], []
            for left in (there, fewer):
                predictor, calls_of = train(plan, rows, left, bytes([secret] * 32)), []
                for row in features:
                    with Calls() as calls:
                        answer = ask(predictor, row[None])
                    calls_of.append(calls.made)
                    told.append((answer.values.tolist(), answer.paid.tolist()))
                made.append(calls_of)
            alike = next((n for n in range(30) if told[n] != told[30 + n]), 30)
            assert made[0][:alike] == made[1][:alike]
            longest = max(longest, alike)
        assert longest > 5

    def test_quantiles_are_found_in_any_batches(self):
        """What is found, and whether it is verified, does not depend on the batches either."""
        features, present = self.whole()
        whole, parts = self.train().answer(features, present), []
        predictor = self.train()
        for start in range(0, len(features), 13):
            rows = slice(start, start + 13)
            parts.append(predictor.answer(features[rows], present[rows]))
            predictor = self.restore(predictor.export())
        for name in ("found", "verified", "paid"):
            joined = np.concatenate([getattr(part, name) for part in parts])
            assert joined[present].tolist() == getattr(whole, name)[present].tolist()
        shares = present & (features[:, -1] == -1.0)
        assert whole.found is not None
        assert whole.found[shares].tolist() == features[shares, :-1].tolist()


class TestNumbers(DistributionSuite):
    """Numbers."""


class TestDates(DistributionSuite):
    """Dates."""

    kind = "date"


class TestDecimals(DistributionSuite):
    """Decimals."""

    kind = "decimal"


class TestStrings(DistributionSuite):
    """Strings, whose keys are bytes."""

    kind = "string"


class TestPaper(DistributionSuite):
    """The paper's algorithm."""

    def plan(self) -> DistributionPlan:
        """Return the plan."""
        return tiny_distribution_plan(_ROUNDS, profile="paper", alpha=0.25, epsilon=32.0)
