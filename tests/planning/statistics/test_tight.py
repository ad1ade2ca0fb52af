import math
from fractions import Fraction
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from oracle.errors import PlanError
from oracle.planning.attributes import Attribute, Layout
from oracle.planning.kinds import decode_plan
from oracle.planning.planner import plan_model, plan_sufficient, verify_plan
from oracle.planning.statistics.model import StatisticsPlan
from oracle.planning.statistics.noise import windows
from oracle.planning.statistics.tight import divergence, paid_bound
from tests.planning.statistics.conftest import ONE_SCALE, TEN_BITS, TablePlanner, table_model


@pytest.mark.parametrize(("rounds", "least", "most"), [(10_000, 53_000, 54_500), (1_000_000, 68_500, 70_500)])
@pytest.mark.parametrize("attributes", [TEN_BITS, ONE_SCALE])
def test_the_rows_of_a_thousand_cells(table_plan: TablePlanner, attributes, rounds, least, most):
    """57,253 rows by Theorem 17 at 1,024 cells; Theorem 20 takes 6 % off, and undeclared cells add 1 % at most."""
    plan = table_plan(attributes=attributes, rounds=rounds)
    assert least <= plan.declared == plan.examples <= most
    assert plan.complete
    assert plan.paid >= math.log(1024) / (2.0 * plan.gap**2)
    assert decode_plan(plan.encode()) == plan
    verify_plan(plan)


@pytest.mark.parametrize("changes", [{}, {"paid": 200, "alpha": 0.02}, {"predictor": "sparse-vector", "paid": 5}])
def test_the_least_rows_are_the_least(table_plan: TablePlanner, changes):
    """So many are accepted; one less is refused with that number, and its plan does not hold."""
    plan = table_plan(**changes)
    enough = plan_model(table_model(**changes, examples=plan.declared))
    assert enough == plan
    with pytest.raises(PlanError, match=f"{plan.declared:,} would be enough"):
        plan_model(table_model(**changes, examples=plan.declared - 1))
    with pytest.raises(PlanError):
        verify_plan(msgspec.structs.replace(plan, examples=plan.examples - 1, declared=plan.declared - 1))


@pytest.mark.parametrize("factor", [2, 6, 100])
def test_more_rows_are_all_used(table_plan: TablePlanner, factor):
    """Of more rows than needed a wider gap comes, and of that fewer paid answers, and less noise."""
    least = table_plan()
    many = table_plan(examples=factor * least.declared)
    assert (many.declared, many.examples) == (factor * least.declared, least.examples)
    assert many.gap > least.gap
    assert many.paid < least.paid
    assert many.noise.slope > least.noise.slope
    verify_plan(many)


_TAMPERED = (
    ({"epsilon": 0.9}, "phases"),
    ({"delta": 0.9e-6}, "phases"),
    ({"paid": 100}, "paid"),
    ({"paid": 2_000}, "phases"),
    ({"questions": 10**6}, "noise"),
    ({"beta": 0.01}, "noise"),
    ({"alpha": 0.09}, "gap"),
    ({"margin": 5_500}, "margin"),
    ({"first_margin": 4_000}, "margin"),
    ({"gap": 0.05}, "gap"),
    ({"gap": 0.0}, "gap"),
    ({"declared": 50_000, "examples": 50_000}, "gap"),
    ({"examples": 60_000}, "examples"),
    ({"examples": 0}, "examples"),
    ({"noise": UNSET}, "noise"),
    ({"phases": ()}, "phases"),
    ({"start_slope": 0.01}, "start"),
    ({"start_slope": 0.01, "start": ((0, 1),)}, "start"),
    ({"complete": False}, "start"),
)


@pytest.mark.parametrize(("changes", "field"), _TAMPERED)
def test_tampered_plans_are_refused(table_plan: TablePlanner, changes, field):
    """Each figure that is better than what is proved."""
    with pytest.raises(PlanError, match=rf"plan\.{field}"):
        verify_plan(msgspec.structs.replace(table_plan(), **changes))


