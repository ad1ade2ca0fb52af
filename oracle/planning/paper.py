"""The `paper` planner: the constants that the proofs of Stemmer (2024) assert, solved for.

Sources: Algorithms 1 to 6, Definition 4.11, Lemmas 4.12 and 4.13, as the privacy document's sections 2 and 3 restate
them. With S sides in use, 2d stands as S. The epsilon is nominal: Theorem 4.1 hides a constant, and a query may pay
for two protocols (Theorem 4.6).
"""

import math
from typing import Final, NamedTuple

from oracle.errors import PlanError
from oracle.mechanisms.addresses import MAX_ROUNDS, MAX_SIDES
from oracle.mechanisms.noise import SMALLEST_SCALE, tail_reach
from oracle.planning.model import Model
from oracle.planning.plan import InstancePlan, PhasePlan, Plan, StopperPlan
from oracle.planning.tight import side_names

__all__ = ["check_paper", "check_runnable", "instance_privacy", "plan_paper"]

_FEWEST: Final = 2
"""Phases that are written down at least, also if they are too long to be run."""

_MOST: Final = 48
"""Phases that are written down at most: each is about twice as long as the one before."""

_LARGEST_COUNT: Final = 2**62
"""Largest count that a plan is written down with (JSON readers keep 64 bits)."""

_SAFE: Final = 1.0 - 1e-9
"""Keeps the sum of the deltas below delta_star, however it is rounded."""

_PASSES: Final = 12
"""Iterations of a fixed point; each changes the sizes by less than a hundredth of the one before."""

_LARGEST: Final = 2**36
"""Bytes of private arrays above which a plan is refused as one that no machine here would hold."""


class _Constants(NamedTuple):
    """What the proofs need of one phase.

    Attributes:
        points: m_p.
        noise: Delta_p of Definition 4.11: bounds every Laplace draw of the phase.
    """

    points: int
    noise: float


class _Phase(NamedTuple):
    rounds: int
    delta: float
    sizes: _Constants


def instance_privacy(epsilon: float, delta: float, sides: int) -> tuple[float, float]:
    """Return the (eps, delta) that one ChallengeBT runs at, for RSC over `sides` slices to be nominally (eps, delta).

    Theorem 4.1 turns (eps_0, delta_0) into (O(eps_0 log(1/delta)), delta + 2 S delta_0); Definition 4.11 takes
    eps_0 = eps / log(1/delta) and delta_0 = delta / d.
    """
    return epsilon / math.log(1.0 / delta), 2.0 * delta / sides


def _constants(model: Model, sides: int, rounds: int, delta: float, beta: float) -> _Constants:
    """Return m_p with m_p >= 4 Delta_p, k_p = 2 m_p, RSC's noise below m_p, and the thresholds' distance of Alg. 4."""
    inner, part = instance_privacy(model.epsilon, delta, sides)
    extremes = math.log(4.0 * sides * rounds / beta)

    def noise(points: float) -> float:
        return 4.0 / inner * math.sqrt(2.0 * points * math.log(sides / delta)) * extremes

    points = max(
        (4.0 * noise(1.0)) ** 2,  # m = 4 Delta(m) with Delta(m) = sqrt(m) Delta(1)
        2.0 * (64.0 / inner) ** 2 * math.log(4.0 / part),  # t_h - t_l = m/2 >= (32/eps_0) sqrt(2 m log(4/delta_0))
        math.log(2.0 * sides / beta) / inner,
        2.0 * math.log(4.0 / part),  # k = 2m >= 4 log(4/delta_0)
    )
    whole = math.ceil(points) + 4  # so that whole thresholds fit
    return _Constants(whole, noise(whole))


def _rounds(model: Model, sides: int, alpha: float, beta: float, points: int) -> int:
    """Return t_p, half of whose mean puts 2 m_{p+1} honest points into every stripe of phase p + 1."""
    rate = model.gamma * alpha
    return math.ceil(max(8.0 * sides * points, 16.0 * sides * math.log(sides / beta)) / rate)


def _examples(model: Model, sides: int, points: int) -> int:
    """Return n: half of the mean puts 2 m_1 examples into every stripe of phase 1, of mass alpha/(2S)."""
    alpha, beta = model.alpha / 2.0, model.beta / 2.0
    return math.ceil(max(4.0 * sides * points, 8.0 * sides * math.log(sides / beta)) / alpha)


