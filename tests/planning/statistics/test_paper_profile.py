import math

import msgspec
import pytest

from oracle.errors import InputError, PlanError
from oracle.planning.planner import as_paper, plan_sufficient, verify_plan
from oracle.planning.promise import promise_of
from oracle.planning.statistics.model import NumericSparsePlan, StatisticsPlan
from tests.planning.statistics.conftest import ONE_SCALE, TablePlanner, table_model


def _paper(**changes: object) -> StatisticsPlan:
    model = as_paper(table_model(attributes=ONE_SCALE, **changes))
    assert model is not None
    plan = plan_sufficient(model)
    assert isinstance(plan, StatisticsPlan)
    return plan


def test_the_lectures_rows(table_plan: TablePlanner):
    """10.4 million for |X| = 1,024, as the corrected constants say, and some 190 times fewer by ours."""
    plan = _paper()
    assert 1.03e7 < plan.examples == plan.declared < 1.05e7
    assert 24_950 <= plan.paid <= 24_960
    assert 180 < plan.examples / table_plan(attributes=ONE_SCALE).examples < 200
    verify_plan(plan)


def test_what_is_paid_stays_below_the_lectures_epsilon():
    """Dwork and Roth's split: threshold and comparisons, and values, each by advanced composition of c answers."""
    plan = _paper(epsilon=2.0)
    sizes = plan.paper
    assert isinstance(sizes, NumericSparsePlan)
    spread = math.sqrt(32.0 * plan.paid * math.log(2.0 / plan.delta))
    first, second = sizes.threshold_slope * spread, sizes.value_slope * spread
    assert first == pytest.approx(2.0 * math.sqrt(512.0) / (math.sqrt(512.0) + 1.0))
    assert second == pytest.approx(2.0 * 2.0 / (math.sqrt(512.0) + 1.0))
    assert first + second / 2.0 == pytest.approx(plan.epsilon)
    assert sizes.slope == sizes.threshold_slope / 2.0
    assert sizes.threshold == pytest.approx(0.2 / 3.0)
    assert sizes.rate == pytest.approx(0.1 / 6.0)
    assert plan.paid >= 4.0 * math.log(plan.layout.size) / (0.1 / 3.0) ** 2


def test_more_rows_keep_the_threshold_and_the_noise():
    """The lecture has no use for them; one fewer than needed is refused."""
    least = _paper()
    more = _paper(examples=2 * least.examples)
    assert (more.examples, more.declared, more.paper) == (least.examples, 2 * least.examples, least.paper)
    verify_plan(more)
    with pytest.raises(PlanError, match=r"plan\.examples"):
        verify_plan(msgspec.structs.replace(least, declared=least.declared - 1, examples=least.examples - 1))


@pytest.mark.parametrize("field", ["paid", "gap", "margin", "examples"])
def test_tampered_plans_are_refused(field):
    """The lecture's constants are what they are."""
    plan = _paper()
    value = getattr(plan, field)
    changed = msgspec.structs.replace(plan, **{field: value * 0.9 if isinstance(value, float) else value - 1})
    with pytest.raises(PlanError, match=rf"plan\.{field}"):
        verify_plan(changed)


@pytest.mark.parametrize("changes", [{"start": ((0,),)}, {"start_slope": 0.1}, {"gamma": 0.5}, {"questions": 0}])
def test_what_it_does_not_have_is_refused(changes):
    """It starts uniform, and is promised to whoever asks."""
    with pytest.raises(PlanError, match="|".join({"start", "rounds", *changes})):
        verify_plan(msgspec.structs.replace(_paper(), **changes))


def test_it_is_nominal():
    """And says so; a number of paid answers cannot be declared beside it."""
    plan = _paper()
    assert plan.nominal
    assert promise_of(plan).kind == "nominal"
    with pytest.raises(InputError, match=r"model\.paid = 3: must be left out for profile"):
        table_model(profile="paper", paid=3)
