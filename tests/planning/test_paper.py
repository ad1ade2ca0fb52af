"""The paper's constants: each assertion of its proofs holds, and epsilon stays nominal."""

import math

import msgspec
import pytest
from msgspec.structs import replace

from oracle.accounting.accountant import UnsupportedEventError
from oracle.errors import InputError, PlanError
from oracle.mechanisms.addresses import MAX_ROUNDS
from oracle.planning.boxes.model import BoxModel
from oracle.planning.boxes.paper import check_paper, check_runnable, plan_paper
from oracle.planning.guarantees import query_guarantee
from oracle.planning.kinds import decode_plan
from oracle.planning.model import Feature
from oracle.planning.model_file import parse_model
from oracle.planning.planner import as_paper, plan_model, plan_sufficient, verify_plan


def paper_model(epsilon: float = 1.0, alpha: float = 0.1, features: int = 2, examples: int = 1) -> BoxModel:
    """Return a model of boxes."""
    return BoxModel(
        name="m",
        predictor="rectangles",
        profile="paper",
        slicing="rsc",
        epsilon=epsilon,
        alpha=alpha,
        examples=examples,
        gamma=0.5,
        features=tuple(Feature(name=f"x{number}") for number in range(features)),
    )


@pytest.mark.parametrize("model", [paper_model(), paper_model(4.0, features=1), paper_model(50.0, 0.5, features=5)])
def test_the_proofs_assertions_hold(model):
    """Definition 4.11, Lemmas 4.12 and 4.13 and the inputs of Algorithms 3 and 4, written out once more."""
    plan = plan_paper(model)
    d = len(plan.sides) / 2
    for index, phase in enumerate(plan.phases):
        alpha, beta = plan.alpha / 2 ** (index + 1), plan.beta / 2 ** (index + 1)
        m, k = int(phase.start.base), phase.stopper.threshold  # type: ignore[arg-type]  # is set
        log = math.log(1 / phase.delta)
        delta_p = 4 * log / plan.epsilon * math.sqrt(k * math.log(2 * d / phase.delta))
        delta_p *= math.log(8 * d * phase.rounds / beta)
        assert k == 2 * m
        assert m >= 4 * delta_p * (1 - 1e-9)
        assert phase.start.low >= delta_p * (1 - 1e-9)
        assert phase.start.high <= m - delta_p * (1 - 1e-9)
        assert m >= log / plan.epsilon * math.log(4 * d / beta)
        gap, inner, part = phase.start.high - phase.start.low, plan.epsilon / log, phase.delta / d
        assert k >= 4 * math.log(4 / part)
        assert gap >= 32 / inner * math.sqrt(k * math.log(4 / part))
        assert gap >= 16 / inner * math.sqrt(phase.stopper.cap * math.log(4 / part))
        assert phase.rearmed.points > k + 88 / phase.stopper.scale  # type: ignore[operator]  # all that can be collected
        assert (phase.rearmed.low, phase.rearmed.high) == (phase.start.low, phase.start.high)
        if index + 1 < len(plan.phases):
            following = int(plan.phases[index + 1].start.base)  # type: ignore[arg-type]  # is set
            assert phase.rounds >= 16 * d / (plan.gamma * alpha) * following * (1 - 1e-9)
            assert phase.rounds >= 32 * d / (plan.gamma * alpha) * math.log(2 * d / beta)
        assert 1 / phase.start.scale == pytest.approx(4 / inner * math.sqrt(phase.start.mediums * math.log(4 / part)))
        assert 1 / phase.stopper.scale == pytest.approx(8 / inner * math.log(2 / part))  # type: ignore[operator]
        assert phase.stopper.cap >= k + 8 / inner * math.log(2 / part) * math.log(phase.rounds / part)
        assert phase.start.slice_scale == pytest.approx(inner)
    spent = plan.declared * plan.phases[0].delta + sum(phase.rounds * phase.delta for phase in plan.phases)
    assert spent <= plan.delta


def test_what_it_wants_for_a_box():
    """Some ten million times what `tight` wants: d = 2, alpha = 0.1, epsilon = 1, everyone honest."""
    plan = plan_paper(replace(paper_model(), gamma=1.0))
    assert 1e12 < plan.examples < 1e14


def test_its_epsilon_is_nominal_and_the_accountant_refuses_it():
    """There is no theorem to price it by, so no guarantee is computed."""
    plan = plan_paper(paper_model())
    assert plan.nominal
    assert msgspec.json.decode(plan.encode())["nominal_privacy"] is True
    with pytest.raises(UnsupportedEventError, match="no theorem covers the law laplace"):
        query_guarantee(plan, 0)


def test_too_few_examples_are_refused_and_the_wanted_number_suffices():
    """The number in the message is accepted."""
    model = paper_model(50.0, 0.5, 1, examples=1000)
    wanted = plan_sufficient(model).declared
    with pytest.raises(PlanError, match=f"too few training examples for this model; {wanted:,} would be enough"):
        plan_model(model)
    plan = plan_model(replace(model, examples=wanted))
    assert plan.examples <= plan.declared == wanted


