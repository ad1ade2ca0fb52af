"""The `paper` planner: the constants that the proofs of Stemmer (2024) assert, solved for.

Sources: Algorithms 1 to 6, Definition 4.11, Lemmas 4.12 and 4.13, with the sizes that PRIVACY.md, Estimate 14 gives
them. With S sides in use, 2d stands as S. Epsilon and delta are nominal: Theorem 4.1 hides a constant (its delta, with
the delta_0 below, comes to 5 delta_p), and a query may pay for two protocols (Theorem 4.6). So is the probability of
missing alpha: Lemma 4.13 has 2 sum beta_p, and Definition 4.11 has k_p where Algorithm 4 draws with a larger k'.
"""

import math
from typing import Final, NamedTuple

from oracle.errors import PlanError
from oracle.mechanisms.addresses import MAX_ROUNDS, MAX_SIDES
from oracle.mechanisms.noise.tables import SMALLEST_SCALE, tail_reach
from oracle.planning.boxes.model import side_names
from oracle.planning.features import batch_bytes, key_bytes
from oracle.planning.model import Model, promises_of
from oracle.planning.plan import BoxPlan, InstancePlan, PhasePlan, StopperPlan

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

_LARGEST_STATE: Final = 2**31 - 2**20
"""Bytes of private arrays that fit into one snapshot."""

_SPARE_PAIRS: Final = 1024
"""Pairs that a window has room for beside twice its capacity."""

_LARGEST_TABLE: Final = 2**24
"""Edges of a noise table that are made in seconds: one for each point a side can hold."""


Promise = Model | BoxPlan
"""What states epsilon, delta, alpha, beta and gamma."""


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


def _constants(model: Promise, sides: int, rounds: int, delta: float, beta: float) -> _Constants:
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


def _rounds(model: Promise, sides: int, alpha: float, beta: float, points: int) -> int:
    """Return t_p, half of whose mean puts 2 m_{p+1} honest points into every stripe of phase p + 1."""
    rate = model.gamma * alpha
    return math.ceil(max(8.0 * sides * points, 16.0 * sides * math.log(sides / beta)) / rate)


def _examples(model: Promise, sides: int, points: int) -> int:
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
    raise PlanError(f"model.examples = {model.examples}: no number of examples near {declared} suffices")


def _phases(model: Model, sides: int, count: int) -> tuple[tuple[PhasePlan, ...], int]:
    """Size `count` phases, the last first, and return them with n."""
    found = [_later(model, sides, count, None)]
    for phase in range(count - 1, 1, -1):
        found.append(_later(model, sides, phase, found[-1].sizes.points))
    first, examples = _first(model, sides, found[-1].sizes.points)
    sized = [first, *reversed(found)]
    return tuple(_write_phase(model, sides, index, phase) for index, phase in enumerate(sized)), examples


def _state_bytes(phase: PhasePlan, sides: int, key: int) -> int:
    """Return the bytes of the private arrays of a phase, with a harvest for another one like it; `key` of each key."""
    points = key * sides * max(phase.start.points, phase.rearmed.points)
    return points + (key + 8) * _pairs(phase.start, phase.rearmed, sides)


def _pairs(start: InstancePlan, rearmed: InstancePlan, sides: int) -> int:
    """Return how many (key, record) pairs the harvest's and the collected mediums' windows keep."""
    return start.points * sides * (sides + 1) // 2 + rearmed.points * sides


def _obstacle(phase: PhasePlan, sides: int, key: int) -> str | None:
    """Say why a phase cannot be run, or None."""
    table = max(kind.points + kind.high - kind.low for kind in (phase.start, phase.rearmed))
    for what, figure, most in (
        ("rounds in a phase", phase.rounds, MAX_ROUNDS),
        ("points of depth as the noise's scale", 1.0 / phase.start.scale, 1.0 / SMALLEST_SCALE),
        ("entries in a noise table", table, _LARGEST_TABLE),
        ("bytes of private state", _state_bytes(phase, sides, key), _LARGEST_STATE),
    ):
        if figure > most:
            return f"{figure:,.0f} {what}; at most {most:,.0f} can be run"
    return None


