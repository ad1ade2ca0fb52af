"""The planner's figures: small enough, never optimistic, the same every time."""

import hashlib
import math

import msgspec
import pytest

from oracle.accounting.between_thresholds import kappa, laplace_log_delta
from oracle.accounting.race import between_log_delta, race_log_delta
from oracle.accounting.stopper import log_overflow
from oracle.errors import PlanError
from oracle.planning.boxes.harvest import trials_for
from oracle.planning.boxes.tight import least_examples, plan_tight
from oracle.planning.guarantees import noise_comparisons, verify
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import PLAN_VERSION, BoxPlan, InstancePlan, PhasePlan
from oracle.planning.sizes import Shares, size_phase
from tests.planning.conftest import Planner, model_of

# sides, epsilon, declared examples; all of alpha = 0.1, beta = 0.05, delta = 1e-3, gamma = 1
FIGURES = [
    (1, 1.0, 200_000),
    (1, 2.0, 55_000),
    (1, 4.0, 16_000),
    (4, 1.0, 1_400_000),
    (4, 2.0, 380_000),
    (4, 4.0, 110_000),
]


def instance_delta(phase: PhasePlan, instance: InstancePlan) -> float:
    """Return the delta of sitting in an instance, from the theorems themselves."""
    noise = 2.0**-128 * (1.0 + math.exp(phase.stopper.epsilon)) * instance.instances * phase.rounds
    between = between_log_delta(instance.scale, instance.high - instance.low, instance.mediums, instance.epsilon)
    overflow = log_overflow(phase.stopper.epsilon, phase.stopper.threshold, phase.stopper.cap)
    return math.exp(between) + instance.instances * math.exp(overflow) + noise


def recheck(plan: BoxPlan) -> None:
    """Assert the guarantee of every record, and the sums, without the planner's own code."""
    assert sum([plan.declared * plan.phases[0].delta, *(p.rounds * p.delta for p in plan.phases)]) <= plan.delta
    assert instance_delta(plan.phases[0], plan.phases[0].start) <= plan.phases[0].delta
    for index, phase in enumerate(plan.phases):
        assert phase.start.epsilon <= plan.epsilon
        assert phase.stopper.epsilon + phase.rearmed.epsilon <= plan.epsilon * (1.0 + 1e-12)
        assert phase.start.mediums >= phase.start.instances * phase.stopper.cap
        assert phase.rearmed.mediums >= phase.stopper.cap
        assert instance_delta(phase, phase.rearmed) <= phase.delta
        if index + 1 < len(plan.phases):
            assert instance_delta(plan.phases[index + 1], plan.phases[index + 1].start) <= phase.delta
    assert plan.expected_error <= plan.alpha
    assert 0.9 * sum(phase.alpha for phase in plan.phases) + plan.deep_error <= plan.alpha
    misses = sum(phase.beta for phase in plan.phases) + plan.beta / 2.0
    assert misses <= plan.beta


@pytest.mark.slow
@pytest.mark.parametrize(("sides", "epsilon", "examples"), FIGURES)
def test_the_issues_figures_are_met_and_proved(planned: Planner, sides: int, epsilon: float, examples: int) -> None:
    """Each figure's number of examples is enough, and all that the plan states holds."""
    plan = planned(model_of(sides, epsilon, examples))
    assert plan.examples <= plan.declared == examples
    assert len(plan.phases) >= 15
    verify(plan)
    recheck(plan)


@pytest.mark.parametrize("sides", [1, 4])
def test_more_epsilon_never_needs_more_examples(planned: Planner, sides: int) -> None:
    """Doubling epsilon asks for less than half of the examples."""
    needed = [planned(model_of(s, e, n)).examples for s, e, n in FIGURES if s == sides]
    assert needed[1] < 0.5 * needed[0]
    assert needed[2] < 0.5 * needed[1]


