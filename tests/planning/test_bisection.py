import math
from fractions import Fraction

import msgspec
import pytest

from oracle.accounting.accountant import delta_at
from oracle.accounting.events import ThresholdBitsEvent
from oracle.errors import InputError, PlanError
from oracle.mechanisms.noise.laws import named_law
from oracle.planning.bisection.bound import average_error_bound, critical_count, final_side, probability_near
from oracle.planning.bisection.model import BisectionModel, BisectionPlan
from oracle.planning.bisection.tight import row_event
from oracle.planning.model import Feature
from oracle.planning.model_file import parse_model
from oracle.planning.planner import as_paper, plan_model, plan_sufficient, verify_plan
from oracle.planning.sharding import plan_shards


def _model(**changes):
    table = {
        "name": "mix",
        "predictor": "bisection",
        "epsilon": 1.0,
        "alpha": 0.05,
        "examples": 20_000,
        "rounds": 100_000,
        "features": [{"name": name} for name in "abc"],
        **changes,
    }
    model = parse_model({"model": {name: value for name, value in table.items() if value is not None}})
    assert isinstance(model, BisectionModel)
    return model


def _plan(**changes) -> BisectionPlan:
    plan = plan_model(_model(**changes))
    assert isinstance(plan, BisectionPlan)
    return plan


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("profile", ["efficient", "paper"])
def test_plans_hold(noise, profile):
    """The accountant proves a row's delta at the plan's epsilon, and a hundredth less noise would not do."""
    rounds, examples = (1_000_000, 200_000) if profile == "paper" else (100_000, 20_000)
    plan = _plan(noise=noise, profile=profile, alpha=0.4, rounds=rounds, examples=examples)
    verify_plan(plan)
    event = row_event(plan)
    assert (event.bits, event.shift, event.dimension) == (rounds, 1.0 / examples, 3)
    assert delta_at(event, 1.0) <= plan.phases[0].delta
    less = msgspec.structs.replace(plan, scale=0.99 * plan.scale)
    assert delta_at(row_event(less), 1.0) > plan.phases[0].delta
    with pytest.raises(PlanError, match=r"plan.phases\[0\].delta"):
        verify_plan(less)
    assert plan.declared * plan.phases[0].delta <= plan.delta
    assert plan.phases[1].delta == 0.0
    assert plan.delta_spent(1, 5) == plan.delta_spent(2, 10**6) == examples * plan.phases[0].delta


def test_tampered_plans_are_refused():
    """More delta a row, a phase that costs, or an alpha that does not hold."""
    plan = _plan()
    first, second = plan.phases
    for changes, field in (
        ({"phases": (msgspec.structs.replace(first, delta=2.0 * first.delta), second)}, "plan.delta"),
        ({"phases": (first, msgspec.structs.replace(second, delta=1e-9))}, "plan.phases"),
        ({"phases": (first,)}, "plan.phases"),
        ({"alpha": 0.001}, "plan.alpha"),
        ({"epsilon": 0.5}, "plan.phases"),
    ):
        with pytest.raises(PlanError, match=field):
            verify_plan(msgspec.structs.replace(plan, **changes))


def test_all_rows_deltas_sum_to_delta_in_fractions():
    """Whatever the number of rows: a float's product may be the declared delta where the sum is more."""
    for examples, delta in ((20_000, 1e-6), (20_007, 1e-6), (50_021, 1e-3), (123_457, 1e-6), (99_991, 1e-7)):
        plan = _plan(examples=examples, delta=delta)
        assert 0.999 < Fraction(plan.phases[0].delta) * plan.declared / Fraction(delta) <= 1