@pytest.mark.parametrize("changes", [{"slope": 1.01}, {"above": 0.999}, {"below": 0.99}])
@pytest.mark.parametrize("model", [{}, {"paid": 200, "alpha": 0.02}, {"predictor": "sparse-vector", "paid": 100}])
def test_tampered_noise_is_refused(table_plan: TablePlanner, model, changes):
    """A steeper slope than Theorem 20 allows, or a narrower window."""
    plan = table_plan(**model)
    ((field, factor),) = changes.items()
    value = factor * getattr(plan.noise, field)
    noise = msgspec.structs.replace(plan.noise, **{field: value if field == "slope" else math.floor(value)})
    with pytest.raises(PlanError, match=r"plan\.(phases|noise)"):
        verify_plan(msgspec.structs.replace(plan, noise=noise))


@pytest.mark.parametrize("model", [{}, {"paid": 200, "alpha": 0.02}, {"predictor": "sparse-vector", "paid": 2}])
@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("slope", (-0.1, 0.0, 1e-300, 65.0, math.nan, math.inf)),
        ("threshold_slope", (-0.1, 0.0, 65.0, math.nan)),
        ("law", ("logistic", "laplace")),
    ],
)
def test_noise_that_is_none_is_refused(table_plan: TablePlanner, model, field, values):
    """Of a negative slope, which would take its price off the others'; that no table has; or with another law's U."""
    plan = table_plan(**model)
    for value in values:
        noise = msgspec.structs.replace(plan.noise, **{field: value})
        with pytest.raises(PlanError, match=r"plan\.noise\."):
            verify_plan(msgspec.structs.replace(plan, noise=noise))


def test_laws_and_slopes_go_together(table_plan: TablePlanner):
    """One-sided noise needs a slope for thresholds, and Gumbel's has none."""
    for plan in (table_plan(paid=200, alpha=0.02), table_plan(predictor="sparse-vector", paid=2)):
        other = "exponential" if plan.noise.law == "gumbel" else "gumbel"
        with pytest.raises(PlanError, match=r"plan\.noise\.law"):
            verify_plan(msgspec.structs.replace(plan, noise=msgspec.structs.replace(plan.noise, law=other)))


@pytest.mark.parametrize("model", [{}, {"paid": 200, "alpha": 0.02}, {"predictor": "sparse-vector", "paid": 2}])
@pytest.mark.parametrize(
    "changes",
    [
        *({"epsilon": value} for value in (0.0, -1.0, 1e300, math.nan, math.inf)),
        *({"delta": value} for value in (0.0, 2.0, math.nan)),
        *({"alpha": value} for value in (0.0, -0.1, 1e300, math.nan)),
        *({"beta": value} for value in (0.0, -0.05, 1.0, 1e300, math.nan)),
        *({"gamma": value} for value in (0.5, 2.0)),
        *({"questions": value} for value in (0, -1)),
        *({"paid": value} for value in (0, -1, 2**62)),
        *({"attributes": value} for value in ((), 2 * (Attribute(name="a", categories=("x",)),))),
    ],
)
def test_what_no_model_declares_is_refused(table_plan: TablePlanner, model, changes):
    """By name, and as a plan's error: whoever reads a receipt is not left with a traceback."""
    (field,) = changes
    with pytest.raises(PlanError, match={"questions": "rounds"}.get(field, field)):
        verify_plan(msgspec.structs.replace(table_plan(**model), **changes))


@pytest.mark.parametrize("changes", [{"phase": 2}, {"rounds": 0}, {"rounds": -1}, {"rounds": 2**49 + 1}])
def test_other_phases_are_refused(table_plan: TablePlanner, changes):
    """There is one, and it is the first."""
    plan = table_plan()
    with pytest.raises(PlanError, match=r"plan\.phases"):
        verify_plan(msgspec.structs.replace(plan, phases=(msgspec.structs.replace(plan.phases[0], **changes),)))


def test_a_profile_that_there_is_not_is_refused(table_plan: TablePlanner):
    """There is no sparse vector with the lecture's constants."""
    plan = table_plan(predictor="sparse-vector", paid=2)
    with pytest.raises(PlanError, match=r"plan\.profile"):
        verify_plan(decode_plan(msgspec.structs.replace(plan, profile="paper").encode()))


