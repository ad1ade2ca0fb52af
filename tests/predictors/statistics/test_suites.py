"""Statistics, in both profiles, and sparse vectors under the suite of all predictors."""

import os
import subprocess
import sys

import msgspec

from oracle.accounting.ledger import AnswerPaid, MarginalsReleased, PlanEnded
from oracle.planning.statistics.model import NumericSparsePlan, SparseVectorPlan, StatisticsPlan
from oracle.predictors.base import NO_LABEL
from tests.predictors.plans import tiny_sparse_plan, tiny_statistics_plan
from tests.predictors.statistics.suites import TableSuite
from tests.predictors.suite import Run

_ROUNDS = 500


class TestStatistics(TableSuite):
    """A start from marginals, and few paid answers, all of which are spent."""

    counting = frozenset({"counters"})

    def plan(self) -> StatisticsPlan:
        """Return the plan."""
        return tiny_statistics_plan(_ROUNDS, paid=12, margins=(5, 15))

    def check_run(self, run: Run) -> None:
        """Assert that there were many numbers, the start was told once, and all was spent."""
        assert {NO_LABEL, 0} == set(run.labels)
        assert len(set(run.values)) > 100
        assert [value == "nan" for value in run.values] == [label == NO_LABEL for label in run.labels]
        assert [isinstance(event, MarginalsReleased) for event in run.events] == [True] + [False] * 13 + [False]
        assert isinstance(run.events[-1], PlanEnded)


class TestCompleteStatistics(TestStatistics):
    """A uniform start, and as many paid answers as can be needed."""

    def plan(self) -> StatisticsPlan:
        """Return the plan."""
        return tiny_statistics_plan(_ROUNDS, paid=None, margins=(150, 200))

    def check_run(self, run: Run) -> None:
        """Assert that there were many numbers, and nothing was told of the start."""
        assert {NO_LABEL, 0} == set(run.labels)
        assert len(set(run.values)) > 100
        assert not any(isinstance(event, MarginalsReleased) for event in run.events)
        assert isinstance(run.events[-1], PlanEnded)


class TestPaperStatistics(TestCompleteStatistics):
    """The lecture's algorithm."""

    def plan(self) -> StatisticsPlan:
        """Return the plan."""
        sizes = NumericSparsePlan(threshold=0.15, threshold_slope=0.4, slope=0.2, value_slope=0.3, rate=0.2)
        return msgspec.structs.replace(
            tiny_statistics_plan(_ROUNDS, paid=12),
            profile="paper",
            noise=msgspec.UNSET,
            start=(),
            start_slope=msgspec.UNSET,
            paper=sizes,
        )


class TestSparseVector(TableSuite):
    """Threshold questions."""

    def plan(self) -> SparseVectorPlan:
        """Return the plan."""
        return tiny_sparse_plan(_ROUNDS, paid=6)

    def check_run(self, run: Run) -> None:
        """Assert that there were both answers, a number beside each "above" only, and that all was spent."""
        assert {NO_LABEL, 0, 1} == set(run.labels)
        assert [value != "nan" for value in run.values] == [label == 1 for label in run.labels]
        assert isinstance(run.events[-1], PlanEnded)
        assert sum(isinstance(event, AnswerPaid) for event in run.events) == self.plan().paid
        assert run.labels.count(1) > self.plan().paid, "some come again"


_THREADS = """
import hashlib
import numpy as np
from tests.predictors.suite import train
from tests.predictors.plans import tiny_statistics_plan
from tests.predictors.tables import any_questions, random_rows
plan = tiny_statistics_plan(4000, paid=None, margins=(200, 260))
predictor = train(plan, *random_rows(plan, 7))
answers = predictor.answer(any_questions(plan, 3000, np.random.default_rng(1)), np.ones(3000, dtype=np.bool_))
state = predictor.export()
print(hashlib.sha256(answers.values.tobytes() + b"".join(state[name].tobytes() for name in sorted(state))).hexdigest())
"""


def test_threads_change_no_bit():
    """With one thread and with eight of whatever multiplies matrices: the same values, and the same state."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    seen = set()
    for threads in ("1", "8"):
        environment = os.environ | dict.fromkeys(names, threads)
        found = subprocess.run(
            [sys.executable, "-c", _THREADS], env=environment, capture_output=True, text=True, check=True
        )
        seen.add(found.stdout)
    assert len(seen) == 1
    assert len(seen.pop()) == 65