def test_an_error_that_does_not_follow_is_refused():
    """Nor is there one over directions that are none, or that are not at right angles and of length 1."""
    plan = _plan(alpha=0.2)
    verify_plan(_plan(alpha=0.2, directions=2, warmup=50))
    axes = plan.basis
    for changes, field in (
        ({"expected_error": 0.99 * plan.expected_error}, r"expected_error = .*: it is"),
        ({"basis": (*axes[:2], (0.0, 0.0, 2.0))}, "basis: has 3 vectors; must be 3 orthonormal"),
        ({"basis": (*axes[:2], axes[1])}, "basis: has 3"),
        ({"basis": (*axes[:2], (0.0, 1.0))}, "basis: has 3"),
        ({"basis": axes[:2]}, "basis: has 2"),
        ({"warmup": 50}, "basis: has 3 vectors; must be .* none beside warmup"),
        ({"directions": 0}, "directions = 0: must be from 1 to 3"),
        ({"directions": 2, "basis": (), "warmup": 100_000}, "warmup = 100000: must be from 0 to below"),
    ):
        with pytest.raises(PlanError, match=rf"plan\.{field}"):
            verify_plan(msgspec.structs.replace(plan, **changes))


def test_the_least_number_of_examples_is_found():
    """Just enough meets alpha, one less does not; too few declared are refused with a number that is enough."""
    least = plan_sufficient(_model(examples=1, alpha=0.02)).declared
    assert _plan(examples=least, alpha=0.02).expected_error <= 0.02
    with pytest.raises(PlanError, match=f"{least:,} would be enough"):
        plan_model(_model(examples=least - 1, alpha=0.02))


def test_no_number_of_examples_is_enough_for_too_few_rounds():
    """Where even without noise the rounds are over before anything is learned."""
    with pytest.raises(PlanError, match=r"model\.alpha = 0\.01: no number of examples is enough for rounds = 100"):
        plan_sufficient(_model(rounds=100, alpha=0.01))


def test_shards_learn_from_their_part():
    """Each shard's noise is that of its own rows and its share of delta."""
    whole, part = _plan(), plan_shards(_model(), 4)
    assert isinstance(part, BisectionPlan)
    assert part.declared == 5_000
    assert part.scale > 3.9 * whole.scale
    assert 4 * part.delta_spent(1, 0) <= whole.delta


def test_the_paper_wants_more():
    """The same promises under Algorithms 1 and 2 as written, by the theorem's bound."""
    model = _model(rounds=10_000_000, alpha=0.05)
    paper = as_paper(model)
    assert paper is not None
    assert (
        plan_sufficient(msgspec.structs.replace(paper, examples=1)).declared
        > 10 * plan_sufficient(msgspec.structs.replace(model, examples=1)).declared
    )