@pytest.mark.parametrize(("sides", "epsilon", "examples"), FIGURES[2::3])
def test_sizes_keep_what_the_utility_argument_asks(planned: Planner, sides: int, epsilon: float, examples: int) -> None:
    """Margins fit on both ends of every side, and each phase is long enough for the next one's harvest."""
    plan = planned(model_of(sides, epsilon, examples))
    for phase, following in zip(plan.phases, [*plan.phases[1:], None], strict=True):
        for instance in (phase.start, phase.rearmed):
            assert instance.scale * (instance.low - 0.5) >= phase.margin * (1.0 - 1e-12)
            assert instance.scale * (instance.points - instance.high - 0.5) >= phase.margin * (1.0 - 1e-12)
        assert phase.stopper.threshold > phase.rearmed.points
        if following is not None:
            rate = plan.gamma * following.alpha * plan.share / sides
            assert phase.rounds == trials_for(following.start.points, rate, phase.beta / (4.0 * sides))
    rate = plan.phases[0].alpha * plan.share / sides
    assert plan.examples >= trials_for(plan.phases[0].start.points, rate, plan.beta / (2.0 * sides))


def test_a_refused_plan_names_a_number_that_is_accepted() -> None:
    """The number in the message is `least_examples`, and declaring it makes the plan."""
    model = model_of(1, 4.0, 5_000)
    with pytest.raises(PlanError, match=r"model\.examples = 5000: too few training") as caught:
        plan_tight(model)
    least = int(str(caught.value).split("; ")[1].split()[0].replace(",", ""))
    assert 10_000 < least == least_examples(model)
    plan = plan_tight(msgspec.structs.replace(model, examples=least))
    assert plan.examples <= least
    recheck(plan)


def test_a_plan_is_the_same_every_time(planned: Planner) -> None:
    """Made again without any cached value, a plan has the same bytes."""
    model = model_of(*FIGURES[2])
    once = planned(model)
    kappa.cache_clear()
    race_log_delta.cache_clear()
    log_overflow.cache_clear()
    assert plan_tight(model).encode() == once.encode()


def test_a_plan_survives_json(planned: Planner) -> None:
    """Encoding and decoding give an equal plan with the same digest; any change gives another digest."""
    plan = planned(model_of(*FIGURES[2]))
    again = decode_plan(plan.encode())
    assert again == plan
    assert again.encode() == plan.encode()
    assert again.digest == plan.digest == hashlib.sha256(plan.encode()).digest()
    assert msgspec.structs.replace(plan, delta=plan.delta * (1.0 + 1e-15)).digest != plan.digest
    assert plan.rounds == sum(phase.rounds for phase in plan.phases)


def test_a_newer_or_broken_plan_is_refused(planned: Planner) -> None:
    """A version from the future and a torn file are refused as such."""
    plan = planned(model_of(*FIGURES[2]))
    newer = msgspec.structs.replace(plan, version=PLAN_VERSION + 1)
    with pytest.raises(PlanError, match=r"version = \d+: this Perpetua reads versions up to"):
        decode_plan(newer.encode())
    with pytest.raises(PlanError, match="plan: cannot be read"):
        decode_plan(plan.encode()[:-1])


def with_phase(plan: BoxPlan, index: int, phase: PhasePlan) -> BoxPlan:
    """Return the plan with one phase replaced."""
    return msgspec.structs.replace(plan, phases=(*plan.phases[:index], phase, *plan.phases[index + 1 :]))