def test_tampered_starts_are_refused(table_plan: TablePlanner):
    """A row pays for the marginals too."""
    plan = table_plan(paid=200, alpha=0.02)
    verify_plan(plan)
    with pytest.raises(PlanError, match=r"plan\.phases"):
        verify_plan(msgspec.structs.replace(plan, start_slope=1.3 * plan.start_slope))
    assert len(plan.start) == 45
    for changes, field in (
        ({"complete": True}, "start"),
        ({"start": ()}, "start"),
        ({"start": ((0, 10),)}, "start"),
        ({"start": (*plan.start, (0, 1), (0, 2), (0, 3), (0, 4))}, "phases"),
        ({"first_margin": plan.noise.above}, "margin"),
        ({"start_slope": -plan.start_slope}, "start_slope"),
        ({"start_slope": 0.0}, "start_slope"),
        ({"start_slope": 1e-7}, "start_slope"),
        ({"start_slope": math.nan}, "start_slope"),
    ):
        with pytest.raises(PlanError, match=rf"plan\.{field}"):
            verify_plan(msgspec.structs.replace(plan, **changes))


def test_one_sided_noise_is_pure(table_plan: TablePlanner):
    """For few paid answers one-sided noise has the smaller window, and its slopes sum to epsilon at most."""
    plan = table_plan(predictor="sparse-vector", paid=2)
    noise = plan.noise
    assert noise.law == "exponential"
    assert 0.99 <= noise.threshold_slope + 4.0 * noise.slope <= 1.0
    for change in ({"slope": 1.02 * noise.slope}, {"threshold_slope": 1.02 * noise.threshold_slope}):
        with pytest.raises(PlanError, match=r"plan\.phases"):
            verify_plan(msgspec.structs.replace(plan, noise=msgspec.structs.replace(noise, **change)))


def test_delta_is_a_rows(table_plan: TablePlanner):
    """It is no sum: neither more rows nor more rounds spend more of it."""
    plan = table_plan(examples=10**6)
    assert plan.phases[0].delta == plan.delta == 1e-6
    assert plan.delta_spent(1, 0) == plan.delta_spent(1, 10**9) == 1e-6
    assert not plan.protects_queries
    assert plan.rounds == 2**49


@settings(max_examples=40, deadline=None)
@given(
    epsilon=st.floats(0.1, 8.0),
    delta=st.sampled_from([1e-12, 1e-6, 1e-3]),
    alpha=st.floats(0.02, 0.4),
    beta=st.floats(1e-6, 0.5),
    rounds=st.integers(1, 10**9),
    paid=st.integers(1, 60),
    predictor=st.sampled_from(["statistics", "sparse-vector"]),
    factor=st.integers(1, 50),
)
def test_any_plan_holds(**drawn):
    """Its figures are made again, and more rows never make anything worse."""
    factor = drawn.pop("factor")
    plan: Any = plan_sufficient(table_model(**drawn))
    verify_plan(plan)
    more: Any = plan_sufficient(table_model(**drawn, examples=factor * plan.declared))
    verify_plan(more)
    assert (more.declared, more.examples) == (factor * plan.declared, plan.declared)
    assert Fraction(more.noise.window, more.declared) <= Fraction(plan.noise.window, plan.declared)
    if isinstance(plan, StatisticsPlan):
        assert more.gap >= plan.gap >= 0.249 * plan.alpha


@settings(max_examples=15, deadline=None)
@given(
    epsilon=st.floats(0.3, 8.0),
    alpha=st.floats(0.15, 0.5),
    cells=st.integers(1, 200),
    rounds=st.integers(1, 10**9),
    factor=st.floats(1.0, 50.0),
)
def test_any_bound_holds(epsilon, alpha, cells, rounds, factor):
    """K is enough for the gap, whatever the rows; more of them ask for no more of it."""
    attributes = [{"name": "v", "bounds": [0.0, 1.0], "bins": cells}]
    model = {"epsilon": epsilon, "alpha": alpha, "attributes": attributes, "rounds": rounds}
    plan = plan_sufficient(table_model(**model))
    verify_plan(plan)
    more = plan_sufficient(table_model(**model, examples=math.ceil(factor * plan.declared)))
    verify_plan(more)
    assert isinstance(more, StatisticsPlan)
    assert isinstance(plan, StatisticsPlan)
    assert more.gap >= plan.gap
    assert more.paid <= plan.paid