def test_the_basis_is_normalised():
    """Orthogonal vectors of any length; without them the features' axes."""
    plan = _plan(basis=[[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]])
    assert plan.basis == ((0.6, 0.8, 0.0), (0.0, 0.0, 1.0))
    assert plan.directions == 2
    huge = 2.0**1023
    extreme = _plan(basis=[[3.0 * 2.0**1020, 2.0**1022, 0.0], [0.0, 0.0, 5e-324]])
    assert extreme.basis == ((0.6, 0.8, 0.0), (0.0, 0.0, 1.0))
    first, second = _plan(basis=[[huge, huge, 0.0], [1e-320, -1e-320, 0.0]]).basis
    assert first == pytest.approx((0.5**0.5, 0.5**0.5, 0.0))
    assert second == pytest.approx((0.5**0.5, -(0.5**0.5), 0.0))
    assert _plan().basis == ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    found = _plan(directions=2, warmup=100)
    assert (found.basis, found.directions, found.warmup) == ((), 2, 100)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": None}, "model.rounds is not set: must be set"),
        ({"rounds": 1}, "model.rounds = 1: must be from 2 to"),
        ({"noise": "uniform"}, "model.noise = 'uniform': must be one of laplace, gaussian"),
        ({"gamma": 0.5}, "model.gamma = 0.5: must be 1"),
        ({"examples": 2**33}, "model.examples = 8589934592: must be from 1 to 4294967296"),
        ({"features": [{"name": "a", "bounds": [0.0, 2.0]}]}, r"model.features\[0\].bounds = \[0.0, 2.0\]: must be"),
        ({"directions": 2}, "model.warmup is not set: must be from directions"),
        ({"warmup": 9}, "model.directions is not set: must be from 1 to 3"),
        ({"directions": 4, "warmup": 9}, "model.directions = 4: must be from 1 to 3"),
        ({"directions": 2, "warmup": 100_000}, "model.warmup = 100000"),
        ({"directions": 2, "warmup": 9, "basis": [[1.0, 0.0, 0.0]]}, "cannot be set beside directions"),
        ({"basis": []}, "model.basis = 0: must be 1 to 32 vectors"),
        ({"basis": [[1.0, 0.0]]}, r"model.basis\[0\]: must be 3 finite numbers"),
        ({"basis": [[0.0, 0.0, 0.0]]}, r"model.basis\[0\]: must be 3 finite numbers"),
        ({"basis": [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]}, r"model.basis\[1\]: must be orthogonal to basis\[0\]"),
        ({"basis": [[1e200, 0.0, 0.0], [1e200, 1.0, 0.0]]}, r"model.basis\[1\]: must be orthogonal"),
        ({"basis": [[1e-200, 0.0, 0.0], [1e-200, 1e-201, 0.0]]}, r"model.basis\[1\]: must be orthogonal"),
        ({"basis": [[math.nan, 1.0, 0.0]]}, r"model.basis\[0\]: must be 3 finite numbers"),
        ({"basis": [[math.inf, 1.0, 0.0]]}, r"model.basis\[0\]: must be 3 finite numbers"),
        ({"features": [{"name": f"x{i}"} for i in range(33)]}, "model.basis is not set: must be set for more than 32"),
        (
            {"features": [{"name": f"x{i}"} for i in range(65)], "directions": 2, "warmup": 9},
            "model.features = 65: must be at most 64 beside warmup",
        ),
    ],
)
def test_bad_models_are_refused(changes, message):
    """Each with the field and the bound."""
    with pytest.raises(InputError, match=message):
        _model(**changes)


def test_bounds_may_be_said():
    """A feature's bounds are 0 and 1, said or not."""
    assert _model(features=[{"name": "a", "bounds": [0.0, 1.0]}]).features == (Feature(name="a", bounds=(0.0, 1.0)),)


def test_sizes_are_the_papers():
    """N_crit, Delta p and the final side, for Laplace noise in closed form."""
    law = named_law("laplace", 0.5)
    near = probability_near(law, 2.0, 4)
    assert near == pytest.approx(1.0 - math.exp(-2.0 / (8 * 4) / 0.5))
    assert critical_count(law, 2.0, 4, 1000) == pytest.approx(30.0 * math.log(1000) / near**2)
    assert final_side(10_000, 4) == pytest.approx(math.log(10_000) / 200.0)


def test_the_bound_falls_with_the_rounds():
    """As 1/sqrt(T) but for ln T once all phases fit, linear in 1/p^2; without any query in a cone it is the start's."""
    law = named_law("laplace", 1.0)
    bounds = [average_error_bound(law, 2, 4, 10**power, 0.5) for power in range(4, 16)]
    assert bounds == sorted(bounds, reverse=True)
    assert math.log(bounds[-1] / bounds[-4]) / math.log(1000.0) == pytest.approx(-0.5, abs=0.1)
    assert average_error_bound(law, 2, 4, 10**6, 0.0) == pytest.approx(4.0 * math.sqrt(8.0))
    assert average_error_bound(law, 2, 4, 10**6, 0.1) > average_error_bound(law, 2, 4, 10**6, 0.5)


def test_one_coordinate_is_another_record():
    """A change of one coordinate of w* by 1 moves a query's answer by 1/D at most, in the noise's units."""
    plan = _plan(examples=3_000)
    row = row_event(plan)
    one = ThresholdBitsEvent(row.law, row.scale, 1.0 / 3.0, row.bits, row.dimension)
    assert delta_at(one, 1.0) == 1.0
    assert delta_at(row, 1.0) < 1e-6
