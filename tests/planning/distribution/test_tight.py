"""The planner of distributions: sizes, what the least rows are, and that no other figure is accepted."""

import math
from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.accounting.accountant import delta_at
from oracle.errors import InputError, PlanError
from oracle.mechanisms.noise.tables import edges, tail_reach
from oracle.planning.distribution.grid import grid_release
from oracle.planning.distribution.guarantees import distribution_event
from oracle.planning.distribution.model import DistributionModel, DistributionPlan, question_steps
from oracle.planning.distribution.sizes import Sizes, margin_of
from oracle.planning.features import Feature
from oracle.planning.kinds import decode_plan
from oracle.planning.model_file import parse_model
from oracle.planning.plan import Phase
from oracle.planning.planner import plan_model, verify_plan
from tests.predictors.distribution.values import FEATURES

_STRING = Feature(name="v", type="string")


def _model(**changes: object) -> DistributionModel:
    fields = {
        "name": "d",
        "predictor": "distribution",
        "epsilon": 1.0,
        "examples": 2**40,
        "features": [{"name": "v"}],
        "delta": 1e-6,
        "alpha": 0.05,
        "beta": 0.05,
    }
    return msgspec.convert(fields | changes, DistributionModel)


@cache
def _least(alpha: float = 0.05, epsilon: float = 1.0, rounds: int = 1_000_000, of: Feature = FEATURES["number"]) -> int:
    many = _model(alpha=alpha, epsilon=epsilon, rounds=rounds, features=[msgspec.to_builtins(of)])
    return plan_model(many).examples


@cache
def _plan(alpha: float = 0.05, rows: int | None = None) -> DistributionPlan:
    plan = plan_model(_model(alpha=alpha, examples=rows or _least(alpha)))
    assert isinstance(plan, DistributionPlan)
    return plan


@pytest.mark.parametrize(("alpha", "most", "paid"), [(0.1, 7_500, 15), (0.05, 19_500, 30), (0.01, 196_000, 157)])
def test_the_rows_of_a_million_questions(alpha, most, paid):
    """Fewer than were aimed at; PRIVACY.md, section 16 has these."""
    plan = _plan(alpha)
    assert plan.examples == {0.1: 6_355, 0.05: 17_415, 0.01: 182_150}[alpha] < most
    assert plan.paid == paid


@pytest.mark.parametrize("alpha", [0.1, 0.05])
def test_the_least_rows_are_the_least(alpha):
    """So many are accepted; one less is refused with that number, and its plan does not hold."""
    least = _least(alpha)
    verify_plan(_plan(alpha))
    with pytest.raises(PlanError, match=f"{least:,} would be enough"):
        plan_model(_model(alpha=alpha, examples=least - 1))
    with pytest.raises(PlanError):
        verify_plan(msgspec.structs.replace(_plan(alpha), examples=least - 1, declared=least - 1))


@pytest.mark.parametrize("more", [1, 2, 7, 1_000, 10**6])
def test_more_rows_lower_the_error(more):
    """Any more rows make a plan, of an error that is smaller but for a row."""
    plan = _plan(rows=_least() + more)
    verify_plan(plan)
    assert plan.examples == _least()
    assert plan.error <= plan.alpha
    assert plan.error < _plan().error + 1.0 / plan.declared
    assert plan.paid == _plan().paid


