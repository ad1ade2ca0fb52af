"""Plans that pay for true labels: what they cost, and what both accountants refuse."""

import msgspec
import pytest

from oracle.accounting.accountant import delta_at
from oracle.accounting.events import Composed, EitherOf, StopperEvent, TruthEvent
from oracle.audit.due.boxes import box_dues
from oracle.audit.due.parts import truth_dues
from oracle.cli.plan.page import truth_rows
from oracle.errors import InputError, PlanError
from oracle.planning.kinds import decode_plan
from oracle.planning.model_file import parse_model
from oracle.planning.plan import truth_of
from oracle.planning.planner import as_classical, as_paper, plan_model, plan_sufficient, quick_examples, verify_plan
from tests.predictors.plans import planned

_TABLE = {
    "name": "interval",
    "predictor": "rectangles",
    "epsilon": 8.0,
    "alpha": 0.4,
    "examples": 6000,
    "first_share": 0.5,
    "features": [{"name": "a", "bounds": [0.0, 1.0]}],
}


def _model(**changes):
    table = {**_TABLE, "truth": {"epsilon": 0.5}, **changes}
    return parse_model({"model": {key: value for key, value in table.items() if value is not None}})


@pytest.fixture(scope="module")
def plan():
    """The plan of boxes whose queries pay half a nat for their labels."""
    return plan_model(_model())


def _with(plan, **changes):
    return msgspec.structs.replace(plan, truth=msgspec.structs.replace(plan.truth, **changes))


def test_a_query_pays_for_its_label_within_epsilon(plan):
    """Answers are planned for what is left; the plan is read back as it is, and passes both accountants."""
    without = plan_model(parse_model({"model": {**_TABLE, "epsilon": 7.5 * (1 - 1e-9)}}))
    assert plan.phases == without.phases
    assert plan.epsilon == 8.0
    verify_plan(plan)
    again = decode_plan(plan.encode())
    assert again == plan
    assert truth_of(again) == _model().truth
    assert all(due.holds for due in truth_dues(plan))


def test_what_plan_says_of_it(plan):
    """What it costs, what noise does, and when."""
    said = " ".join(text for _, text in truth_rows(plan))
    assert "a query pays 0.5 of epsilon for them: right and wrong answers, each within 7" in said
    assert "counted for each 10,000 rounds, 10,000 rounds later (`perpetua truth`)" in said
    assert list(truth_rows(planned())) == []


def test_plans_without_labels_are_as_they_were():
    """Nothing of it stands in their canonical JSON."""
    assert b"truth" not in planned().encode()
    assert truth_of(planned()) is None
    assert list(truth_dues(planned())) == []


@pytest.mark.parametrize("change", [{"epsilon": 0.51}, {"epsilon": 8.0}, {"epsilon": 0.0}, {"rounds": 0}, {"lag": -1}])
def test_the_accountant_refuses_a_plan_that_pays_too_little(plan, change):
    """Noise that costs more than was left for it, none at all, or periods that are none."""
    with pytest.raises(PlanError):
        verify_plan(_with(plan, **change))


def test_the_accountant_refuses_an_epsilon_that_leaves_too_little(plan):
    """As stated for all that a query pays."""
    with pytest.raises(PlanError, match=r"must be above 0, and at most|the accountant proves"):
        verify_plan(msgspec.structs.replace(plan, epsilon=7.99))


def test_the_second_accountant_refuses_it_too(plan):
    """Each by its own mathematics."""
    dear = _with(plan, epsilon=4.0)
    short = msgspec.structs.replace(dear, phases=dear.phases[:1])
    assert {due.where for due in box_dues(short) if not due.holds and not due.promise} >= {"phases[0].rearmed"}
    assert not all(due.holds for due in truth_dues(_with(plan, epsilon=8.0)))


def test_a_label_is_basic_composition():
    """Whatever a query's own answer decided."""
    event = EitherOf((StopperEvent(0.5), StopperEvent(0.25)))
    assert delta_at(TruthEvent(0.5), 0.49) == 1.0
    assert delta_at(Composed((event, TruthEvent(0.5))), 1.0 + 1e-9) == 0.0
    assert delta_at(Composed((event, TruthEvent(0.5))), 0.99) == 1.0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"truth": {"epsilon": 7.99}}, r"model.truth.epsilon = 7.99: must leave 0.05 of epsilon = 8 for answers"),
        ({"truth": {"epsilon": 50}}, r"model.truth.epsilon = 50: must be from 0.01 to 10"),
        ({"truth": {"epsilon": 1.0, "rounds": 0}}, r"model.truth.rounds = 0: must be from 1 to 1,?000,?000"),
        ({"truth": {}}, "model.truth.epsilon is not set: must be set"),
        ({"profile": "paper", "first_share": None}, 'model.truth: cannot be set for profile = "paper"'),
        ({"predictor": "classical", "first_share": None}, "it is for predictor rectangles and stumps and ensemble"),
        ({"predictor": "bisection", "first_share": None}, "it is for predictor rectangles and stumps and ensemble"),
    ],
)
def test_models_that_cannot_have_it_are_refused(changes, says):
    """By the name of what is wrong."""
    with pytest.raises(InputError, match=says):
        _model(**changes)


def test_other_profiles_and_learners_are_compared_without_it():
    """They have no such counts; and a quick size is of what is left for answers."""
    model = _model()
    paper, classical = as_paper(model), as_classical(model)
    assert paper is not None
    assert getattr(paper, "truth", 0) is None
    assert classical is not None
    assert plan_sufficient(msgspec.structs.replace(paper, examples=1)).epsilon == 8.0
    assert quick_examples(model) > quick_examples(msgspec.structs.replace(model, truth=None))


@pytest.mark.parametrize(
    "changes",
    [
        {"predictor": "stumps"},
        {
            "predictor": "ensemble",
            "learner": "sklearn.tree.DecisionTreeClassifier",
            "features": [{"name": "a"}],
            "alpha": 0.05,
            "first_share": None,
        },
    ],
)
def test_other_predictors_that_protect_queries_pay_for_it_too(changes):
    """Their plans are verified; of an epsilon that leaves less they are refused."""
    plan = plan_sufficient(_model(**changes))
    verify_plan(plan)
    assert plan.epsilon == 8.0
    with pytest.raises(PlanError):
        verify_plan(_with(plan, epsilon=1.0))