def test_a_plan_that_cannot_be_run_is_refused_before_any_data_is_read():
    """Too long phases, too wide noise and too much memory are each told."""
    with pytest.raises(PlanError, match="points of depth as the noise's scale; at most 262,144 can be run"):
        check_runnable(plan_paper(paper_model(examples=2**48)))
    small = plan_paper(paper_model(50.0, 0.5, 1))
    check_runnable(small)
    assert len(small.phases) > 2
    first = small.phases[0]
    with pytest.raises(PlanError, match=r"rounds in a phase; at most"):
        check_runnable(replace(small, phases=(replace(first, rounds=MAX_ROUNDS + 1),)))
    with pytest.raises(PlanError, match=r"entries in a noise table; at most"):
        check_runnable(replace(small, phases=(replace(first, start=replace(first.start, points=2**24)),)))
    with pytest.raises(PlanError, match=r"bytes of private state; at most"):
        check_runnable(replace(small, sides=small.sides * 40))


def test_counts_beyond_64_bits_are_refused():
    """A plan that could not be written down is one clear line."""
    with pytest.raises(PlanError, match="more than a plan can say"):
        plan_paper(replace(paper_model(0.05, 1e-6), gamma=1e-6, beta=1e-12, delta=1e-18))


@pytest.mark.parametrize(
    "change",
    [
        {"start": {"scale": 60.0}},
        {"start": {"law": "logistic"}},
        {"start": {"slice_scale": 60.0}},
        {"start": {"high": 5_000_000}},
        {"start": {"points": 10}},
        {"rearmed": {"scale": 60.0}},
        {"rearmed": {"points": 10}},
        {"stopper": {"scale": 60.0}},
        {"stopper": {"law": msgspec.UNSET}},
        {"stopper": {"threshold": 50}},
        {"delta": 1e-9},
        {"rounds": 10},
    ],
    ids=str,
)
def test_a_changed_figure_is_found(change):
    """`check_paper` makes every figure again, so no plan slips past it that has less noise or smaller sides."""
    plan = plan_paper(paper_model(4.0, features=1))
    verify_plan(plan)
    phase = plan.phases[0]
    for part, value in change.items():
        phase = replace(phase, **{part: replace(getattr(phase, part), **value) if isinstance(value, dict) else value})
    with pytest.raises(PlanError, match=r"plan\.phases\[0\]"):
        check_paper(replace(plan, phases=(phase, *plan.phases[1:])))


def test_too_short_a_phase_and_an_overspent_delta_are_found():
    """Also where each phase by itself is what the constants make it."""
    plan = plan_paper(paper_model(4.0, features=1))
    with pytest.raises(PlanError, match="too few to fill the sides"):
        check_paper(replace(plan, gamma=0.1))
    with pytest.raises(PlanError, match="the schedule spends"):
        check_paper(replace(plan, declared=2**60))


def test_plans_before_this_profile_keep_their_digest():
    """Fields that came with it are left out where they are not set: a state's plan reads back to the same bytes."""
    tight = replace(plan_paper(paper_model()), profile="tight")
    plain = msgspec.json.decode(tight.encode())
    del plain["nominal_privacy"]
    for phase in plain["phases"]:
        for field in ("base", "slice_scale"):
            del phase["start"][field]
        for field in ("law", "scale"):
            del phase["stopper"][field]
    old = msgspec.json.encode(plain)
    assert decode_plan(old).encode() == old


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"profile": "paper", "slicing": "faces"}, 'model.slicing = \'faces\': must be "rsc" for profile = "paper"'),
        ({"slicing": "rsc"}, "model.slicing = 'rsc': is for profile = \"paper\" only"),
        ({"profile": "paper", "slicing": "rsc", "trim": 3}, 'model.trim = 3: cannot be set for profile = "paper"'),
        ({"profile": "paper", "slicing": "rsc", "share": 0.5}, "model.share = 0.5: cannot be set"),
        ({"profile": "paper", "slicing": "rsc", "first_share": 0.5}, "model.first_share = 0.5: cannot be set"),
    ],
)
def test_settings_that_do_not_go_together(settings, message):
    """One line names field, value and bound."""
    table = {"name": "m", "predictor": "rectangles", "epsilon": 1.0, "examples": 100, "features": [{"name": "a"}]}
    table["features"] = [{"name": "a", "bounds": [0.0, 1.0]}]
    with pytest.raises(InputError) as caught:
        parse_model({"model": table | settings})
    assert message in str(caught.value)


def test_the_comparison_drops_what_only_tight_knows():
    """Trim, shares and the slicing rule are not the paper's."""
    model = replace(paper_model(), profile="tight", slicing="faces", trim=5, share=0.5, first_share=0.5)
    assert as_paper(model) == paper_model()
