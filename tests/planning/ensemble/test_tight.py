"""Sizes of ensembles: the rows they take, what they follow from, and what is refused."""

import math

import msgspec
import numpy as np
import pytest

from oracle.errors import PlanError
from oracle.mechanisms.noise.tables import sample
from oracle.planning.ensemble.sizes import Crowd, changed, crowd_of, most_paid, paid_rate, terms_of
from oracle.planning.ensemble.tight import (
    plan_ensemble,
    quick_ensemble_examples,
    quick_terms,
    rows_of_class,
    too_rare,
)
from oracle.planning.kinds import decode_plan
from oracle.planning.planner import plan_model, plan_sufficient
from tests.planning.ensemble.models import ensemble_model


@pytest.mark.parametrize(
    ("gamma", "epsilon", "most"),
    [(1.0, 1.0, 199e3), (1.0, 2.0, 50e3), (1.0, 4.0, 12e3), (0.9, 1.0, 1.26e6), (0.9, 2.0, 316e3), (0.9, 4.0, 79e3)],
)
def test_rows_are_at_most_those_tried_beforehand(gamma: float, epsilon: float, most: float) -> None:
    """Flights, trees of depth 2 with 25 rows each: the figures of the issue."""
    model = ensemble_model(epsilon=epsilon, gamma=gamma, examples=1)
    assert quick_ensemble_examples(model) <= most


def test_a_plan_is_of_the_rows_that_are_there() -> None:
    """All teachers that they make; the least that would do is told beside; and it reads back to the same bytes."""
    plan = plan_ensemble(ensemble_model(examples=20_000))
    assert plan.teachers == 800
    assert plan.examples < plan.declared == 20_000
    assert decode_plan(plan.encode()) == plan
    assert 1e13 < plan.rounds <= 2**49
    first, *later = plan.phases
    assert first.rounds == 24_000
    assert all(after.rounds == 3 * before.rounds for before, after in zip(plan.phases, later, strict=False))
    assert all(phase.slope * phase.gap >= 0.3 for phase in plan.phases)
    assert math.fsum([20_000 * first.delta, *(phase.rounds * phase.delta for phase in plan.phases)]) <= plan.delta


def test_rows_that_make_no_teacher_are_dealt_to_the_others() -> None:
    """Each has as many as declared, or a few more."""
    assert plan_ensemble(ensemble_model(examples=20_024)).teachers == 800


def test_a_lag_is_as_long_as_a_fit_takes_beside_answering() -> None:
    """By the teachers, from phase 2 on: at 20,000 queries a second 1.5 s or more for 1,000; of phase 1 a twentieth."""
    few, many = (plan_ensemble(ensemble_model(examples=examples)).phases for examples in (12_500, 25_000))
    assert [phase.lag for phase in many[:3]] == [1_500, 30_000, 90_000]
    assert all(phase.lag <= phase.rounds / 3 for phase in (*few, *many))
    assert {phase.lag for phase in few[4:]} == {256 * 500}
    assert {phase.lag for phase in many[4:]} == {256 * 1_000}
    assert all(phase.slots <= phase.kept_rows * 1.05 + 1 for phase in (*few, *many))


def test_too_few_rows_are_refused_with_what_would_do() -> None:
    """The least number, and at that number there is a plan."""
    model = ensemble_model(examples=5_000)
    least = plan_sufficient(model).declared
    with pytest.raises(PlanError, match=rf"model\.examples = 5000: too few .* {least:,} would be enough"):
        plan_model(model)
    assert plan_model(msgspec.structs.replace(model, examples=least)).declared == least


def test_more_contested_queries_rows_a_teacher_or_strangers_take_more_rows() -> None:
    """Each alone; and a larger epsilon or alpha takes fewer."""
    usual = quick_ensemble_examples(ensemble_model())
    for settings in (
        {"contested": 0.1},
        {"teacher_rows": 50},
        {"gamma": 0.95},
        {"delta": 1e-6},
        {"classes": ["a", "b", "c"]},
    ):
        assert quick_ensemble_examples(ensemble_model(**settings)) > usual
    for settings in ({"epsilon": 5.0}, {"alpha": 0.1}, {"contested": 0.01}):
        assert quick_ensemble_examples(ensemble_model(**settings)) < usual