@pytest.mark.parametrize("index", [0, 3, -1])
@pytest.mark.parametrize("kind", ["start", "rearmed"])
@pytest.mark.parametrize("change", ["scale", "mediums", "gap"])
def test_verify_sees_every_figure(planned: Planner, index: int, kind: str, change: str) -> None:
    """A scale 10 % larger, mediums 20 % more or thresholds closer together are found out, in any phase."""
    plan = planned(model_of(*FIGURES[2]))
    index %= len(plan.phases)
    instance: InstancePlan = getattr(plan.phases[index], kind)
    changes: dict[str, dict[str, float]] = {
        "scale": {"scale": instance.scale * 1.1},
        "mediums": {"mediums": math.ceil(instance.mediums * 1.2)},
        "gap": {"high": instance.low + (instance.high - instance.low) // 3},
    }
    replaced = msgspec.structs.replace(instance, **changes[change])
    worse = with_phase(plan, index, msgspec.structs.replace(plan.phases[index], **{kind: replaced}))
    with pytest.raises(PlanError, match="the accountant proves"):
        verify(worse)


def test_verify_sees_the_stopper_and_the_sums(planned: Planner) -> None:
    """A larger eps_S, a smaller cap, a smaller delta_noise and one more declared example are found out."""
    plan = planned(model_of(*FIGURES[2]))
    phase = plan.phases[1]
    for fields in ({"epsilon": phase.stopper.epsilon * 1.05}, {"cap": phase.stopper.cap - 8}):
        stopper = msgspec.structs.replace(phase.stopper, **fields)
        with pytest.raises(PlanError, match="the accountant proves"):
            verify(with_phase(plan, 1, msgspec.structs.replace(phase, stopper=stopper)))
    with pytest.raises(PlanError, match=r"delta_noise = .*: below the noise tables' distance"):
        verify(with_phase(plan, 1, msgspec.structs.replace(phase, delta_noise=phase.delta_noise * 0.99)))
    with pytest.raises(PlanError, match="the schedule spends"):
        verify(msgspec.structs.replace(plan, declared=plan.declared + plan.phases[0].rounds // 1000))


def test_sequential_slices_pay_for_all_start_instances(planned: Planner) -> None:
    """A record may sit in all four start instances: their mediums add, and more examples are needed."""
    plan = planned(model_of(4, 4.0, 300_000, slicing="sequential"))
    recheck(plan)
    assert plan.coin == 0.0
    assert plan.share == 1.0
    for phase in plan.phases:
        assert phase.start.instances == 4
        assert phase.start.mediums == 4 * phase.stopper.cap
        assert phase.rearmed.instances == 1
        assert noise_comparisons(phase.rounds, 4) >= 4 * phase.rounds
        assert phase.start.scale < phase.rearmed.scale
    assert plan.examples > planned(model_of(*FIGURES[5])).examples


def test_a_mixed_stream_lasts_longer_and_needs_more(planned: Planner) -> None:
    """With a quarter of the queries honest, phase 1 is about four times as long and n a little larger."""
    honest = planned(model_of(*FIGURES[2]))
    mixed = planned(model_of(1, 4.0, 25_000, gamma=0.25))
    recheck(mixed)
    assert 3.0 < mixed.phases[0].rounds / honest.phases[0].rounds < 8.0
    assert honest.examples < mixed.examples < 2 * honest.examples


@pytest.mark.parametrize("law", ["logistic", "discrete-laplace"])
def test_a_sized_phase_meets_its_deltas_under_either_law(law: str) -> None:
    """Both kinds of instance and the Stopper's cap stay within their parts of delta; logistic noise needs less."""
    shares = Shares(contamination=0.9, gap=3.0, stopper=0.1, first=0.8)
    sizes = {
        name: size_phase(
            law=name,  # type: ignore[arg-type]
            epsilon=4.0,
            delta=1e-8,
            rounds=50_000,
            sides=1,
            shares=shares,
            beta=0.01,
            least_margin=5.0,
            start_instances=1,
        )
        for name in {law, "logistic"}
    }
    sized = sizes[law]
    bound = between_log_delta if law == "logistic" else laplace_log_delta
    for instance in (sized.start, sized.rearmed):
        assert bound(instance.scale, instance.high - instance.low, sized.cap, instance.epsilon) <= math.log(1e-8)
    assert sized.rearmed.epsilon + sized.stopper_epsilon == pytest.approx(4.0, rel=1e-12)
    assert log_overflow(sized.stopper_epsilon, sized.threshold, sized.cap) <= math.log(0.02e-8)
    assert sizes["logistic"].start.points <= sized.start.points