def _later(model: Model, sides: int, phase: int, following: int | None) -> _Phase:
    """Size phase p >= 2, given m_{p+1} or, for the last, as if the next one needed a quarter more than this one."""
    alpha, beta = model.alpha * 0.5**phase, model.beta * 0.5**phase

    def sized(points: int) -> _Phase:
        rounds = _rounds(model, sides, alpha, beta, points)
        delta = model.delta * 0.5**phase / rounds * _SAFE
        return _Phase(rounds, delta, _constants(model, sides, rounds, delta, beta))

    found = sized(following or 1)
    for _ in range(0 if following else _PASSES):
        found = sized(found.sizes.points * 5 // 4)
    return found


def _first(model: Model, sides: int, following: int) -> tuple[_Phase, int]:
    """Size phase 1 and return it with n; delta_1 is shared by the declared examples and the phase's rounds."""
    alpha, beta = model.alpha / 2.0, model.beta / 2.0
    rounds = _rounds(model, sides, alpha, beta, following)

    def sized(examples: int) -> _Phase:
        delta = model.delta / (2.0 * (examples + rounds)) * _SAFE
        return _Phase(rounds, delta, _constants(model, sides, rounds, delta, beta))

    declared = model.examples
    for _ in range(_PASSES):
        found = sized(declared)
        needed = _examples(model, sides, found.sizes.points)
        if needed <= declared:
            return found, needed
        declared = needed + needed // 1000
    msg = f"model.examples = {model.examples}: no number of examples near {declared} suffices"
    raise PlanError(msg)


def _phases(model: Model, sides: int, count: int) -> tuple[tuple[PhasePlan, ...], int]:
    """Size `count` phases, the last first, and return them with n."""
    found = [_later(model, sides, count, None)]
    for phase in range(count - 1, 1, -1):
        found.append(_later(model, sides, phase, found[-1].sizes.points))
    first, examples = _first(model, sides, found[-1].sizes.points)
    sized = [first, *reversed(found)]
    return tuple(_write_phase(model, sides, index, phase) for index, phase in enumerate(sized)), examples


def _addressable(phase: PhasePlan) -> bool:
    """Return whether a phase's rounds can be numbered, and its noise fits into tables."""
    return phase.rounds <= MAX_ROUNDS and phase.start.scale >= SMALLEST_SCALE


def plan_paper(model: Model) -> Plan:
    """Plan a run with the constants of the paper; `declared` is the number wanted where the model declares fewer.

    Formal guarantees:
        * None with explicit constants: `Plan.nominal` is True. The sum of the nominal deltas over the declared
          examples and all rounds is at most `model.delta`.
    """
    names = side_names(model)
    if len(names) > MAX_SIDES:
        msg = f"model.features: {len(names)} sides: at most {MAX_SIDES} are supported"
        raise PlanError(msg)
    phases, examples = _phases(model, len(names), _FEWEST)
    while len(phases) < _MOST:
        longer, wanted = _phases(model, len(names), len(phases) + 1)
        if not _addressable(longer[-1]):
            break
        phases, examples = longer, wanted
    largest = max(examples, *(phase.rounds for phase in phases), *(phase.stopper.cap for phase in phases))
    if largest > _LARGEST_COUNT:
        msg = f"model.profile = 'paper': its constants ask for {largest:.3g} of something, more than a plan can say"
        raise PlanError(msg)
    plan = Plan(
        name=model.name,
        predictor=model.predictor,
        profile="paper",
        features=model.features,
        sides=names,
        slicing="rsc",
        coin=0.0,
        share=1.0,
        epsilon=model.epsilon,
        delta=model.delta,
        alpha=model.alpha,
        beta=model.beta,
        gamma=model.gamma,
        examples=examples,
        declared=max(model.examples, examples),
        expected_error=model.alpha,
        deep_error=0.0,
        stopper_share=1.0,
        first_share=0.5,
        contamination=0.0,
        limits=model.limits,
        phases=phases,
        memory_bytes=max(phase.memory_bytes for phase in phases),
    )
    check_paper(plan)
    return plan


def _write_phase(model: Model, sides: int, index: int, phase: _Phase) -> PhasePlan:
    inner, part = instance_privacy(model.epsilon, phase.delta, sides)
    points = phase.sizes.points
    threshold = 2 * points
    # Alg. 4, step 2, and the scales of Algs. 2 and 3
    cap = threshold + math.ceil(8.0 / inner * math.log(2.0 / part) * math.log(phase.rounds / part))
    scale = inner / (4.0 * math.sqrt(cap * math.log(4.0 / part)))
    stopper_scale = inner / (8.0 * math.log(2.0 / part))
    low = math.ceil(phase.sizes.noise)
    start = InstancePlan(
        law="laplace",
        scale=scale,
        low=low,
        high=points - low,
        points=points + tail_reach(inner),
        trim=0,
        mediums=cap,
        instances=1,
        epsilon=inner,
        delta_between=part / 2.0,
        base=points,
        slice_scale=inner,
    )
    rearmed = InstancePlan(
        law="laplace",
        scale=scale,
        low=low,
        high=points - low,
        points=threshold + tail_reach(stopper_scale) + 1,
        trim=0,
        mediums=cap,
        instances=1,
        epsilon=inner,
        delta_between=part / 2.0,
    )
    pairs = start.points * sides * (sides + 1) // 2 + rearmed.points * sides
    return PhasePlan(
        phase=index + 1,
        rounds=phase.rounds,
        delta=phase.delta,
        delta_noise=0.0,
        alpha=model.alpha * 0.5 ** (index + 1),
        beta=model.beta * 0.5 ** (index + 1),
        margin=low * scale,
        start=start,
        rearmed=rearmed,
        stopper=StopperPlan(
            epsilon=inner,
            threshold=threshold,
            cap=cap,
            delta_cap=part / 2.0,
            law="laplace",
            scale=stopper_scale,
        ),
        memory_bytes=32 * pairs,
    )


def check_paper(plan: Plan) -> None:
    """Check what the paper's algorithms ask of their inputs, and the schedule of the nominal deltas.

    Raises:
        PlanError: A condition of Algorithm 3 or 4 does not hold, or the deltas sum to more than `plan.delta`.
    """
    for phase in plan.phases:
        inner, part = instance_privacy(plan.epsilon, phase.delta, len(plan.sides))
        gap, threshold, cap = phase.start.high - phase.start.low, phase.stopper.threshold, phase.stopper.cap
        for holds, condition in (
            (threshold >= 4.0 * math.log(4.0 / part), "k >= 4 log(4/delta), Algorithm 4"),
            (
                gap >= 32.0 / inner * math.sqrt(threshold * math.log(4.0 / part)) * (1.0 - 1e-9),
                "t_h - t_l, Algorithm 4",
            ),
            (gap >= 16.0 / inner * math.sqrt(cap * math.log(4.0 / part)), "t_h - t_l, Algorithm 3"),
        ):
            if not holds:
                msg = f"plan.phases[{phase.phase - 1}]: does not satisfy the condition on {condition}"
                raise PlanError(msg)
    spent = [plan.declared * plan.phases[0].delta, *(phase.rounds * phase.delta for phase in plan.phases)]
    if not math.fsum(spent) <= plan.delta:
        msg = f"plan.delta = {plan.delta!r}: the schedule spends {math.fsum(spent)!r}"
        raise PlanError(msg)


def check_runnable(plan: Plan) -> None:
    """Refuse a plan that no state can be made of.

    Raises:
        PlanError: A phase is longer than rounds can be numbered, its noise is wider than its tables can be, or it
            wants more memory than there could be.
    """
    longest = max(phase.rounds for phase in plan.phases)
    if longest > MAX_ROUNDS:
        msg = f"model.profile = 'paper': a phase of {longest:,} rounds; at most {MAX_ROUNDS:,} can be numbered"
        raise PlanError(msg)
    widest = min(min(phase.start.scale, phase.stopper.scale or 1.0) for phase in plan.phases)
    if widest < SMALLEST_SCALE:
        msg = f"model.profile = 'paper': noise of scale {1.0 / widest:,.0f}; at most {1.0 / SMALLEST_SCALE:,.0f}"
        raise PlanError(msg)
    if plan.memory_bytes > _LARGEST:
        msg = f"model.profile = 'paper': sides of {plan.memory_bytes:,} bytes; at most {_LARGEST:,}"
        raise PlanError(msg)
