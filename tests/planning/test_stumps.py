"""Plans of stumps: what is proved of them, what they need, and what their model files may say."""

import functools
import math

import msgspec
import pytest

from oracle.accounting.accountant import delta_at
from oracle.accounting.events import BetweenThresholdsEvent, ChoiceEvent, Composed
from oracle.errors import InputError, PlanError
from oracle.planning.guarantees import query_guarantee, training_event
from oracle.planning.kinds import decode_plan
from oracle.planning.model import Feature
from oracle.planning.model_file import parse_model
from oracle.planning.planner import plan_model, plan_sufficient, verify_plan
from oracle.planning.stumps.model import StumpsModel, StumpsPlan
from oracle.planning.stumps.tight import selection_error


def model(features: int = 14, **others: object) -> StumpsModel:
    """Return a model of features that may be cut either way."""
    names = tuple(Feature(name=f"x{number}") for number in range(features))
    fields = {"name": "m", "predictor": "stumps", "epsilon": 4.0, "examples": 1, "features": names}
    return StumpsModel(**(fields | others))  # type: ignore[arg-type]


@functools.cache
def planned(epsilon: float = 4.0) -> StumpsPlan:
    """Return a plan for just enough examples."""
    plan = plan_sufficient(model(epsilon=epsilon))
    assert isinstance(plan, StumpsPlan)
    return plan


@pytest.mark.slow
def test_parts_of_epsilon_add_up():
    """A training record pays for choice, cut and instance, no more than epsilon in all; a query as under any plan."""
    plan = planned()
    first = plan.phases[0].start
    parts = (plan.selection.epsilon, plan.selection.cut_epsilon, first.epsilon)
    assert math.fsum(parts) == pytest.approx(plan.epsilon, rel=1e-12)
    assert math.fsum(parts) <= plan.epsilon * (1.0 + 1e-12)
    assert plan.phases[1].start.epsilon == plan.epsilon
    assert plan.phases[0].rearmed.epsilon == pytest.approx(plan.epsilon - plan.phases[0].stopper.epsilon)
    event = training_event(plan)
    assert isinstance(event, Composed)
    choices = [part for part in event.events if isinstance(part, ChoiceEvent)]
    assert [(choice.scale, choice.spread) for choice in choices] == [
        (plan.selection.epsilon, 1),
        (plan.selection.cut_epsilon / 2.0, 2),
    ]


def test_deltas_are_what_the_accountant_proves():
    """For both kinds of record, in every phase; the sum over all records stays below the declared delta."""
    plan = planned()
    verify_plan(plan)
    for index, phase in enumerate(plan.phases):
        assert query_guarantee(plan, index).delta <= phase.delta
    assert delta_at(training_event(plan), plan.epsilon) <= plan.phases[0].delta
    assert delta_at(training_event(plan), plan.epsilon * 0.99) > plan.phases[0].delta
    assert plan.delta_spent(len(plan.phases), plan.phases[-1].rounds) <= plan.delta


@pytest.mark.parametrize(
    ("field", "factor", "message"),
    [
        ("scale", 1.5, r"plan\.selection\.epsilon = .*: the accountant proves"),
        ("cut_scale", 1.01, r"plan\.selection\.cut_epsilon = .*: the accountant proves"),
        ("both", 1.5, r"plan\.phases\[0\]\.delta = .*: the accountant proves"),
    ],
)
def test_a_plan_that_pays_too_little_is_found_out(field, factor, message):
    """A sharper choice or cut than was accounted for, stated or not."""
    plan = planned()
    selection = plan.selection
    changes = {
        name: getattr(selection, name) * factor for name in (["scale", "epsilon"] if field == "both" else [field])
    }
    with pytest.raises(PlanError, match=message):
        verify_plan(msgspec.structs.replace(plan, selection=msgspec.structs.replace(selection, **changes)))


def test_two_choices_and_one_instance_compose():
    """Pure parts take their epsilon off what the instance trades; one that is too dear leaves nothing."""
    between = BetweenThresholdsEvent("logistic", 0.05, 60, 300)
    together = Composed((ChoiceEvent(0.25, 1), ChoiceEvent(0.125, 2), between))
    assert delta_at(together, 4.5) == pytest.approx(delta_at(between, 4.0), rel=1e-9)
    assert delta_at(together, 4.5) >= delta_at(between, 4.0)
    assert delta_at(ChoiceEvent(0.25, 2), 0.5) == 0.0
    assert delta_at(ChoiceEvent(0.25, 2), 0.499) == 1.0
    assert delta_at(Composed((ChoiceEvent(3.0, 2), between)), 4.5) == 1.0