def _mutants(plan: DistributionPlan) -> list[tuple[str, DistributionPlan]]:
    """Return the plan with each of its figures changed, up and down."""
    found = []
    for field in ("epsilon", "delta", "alpha", "beta", "gamma", "error"):
        value = getattr(plan, field)
        factors = {"epsilon": (0.7, 0.99), "beta": (0.5, 0.9, 1.1, 2.0)}.get(field, (0.7, 0.99, 1.01, 1.3))
        found += [(field, msgspec.structs.replace(plan, **{field: factor * value})) for factor in factors]
    for field in ("examples", "declared", "questions", "comparisons", "paid", "memory_bytes"):
        value = getattr(plan, field)
        changed = {0, -1, value - 1, value + 1, value // 2, 2 * value, 2**62}
        found += [(field, msgspec.structs.replace(plan, **{field: other})) for other in sorted(changed)]
    for field in ("gap", "margin", "width"):
        value = getattr(plan.thresholds, field)
        for other in sorted({0, -1, value - 1, value + 1, 2 * value}):
            ladder = msgspec.structs.replace(plan.thresholds, **{field: other})
            found.append((f"ladder.{field}", msgspec.structs.replace(plan, ladder=ladder)))
    for slope in (
        -0.1,
        0.0,
        1e-300,
        65.0,
        math.nan,
        math.inf,
        0.9 * plan.thresholds.slope,
        1.01 * plan.thresholds.slope,
    ):
        ladder = msgspec.structs.replace(plan.thresholds, slope=slope)
        found.append(("ladder.slope", msgspec.structs.replace(plan, ladder=ladder)))
    for phases in (
        (),
        2 * plan.phases,
        *(
            (msgspec.structs.replace(plan.phases[0], **change),)
            for change in (
                {"phase": 2},
                {"rounds": 0},
                {"rounds": 2**49 + 1},
                {"delta": 0.5e-6},
                {"delta": 2e-6},
                {"delta": 0.0},
            )
        ),
    ):
        found.append(("phases", msgspec.structs.replace(plan, phases=phases)))
    found += [
        ("features", msgspec.structs.replace(plan, features=())),
        ("features", msgspec.structs.replace(plan, features=2 * plan.features)),
        ("features", msgspec.structs.replace(plan, features=(_STRING,))),
        ("name", msgspec.structs.replace(plan, name="a b")),
        ("profile", msgspec.structs.replace(plan, profile="paper")),
        ("ladder", msgspec.structs.replace(plan, ladder=msgspec.UNSET)),
    ]
    return found


@pytest.mark.parametrize("mutant", [pytest.param(mutant, id=name) for name, mutant in _mutants(_plan())])
def test_tampered_plans_are_refused(mutant):
    """Each figure, in both directions, by its name or by that of one which it decides."""
    with pytest.raises(PlanError, match="plan"):
        verify_plan(mutant)


@pytest.mark.parametrize("epsilon", [1.05, 1.12, 4.0])
def test_less_may_be_claimed_than_is_proved(epsilon):
    """A plan with more privacy than it says holds, by a little or by much."""
    verify_plan(msgspec.structs.replace(_plan(), epsilon=epsilon))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    epsilon=st.floats(0.05, 20.0),
    delta=st.floats(1e-9, 1e-2),
    alpha=st.floats(0.01, 0.5),
    beta=st.floats(1e-9, 0.5),
    rounds=st.integers(1, 2**40),
    more=st.integers(0, 10_000),
    kind=st.sampled_from(list(FEATURES)),
)
def test_any_plan_holds(epsilon, delta, alpha, beta, rounds, more, kind):  # noqa: PLR0913, PLR0917 -- a model's
    """Its delta is proved, its zones do not meet, its intervals are as wide as it says, and noise errs within l."""
    changes = {"epsilon": epsilon, "delta": delta, "alpha": alpha, "beta": beta, "rounds": rounds}
    feature = [msgspec.to_builtins(FEATURES[kind])]
    least = plan_model(_model(**changes, features=feature)).examples
    plan = plan_model(_model(**changes, features=feature, examples=least + more))
    assert isinstance(plan, DistributionPlan)
    verify_plan(plan)
    verify_plan(decode_plan(plan.encode()))
    ladder, lows, n = plan.thresholds, plan.lows, plan.declared
    assert delta_at(distribution_event(plan), epsilon) <= delta
    assert len(lows) == plan.paid >= 2
    assert min(np.diff(lows)) >= ladder.gap + 1
    bounds = [0, *(low - ladder.margin for low in lows)], [*(low + ladder.gap + ladder.margin for low in lows), n]
    widest = max(high - low for low, high in zip(*bounds, strict=True))
    assert 0 < widest <= ladder.width <= 2.0 * plan.error * n - 1.0 + 1e-6
    assert plan.error <= alpha
    assert all(0 < low < low + ladder.gap + ladder.margin <= n for low in lows)
    assert 2 * ladder.margin > ladder.gap
    assert plan.comparisons * math.exp(-ladder.slope * (ladder.margin + 0.5)) <= beta * (1.0 + 1e-9)


def test_margins_are_tails_of_the_table():
    """P(Z > l) and P(Z < -l) of the very table, and one row less would be too few."""
    slope, gap, comparisons, beta = 0.25, 9, 5_000, 0.05
    margin = margin_of(slope, gap, comparisons, beta)
    reach = tail_reach(slope)
    table = edges("logistic", slope, 1 - reach, reach)

    def below(z: int) -> float:
        return float(table.high[z - table.first]) / 2.0**64

    assert comparisons * (1.0 - below(margin + 1)) <= beta
    assert comparisons * below(-margin) <= beta
    assert comparisons * (1.0 - below(margin)) > 0.9 * beta
    assert margin_of(4.0, 50, 1, 0.5) == 26, "more than half of the gap, or either sign could do harm"