@pytest.mark.parametrize(("teachers", "slope", "gap"), [(800, 0.03, 10), (800, 0.03, 60), (200, 0.1, 4)])
def test_estimates_are_of_votes_that_are_spread_evenly(teachers: int, slope: float, gap: int) -> None:
    """Votes drawn evenly about a threshold, keyed noise, zones as they are asked: so many paid, so many changed."""
    contested, count = 0.03, 400_000
    generator = np.random.default_rng(5)
    near = generator.random(count) < 10.0 * contested
    votes = generator.integers(-teachers // 2, teachers // 2 + 1, count)
    noise = sample("logistic", slope, generator.integers(0, 2**64, (count, 2), dtype=np.uint64))
    noisy = votes + noise
    paid = near & (noisy >= -(gap // 2)) & (noisy <= gap - gap // 2)
    flipped = near & ((noisy > 0) != (votes > 0))
    crowd = Crowd(teachers, contested, 1.0, 1)
    assert paid.mean() == pytest.approx(paid_rate(crowd, gap), rel=0.08)
    assert flipped.mean() == pytest.approx(changed(crowd, slope) - math.exp(-slope * teachers / 2.0), rel=0.08)


def test_a_life_lasts_as_long_as_declared() -> None:
    """Paid queries of t_1 rounds, drawn at the estimate's rate, pass the Stopper's threshold hardly ever."""
    plan = plan_ensemble(ensemble_model(gamma=0.9, examples=80_000))
    first = plan.phases[0]
    rate = paid_rate(crowd_of(plan, plan.teachers, first=True), first.gap)
    drawn = np.random.default_rng(3).binomial(first.rounds, rate, 4000)
    assert np.mean(drawn >= first.stopper.threshold) <= plan.beta
    assert np.mean(drawn * 1.2 >= first.stopper.threshold) > 0.9  # and no life of many more rounds is paid for


def test_a_rare_class_is_refused_with_what_it_takes() -> None:
    """Where shares are declared by the plan, else by the noisy counts; what is named then works."""
    model = ensemble_model(classes=["a", "b"], shares=[0.99, 0.01], examples=40_000)
    with pytest.raises(PlanError) as caught:
        plan_ensemble(model)
    assert "class 'b' is 0.01 of the rows" in str(caught.value)
    assert "teacher_rows = 100" in str(caught.value)
    rows = int(str(caught.value).split(" and ")[1].split()[0].replace(",", ""))
    assert plan_model(msgspec.structs.replace(model, teacher_rows=100, examples=rows)).declared == rows
    plan = plan_ensemble(ensemble_model(classes=["a", "b"]))
    assert rows_of_class(plan) == plan.declared // 25
    assert "the rarest class, counted with noise, is 0.02 of the rows" in too_rare(plan, -plan.declared // 50)
    assert "teacher_rows = 50 and " in too_rare(plan, -plan.declared // 50)
    assert too_rare(plan, -plan.declared).endswith("; leave it out of model.classes")


@pytest.mark.parametrize("settings", [{"alpha": 1e-6, "gamma": 0.5}, {"epsilon": 0.05, "gamma": 0.5}])
def test_what_no_rows_are_enough_for_is_refused(settings: dict[str, float]) -> None:
    """It says what to change."""
    with pytest.raises(PlanError, match="no number of examples is enough"):
        plan_ensemble(ensemble_model(**settings))


def test_more_teachers_than_tables_are_wide_enough_for_are_refused() -> None:
    """More rows are no reason to refuse any other setting; what is named then works."""
    model = ensemble_model(examples=20_000_000)
    with pytest.raises(PlanError, match=r"model\.teacher_rows = 25: 800,000 teachers are .* teacher_rows = 34 or more"):
        plan_ensemble(model)
    assert plan_ensemble(msgspec.structs.replace(model, teacher_rows=34)).teachers == 588_235


def test_a_public_share_costs_nothing() -> None:
    """Where shares are declared nothing is counted, and the slope is no smaller."""
    counted = plan_ensemble(ensemble_model())
    declared = plan_ensemble(ensemble_model(shares=[0.8, 0.2]))
    assert declared.share_slope is msgspec.UNSET
    assert declared.phases[0].slope >= counted.phases[0].slope


@pytest.mark.parametrize("epsilon", [0.5, 8.0, 50.0])
@pytest.mark.parametrize("classes", [2, 5])
def test_any_epsilon_has_a_plan(epsilon: float, classes: int) -> None:
    """From wide noise to almost none; each is checked by the accountant as it is made."""
    plan = plan_sufficient(ensemble_model(epsilon=epsilon, classes=list(range(classes)), examples=1))
    assert plan.examples == plan.declared
    assert len(plan.phases) >= 2


@pytest.mark.parametrize(
    "settings", [{}, {"examples": 11_075}, {"gamma": 0.95, "examples": 100_000}, {"epsilon": 12.0}]
)
def test_later_queries_may_be_as_contested_as_noise_and_rests_let_them(settings):
    """Noise changes no more of them than is promised, and no life rests; with a little more, either fails somewhere."""
    plan = plan_ensemble(ensemble_model(**settings))
    terms = terms_of(plan)
    assert terms.changed == plan.changed

    def holds(contested):
        crowd = Crowd(plan.teachers, contested, plan.gamma, plan.questions)
        beta = plan.beta / len(plan.phases)
        return all(
            changed(crowd, phase.slope) <= plan.changed * (1.0 + 1e-9)
            and most_paid(crowd, phase.gap, phase.least_rounds, beta) <= phase.stopper.threshold
            for phase in plan.phases[1:]
        )

    assert holds(terms.later)
    assert not holds(1.05 * terms.later)
    assert terms.later > plan.contested / 3.0  # what lives are sized by


@pytest.mark.parametrize("examples", [1_000, 100_000])
def test_quick_terms_bear_no_more_than_the_plan(examples):
    """Also where more rows are wanted than declared: it is the plan's own then, lives being shortest."""
    model = ensemble_model(examples=examples)
    quick, whole = quick_terms(model), terms_of(plan_ensemble(model))
    assert (quick.first, quick.contested) == (whole.first, whole.contested)
    assert 0.5 * whole.later < quick.later <= whole.later * (1.0 + 1e-6)
    assert examples > 1_000 or quick == whole