@pytest.mark.parametrize("paid", [5, 300])
def test_windows_hold(table_plan: TablePlanner, paid):
    """By the noise's own law no count U below is paid, nor D above is free, but with beta/2 each over M questions."""
    plan = table_plan(predictor="sparse-vector", paid=paid, rounds=50)
    noise, slope = plan.noise, plan.noise.slope
    if noise.law == "gumbel":
        wrongly_paid, wrongly_free = (
            -math.expm1(-math.exp(-slope * noise.above)),
            math.exp(-math.exp(slope * noise.below)),
        )
        assert 50 * wrongly_free <= plan.beta / 2.0
    else:
        wrongly_paid = math.exp(-slope * noise.above)
        assert math.exp(-noise.threshold_slope * noise.below) <= plan.beta / 2.0
    assert 0.9 * plan.beta / 2.0 <= 50 * wrongly_paid <= plan.beta / 2.0
    assert windows(noise, 50, plan.beta) == (noise.above, noise.below)


def test_statistics_err_by_alpha_at_most():
    """For any count and hypothesis: free is within alpha, and paid is further than gamma, in whole numbers."""
    model = {"rounds": 1, "beta": 0.5, "epsilon": 8.0, "alpha": 0.3, "attributes": TEN_BITS[:1]}
    plan: Any = plan_sufficient(table_model(**model))
    rows, above, below = plan.declared, plan.noise.above, plan.noise.below
    assert plan.gap == pytest.approx(plan.alpha - (above + below) / rows)
    for count, share in product(range(rows + 1), np.linspace(0.0, 1.0, 173)):
        exact = Fraction(float(share)) * rows
        thresholds = math.ceil(exact) + plan.margin, plan.margin - math.floor(exact)
        for sign, asked in zip((1, -1), thresholds, strict=True):  # noise is from -D to U - 1
            if sign * count - below < asked:
                assert sign * (count - exact) < Fraction(plan.alpha) * rows
            if sign * count + above - 1 >= asked:
                assert sign * (count - exact) > Fraction(plan.gap) * rows


def test_sparse_vectors_err_by_alpha_at_most(table_plan: TablePlanner):
    """What is further than alpha from its threshold is told right, and what is paid for within alpha."""
    plan = table_plan(predictor="sparse-vector", paid=2)
    rows, noise, alpha = plan.declared, plan.noise, Fraction(plan.alpha)
    for count, share in product(range(rows + 1), np.linspace(0.0, 1.0, 31)):
        asked = math.ceil(Fraction(float(share)) * rows) + plan.shift
        apart = count - Fraction(float(share)) * rows
        assert apart < alpha * rows or count - noise.below >= asked
        assert apart > -alpha * rows or count + noise.above - 1 < asked
    for drawn in range(-noise.below, noise.above):
        assert abs(drawn - plan.shift) <= alpha * rows


def test_the_divergence_bounds_any_rows():
    """Of rows anywhere, a hundredth of them undeclared, from the start that is made of declared cells."""
    attributes = [Attribute(name="a", categories=("x", "y", "z")), Attribute(name="b", bounds=(0.0, 1.0), bins=2)]
    shape = Layout.of(attributes).shape
    start = np.full(shape, 0.01 / math.prod(shape))
    start[:3, :2] += 0.99 / 6.0
    bound = divergence(attributes)
    generator = np.random.default_rng(5)
    found = []
    for elsewhere in (0.0, 0.003, 0.01):
        for _ in range(200):
            rows = np.zeros(shape)
            rows[:3, :2] = generator.dirichlet([0.01] * 6).reshape(3, 2) * (1.0 - elsewhere)
            outside = np.ones(shape, dtype=bool)
            outside[:3, :2] = False
            rows[outside] = generator.dirichlet([0.01] * int(outside.sum())) * elsewhere
            there = rows > 0.0
            found.append(float((rows[there] * np.log(rows[there] / start[there])).sum()))
    assert 0.98 * bound <= max(found) <= bound
    assert paid_bound(bound, math.prod(shape), 0.1) == math.ceil(bound / (0.02 * (1.0 - 1e-9) - 64.0 * 15 * 2.0**-52))