def plan_paper(model: Model) -> BoxPlan:
    """Plan a run with the constants of the paper; `declared` is the number wanted where the model declares fewer.

    Formal guarantees:
        * None with explicit constants: `Plan.nominal` is True. The sum of the nominal deltas over the declared
          examples and all rounds is at most `model.delta`.
    """
    names = side_names(model)
    if len(names) > MAX_SIDES:
        raise PlanError(f"model.features: {len(names)} sides: at most {MAX_SIDES} are supported")
    phases, examples = _phases(model, len(names), _FEWEST)
    while len(phases) < _MOST:
        longer, wanted = _phases(model, len(names), len(phases) + 1)
        if _obstacle(longer[-1], len(names), key_bytes(model.features)):
            break
        phases, examples = longer, wanted
    for what, figure in (
        ("examples", examples),
        ("rounds in a phase", max(phase.rounds for phase in phases)),
        ("bytes of memory", max(phase.memory_bytes for phase in phases)),
    ):
        if figure > _LARGEST_COUNT:
            msg = f"model.profile = 'paper': its constants ask for {figure:.3g} {what}, more than a plan can say"
            raise PlanError(msg)
    plan = BoxPlan(
        **promises_of(model),
        profile="paper",
        sides=names,
        slicing="rsc",
        coin=0.0,
        share=1.0,
        examples=examples,
        declared=max(model.examples, examples),
        expected_error=model.alpha,
        deep_error=0.0,
        stopper_share=1.0,
        first_share=0.5,
        contamination=0.0,
        phases=phases,
        memory_bytes=max(phase.memory_bytes for phase in phases),
        nominal_privacy=True,
    )
    check_paper(plan)
    return plan


def _write_phase(model: Promise, sides: int, index: int, phase: _Phase) -> PhasePlan:
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
    tables = sum(kind.points + kind.high - kind.low for kind in (start, rearmed))
    points = sides * max(start.points, rearmed.points)
    key, batch = key_bytes(model.features), batch_bytes(model.features, sides)
    spare = 2 * sides * _SPARE_PAIRS * (key + 8) if batch else 0  # plans of numbers have never counted it
    windows = 2 * (key + 8) * _pairs(start, rearmed, sides) + spare
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
        memory_bytes=windows + 16 * tables + key * points + batch,
    )


def check_paper(plan: BoxPlan) -> None:
    """Check that every figure is what the constants of the proofs make it, and the schedule of the nominal deltas.

    Raises:
        PlanError: A phase's figures are others, it is too short for the next one, or the deltas sum to more than
            `plan.delta`.
    """
    sides = len(plan.sides)
    if plan.slicing != "rsc":
        raise PlanError(f"plan.slicing = {plan.slicing!r}: must be 'rsc', as in the paper")
    least = _examples(plan, sides, plan.phases[0].stopper.threshold // 2)
    if plan.examples < least:
        raise PlanError(f"plan.examples = {plan.examples}: must be at least {least}")
    for index, phase in enumerate(plan.phases):
        sizes = _constants(plan, sides, phase.rounds, phase.delta, phase.beta)
        if _write_phase(plan, sides, index, _Phase(phase.rounds, phase.delta, sizes)) != phase:
            raise PlanError(f"plan.phases[{index}]: its figures are not those of the paper's constants")
        if index + 1 < len(plan.phases):
            following = plan.phases[index + 1].stopper.threshold // 2
            if phase.rounds < _rounds(plan, sides, phase.alpha, phase.beta, following):
                msg = f"plan.phases[{index}].rounds = {phase.rounds}: too few to fill the sides of the next phase"
                raise PlanError(msg)
    spent = [plan.declared * plan.phases[0].delta, *(phase.rounds * phase.delta for phase in plan.phases)]
    if not math.fsum(spent) <= plan.delta:
        raise PlanError(f"plan.delta = {plan.delta!r}: the schedule spends {math.fsum(spent)!r}")


def check_runnable(plan: BoxPlan) -> None:
    """Refuse a plan that no state can be made of.

    Raises:
        PlanError: A phase is longer than rounds can be numbered, its noise is wider or its tables are longer than can
            be, or its private arrays do not fit into a snapshot.
    """
    for phase in plan.phases:
        obstacle = _obstacle(phase, len(plan.sides), key_bytes(plan.features))
        if obstacle:
            raise PlanError(f"model.profile = 'paper': phase {phase.phase} asks for {obstacle}")
