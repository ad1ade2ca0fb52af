"""The tables of kinds go together, and each kind passes its suites."""

import pytest

from oracle.cli.plan.command import PAGES
from oracle.errors import PlanError
from oracle.planning.kinds import KINDS, decode_plan
from oracle.planning.questions import QuestionPlan
from oracle.predictors.kinds import PREDICTORS
from tests.predictors import test_bisection, test_classical, test_paper, test_rectangles, test_stumps
from tests.predictors.distribution import test_suites as test_distributions
from tests.predictors.ensemble import test_ensemble
from tests.predictors.examples import EXAMPLES, example
from tests.predictors.statistics import test_suites
from tests.predictors.suite import PredictorSuite

_SUITES = (
    test_rectangles,
    test_paper,
    test_stumps,
    test_bisection,
    test_classical,
    test_suites,
    test_distributions,
    test_ensemble,
)

_COMMON = {
    "version",
    "name",
    "predictor",
    "profile",
    "features",
    "epsilon",
    "delta",
    "alpha",
    "beta",
    "gamma",
    "examples",
    "declared",
    "limits",
    "phases",
    "memory_bytes",
}


def test_every_kind_is_in_every_table():
    """What can be declared can be planned, shown, trained and restored, and is tested."""
    assert set(KINDS) == set(PREDICTORS) == set(PAGES) == set(EXAMPLES)


def test_every_kind_has_a_suite():
    """Some test class inherits the predictors' suite for it."""
    suites = [
        value
        for module in _SUITES
        for name, value in vars(module).items()
        if name.startswith("Test") and issubclass(value, PredictorSuite)
    ]
    assert {suite().plan().predictor for suite in suites} == set(KINDS)


@pytest.mark.parametrize("predictor", KINDS)
def test_plans_have_what_everybody_asks(predictor):
    """Each plan class declares the shared fields itself; a plan reads back as its own class, to the same bytes."""
    plan = example(predictor)
    assert set(type(plan).__struct_fields__) >= _COMMON
    assert type(plan) is KINDS[predictor].plan
    assert plan.predictor == predictor
    assert decode_plan(plan.encode()) == plan
    if isinstance(plan, QuestionPlan):  # of each row, not of all of them together
        assert {plan.delta_spent(1, rounds) for rounds in (0, 7)} == {plan.phases[0].delta} == {plan.delta}
        return
    assert plan.delta_spent(1, 0) == plan.declared * plan.phases[0].delta
    before, last = plan.phases[:-1], plan.phases[-1]
    queries = sum(phase.rounds * phase.delta for phase in before) + 7 * last.delta
    assert plan.delta_spent(len(plan.phases), 7) == pytest.approx(
        plan.declared * plan.phases[0].delta + (queries if plan.protects_queries else 0.0)
    )


def test_plans_of_unknown_predictors_are_refused():
    """A plan of a later Perpetua is named, not guessed at."""
    data = example("rectangles").encode().replace(b'"rectangles"', b'"oracles"')
    with pytest.raises(
        PlanError, match=r"plan: predictor = 'oracles': this Perpetua knows rectangles, stumps, classical, bisection"
    ):
        decode_plan(data)