@pytest.mark.slow
def test_target():
    """At alpha = 0.1 and epsilon = 1, fourteen features: at most 250 thousand examples."""
    plan = planned(1.0)
    assert plan.examples <= plan.declared <= 250_000
    assert plan.expected_error <= plan.alpha == 0.1


@pytest.mark.slow
def test_the_number_a_refusal_asks_for_is_enough():
    """The number in the message makes a plan, and the plan comes back from its bytes."""
    few = model(examples=900)
    with pytest.raises(PlanError, match=r"model\.examples = 900: too few .*; [\d,]+ would be enough") as caught:
        plan_model(few)
    sufficient = int(str(caught.value).split("; ")[1].split()[0].replace(",", ""))
    assert sufficient == planned().declared
    plan = plan_model(msgspec.structs.replace(few, examples=sufficient))
    assert decode_plan(plan.encode()) == plan
    assert plan.examples <= sufficient


def test_selection_error_is_the_sum_of_its_bounds():
    """By hand, for one feature either way; it falls with n and with each epsilon."""
    made = model(1, beta=0.08)
    log = math.log
    by_hand = (
        log(2 / 0.01) / 0.1 / 10_000
        + 2 * log(10_001 / 0.01) / 0.2 / 10_000
        + 2 * math.sqrt(log(4 / 0.01) / 20_000)
        + math.sqrt(log(1 / 0.01) / 20_000)
    )
    assert selection_error(made, (0.1, 0.2), 10_000) == pytest.approx(by_hand, rel=1e-12)


def test_paper_has_quarters():
    """Algorithm 7: eps/4 for choice, count and RectanglesPERP, half of delta, alpha and beta for the latter."""
    plan = plan_sufficient(model(profile="paper"))
    assert isinstance(plan, StumpsPlan)
    verify_plan(plan)
    assert plan.nominal
    assert (plan.selection.epsilon, plan.selection.cut_epsilon, plan.selection.cut_law) == (1.0, 1.0, "laplace")
    assert (plan.selection.scale, plan.selection.cut_scale) == (0.5, 1.0)
    assert len(plan.sides) == 2
    assert sum(phase.alpha for phase in plan.phases) <= plan.alpha / 2.0
    assert plan.delta_spent(len(plan.phases), plan.phases[-1].rounds) <= plan.delta / 2.0
    assert plan.declared > 1e9
    with pytest.raises(PlanError):
        verify_plan(msgspec.structs.replace(plan, epsilon=plan.epsilon * 2.0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"slicing": "faces"}, "model.slicing: unknown setting"),
        ({"trim": 3}, "model.trim: unknown setting"),
        ({"first_share": 1.0}, "model.first_share = 1.0: must be at least 1e-06 and below 1"),
        ({"first_share": 1e-300}, "model.first_share = 1e-300: must be at least 1e-06 and below 1"),
        ({"first_share": math.nan}, "model.first_share = nan: must be at least 1e-06 and below 1"),
        ({"first_share": 0.5, "profile": "paper"}, "model.first_share = 0.5: cannot be set"),
        ({"profile": "loose"}, "model.profile = 'loose': must be one of tight, paper"),
        ({"features": [{"name": f"x{i}"} for i in range(1025)]}, "model.features = 1025: must be 1 to 1024 features"),
        ({"features": [{"name": "a", "sides": "none"}]}, "at least one feature must have a side"),
        ({"predictor": "trees"}, "model.predictor = 'trees': must be one of rectangles, stumps"),
    ],
)
def test_model_files(settings, message):
    """One line names field, value and bound."""
    table = {"name": "m", "predictor": "stumps", "epsilon": 1.0, "examples": 100, "features": [{"name": "a"}]}
    assert isinstance(parse_model({"model": table}), StumpsModel)
    with pytest.raises(InputError) as caught:
        parse_model({"model": table | settings})
    assert message in str(caught.value)