@given(st.integers(2, 300), st.integers(0, 500), st.integers(1, 3_000), st.floats(1e-3, 0.5))
def test_least_rows_are_enough_and_needed(thresholds, gap, margin, alpha):
    """From there on any number of rows has an error of at most alpha; well below it none has."""
    sizes = Sizes(thresholds, 0.1, gap, margin)
    least = sizes.least_rows(alpha)
    if least is None:
        assert 2.0 * alpha * (thresholds + 1) <= 1.0 + 1e-9
        return
    for rows in (least, least + 1, least + thresholds, 3 * least + 7):
        assert sizes.error(rows) <= alpha
        assert (rows - sizes.window) // (thresholds + 1) >= gap + 3
    fewer = least - 2 * thresholds - 2 * math.ceil(2.0 / (2.0 * alpha * (thresholds + 1) - 1.0) * (thresholds + 1))
    apart = (thresholds + 1) * (gap + 3) + sizes.window
    if fewer > apart:
        assert sizes.error(fewer) > alpha


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 1e-6, "rounds": 1}, r"model\.alpha = 1e-06: more than 16,384 thresholds"),
        ({"delta": 1e-18}, r"model\.delta = 1e-18: the noise tables"),
        ({"epsilon": 50.0}, r"model\.delta = 1e-06: the noise tables"),
    ],
)
def test_what_no_plan_has_is_refused(changes, message):
    """With the field and what to do."""
    with pytest.raises(PlanError, match=message):
        plan_model(_model(**changes))


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ({"name": "v", "sides": "lower"}, r"features\[0\]\.sides"),
        ({"name": "v", "bounds": [0.0, 1.0]}, r"features\[0\]\.bounds"),
        ({"name": "v", "categories": ["a", "b"]}, r"features\[0\]\.categories"),
        ({"name": "v", "type": "decimal"}, r"features\[0\]\.places"),
        ({"name": "v", "places": 2}, r"features\[0\]\.places"),
        ({"name": ""}, r"features\[0\]\.name"),
    ],
)
def test_a_wrong_feature_is_named(feature, message):
    """One that has no order, or what is of no use."""
    with pytest.raises(InputError, match=message):
        parse_model({"model": msgspec.to_builtins(_model()) | {"features": [feature]}})


@pytest.mark.parametrize("features", [[], 2 * [{"name": "v"}]])
def test_there_is_one_feature(features):
    """Neither none nor two."""
    with pytest.raises(msgspec.ValidationError, match="features"):
        _model(features=features)


def test_strings_cost_longer_tables_only():
    """The rows do not depend on how many values there are, but for a trace of delta."""
    assert _least(of=_STRING) == pytest.approx(_least(), rel=1e-3)
    assert question_steps(_STRING, 30) > question_steps(FEATURES["number"], 30) == 64 + 1 + 5


def test_a_release_of_quantiles_wants_more_rows_of_numbers_and_fewer_of_dates():
    """As its logarithm of values has it; and at that number of values both want the same."""
    numbers, dates = _plan(), plan_model(_model(features=[{"name": "v", "type": "date"}], examples=_least()))
    assert isinstance(dates, DistributionPlan)
    assert grid_release(numbers).rows > numbers.examples > grid_release(dates).rows
    assert not grid_release(numbers).better
    assert grid_release(dates).better
    assert math.log10(2**64) > grid_release(numbers).values > math.log10(3_652_059)


def test_phases_may_end_early():
    """Plans of tests do; what a row pays is what is proved for more."""
    plan = _plan()
    verify_plan(msgspec.structs.replace(plan, phases=(Phase(phase=1, rounds=10, delta=plan.delta),)))


def test_memory_is_bounded():
    """A state of numbers and of strings is no larger than its plan says, and grows with rows and keys alone."""
    for of in (FEATURES["number"], _STRING):
        plan = plan_model(_model(features=[msgspec.to_builtins(of)], examples=_least(of=of)))
        assert plan.memory_bytes > plan.declared * (8 if of is FEATURES["number"] else 37)
        assert plan.training_bytes > plan.memory_bytes
