"""Drafts of a `tight` plan: the phases that given shares make, sized from the last to the first."""

import math
from dataclasses import dataclass
from typing import Final

from oracle.accounting.between_thresholds import TABLE_REACH
from oracle.errors import PlanError
from oracle.mechanisms.addresses import MAX_ROUNDS
from oracle.mechanisms.noise.tables import Law
from oracle.planning.boxes.harvest import trials_for
from oracle.planning.boxes.model import BoxModel
from oracle.planning.features import batch_bytes, key_bytes
from oracle.planning.guarantees import noise_delta
from oracle.planning.plan import InstancePlan, PhasePlan, StopperPlan
from oracle.planning.sizes import CAP_SHARE, NOISE_SHARE, Shares, SizedInstance, SizedPhase, size_phase

__all__ = [
    "Draft",
    "Task",
    "count_allowed",
    "count_phases",
    "draft_error",
    "draft_phases",
    "stripes_mass",
    "write_phases",
]

_DEEP_SHARE: Final = 0.02
"""Part of alpha left for queries far inside; the margin is never smaller than it asks."""

_LAW: Final[Law] = "logistic"
"""Law of the noise: at the same guarantee it needs about half the points that discrete Laplace noise needs."""

_LONGEST: Final = 49
"""Phases are tried until one would last about 2^49 rounds; the plan keeps those that the round field and the noise's
precision allow."""

_FEWEST: Final = 2
"""Phases of a plan at least."""

_SAFE: Final = 1.0 - 1e-9
"""Keeps the sum of the deltas below delta_star, however it is rounded."""

_CAPS: Final = 12
"""Tries at a cap on the later phases' deltas; one is enough but for extreme numbers of examples."""

_LOSS: Final = 0.9
"""Part of a side's stripe that is lost at most (utility; PRIVACY.md, Estimate 14: 0.8 for the worst adversary,
and 0.40 to 0.67 were simulated). Everything beyond the stripe is answered right, but for the deep error."""


@dataclass(frozen=True, slots=True)
class Task:
    """What the search keeps fixed.

    Attributes:
        model: The promises.
        sides: S.
        share: Part of a side's stripe that its slice gets.
        released: Nats that a training record pays for what was released before phase 1; its instance has the rest.
        rho: Of what else was released before: it shares the same nats with the instance.
        reserve: Points that each side of phase 1 is to hold beyond those it needs.
        quick: Whether scales are found by Theorem 5 alone: while shares are searched for.
    """

    model: BoxModel
    sides: int
    share: float
    released: float = 0.0
    rho: float = 0.0
    reserve: int = 0
    quick: bool = False

    @property
    def start_instances(self) -> int:
        """Instances that one record may sit in when a phase starts."""
        return self.sides if self.model.slicing == "sequential" else 1


@dataclass(frozen=True, slots=True)
class Draft:
    """A sized run, before it is written down."""

    phases: tuple[SizedPhase, ...]
    rounds: tuple[int, ...]
    deltas: tuple[float, ...]
    alphas: tuple[float, ...]
    examples: int


def stripes_mass(model: BoxModel) -> float:
    """Return the mass of all sides' stripes of all phases."""
    return model.alpha * (1.0 - _DEEP_SHARE) / _LOSS


def _alphas(task: Task, shares: Shares, count: int) -> tuple[float, ...]:
    """Return the stripes' masses: alpha_1 = first, alpha_p = (1 - first) 2^-(p-1), of all that may be lost."""
    total = stripes_mass(task.model)
    return (shares.first * total, *((1.0 - shares.first) * total * 0.5 ** (p - 1) for p in range(2, count + 1)))


def _beta(task: Task, phase: int) -> float:
    """beta_p = beta 2^-(p+1); the training set has the other half of beta."""
    return float(task.model.beta * 0.5 ** (phase + 1))


def _harvest_rounds(task: Task, alpha: float, phase: int, points: int) -> int:
    """Return t_p: every side sees `points` honest positives in its stripe of mass alpha/S, but with prob. beta_p/4."""
    rate = task.model.gamma * alpha * task.share / task.sides
    return trials_for(points + task.model.trim, rate, _beta(task, phase) / (4.0 * task.sides))


def _size(task: Task, shares: Shares, phase: int, rounds: int, delta: float) -> SizedPhase:
    return size_phase(
        law=_LAW,
        epsilon=task.model.epsilon,
        delta=delta,
        rounds=rounds,
        sides=task.sides,
        shares=shares,
        beta=_beta(task, phase),
        least_margin=math.log(task.sides / (_DEEP_SHARE * task.model.alpha)) + shares.contamination,
        start_instances=task.start_instances,
        start_epsilon=task.model.epsilon - (task.released if phase == 1 else 0.0),
        start_rho=task.rho if phase == 1 else 0.0,
        quick=task.quick,
    )


def _later_delta(task: Task, phase: int, rounds: int, cap: float) -> float:
    """Return delta_p = delta_star 2^-p / t_p for p >= 2, but at most `cap`."""
    return min(task.model.delta * 0.5**phase / rounds * _SAFE, cap)


def _last(task: Task, shares: Shares, phase: int, alpha: float, cap: float) -> tuple[int, float, SizedPhase]:
    """Size the last phase as if the one after it needed as many points."""
    points = 4000.0 / min(task.model.epsilon, 2.0) ** 2
    rounds = max(round(2.0 * points * task.sides / (task.model.gamma * alpha)), 1000)
    for _ in range(2):
        sized = _size(task, shares, phase, rounds, _later_delta(task, phase, rounds, cap))
        rounds = _harvest_rounds(task, alpha / 2.0, phase, sized.start.points)
    delta = _later_delta(task, phase, rounds, cap)
    return rounds, delta, _size(task, shares, phase, rounds, delta)


def draft_phases(task: Task, shares: Shares, count: int, examples: int | None) -> Draft:
    """Size `count` phases so that no phase's delta is above the first one's.

    A query of phase p sits in a start instance of phase p + 1, which is sized at delta_{p+1}: that must not be above
    delta_p. The deltas fall by themselves but for delta_1, which many declared examples make small.
    """
    draft = _draft_under(task, shares, count, examples, math.inf)
    for _ in range(_CAPS):
        if draft.deltas[0] >= max(draft.deltas[1:]):
            return draft
        draft = _draft_under(task, shares, count, examples, 0.97 * draft.deltas[0])
    msg = f"model.examples = {task.model.examples}: delta_1 = {draft.deltas[0]:.3g} is too small for the later phases"
    raise PlanError(msg)


def _draft_under(task: Task, shares: Shares, count: int, examples: int | None, cap: float) -> Draft:
    """Size `count` phases, the last first: a phase lasts until the next one's sides are full.

    Args:
        task: What is fixed.
        shares: What is searched.
        count: Number of phases, at least 2.
        examples: n that delta_1 is shared by; None for the least n that works.
        cap: Bound on the delta of every phase but the first.
    """
    alphas = _alphas(task, shares, count)
    rounds, delta, sized = _last(task, shares, count, alphas[-1], cap)
    found = [(rounds, delta, sized)]
    for phase in range(count - 1, 1, -1):
        rounds = _harvest_rounds(task, alphas[phase], phase, sized.start.points)
        delta = _later_delta(task, phase, rounds, cap)
        sized = _size(task, shares, phase, rounds, delta)
        found.append((rounds, delta, sized))
    rounds = _harvest_rounds(task, alphas[1], 1, sized.start.points)
    needed = examples or round(sized.start.points * task.sides / (alphas[0] * task.share))
    for _ in range(12):
        # delta_1 = delta_star / (2 (n + t_1)): half of delta_star for the training set and phase 1
        delta = task.model.delta / (2.0 * ((examples or needed) + rounds)) * _SAFE
        sized = _size(task, shares, 1, rounds, delta)
        before, needed = (
            needed,
            trials_for(
                sized.start.points + task.model.trim + task.reserve,
                alphas[0] * task.share / task.sides,
                task.model.beta / (2.0 * task.sides),
            ),
        )
        if examples is not None or needed <= before <= 1.001 * needed:
            needed = needed if examples is not None else before
            break
        needed = math.ceil(1.0002 * needed)
    found.append((rounds, delta, sized))
    found.reverse()
    return Draft(
        tuple(phase for _, _, phase in found),
        tuple(length for length, _, _ in found),
        tuple(part for _, part, _ in found),
        alphas,
        needed,
    )


def count_allowed(task: Task, draft: Draft) -> int:
    """Return how many phases the round field and the noise's precision allow.

    Raises:
        PlanError: Not even two, and an everlasting oracle needs a phase to go on to.
    """
    allowed = 0
    for rounds, delta, sized in zip(draft.rounds, draft.deltas, draft.phases, strict=True):
        fine = noise_delta(sized.stopper_epsilon, rounds, task.start_instances) <= NOISE_SHARE * delta
        reach = max(kind.scale * (kind.points + 1) for kind in (sized.start, sized.rearmed))
        if rounds > MAX_ROUNDS or reach > TABLE_REACH or not fine:
            break
        allowed += 1
    if allowed < _FEWEST:
        msg = f"model.delta = {task.model.delta!r}: a second phase would be longer than noise of 128 bits allows"
        raise PlanError(msg)
    return allowed


def count_phases(task: Task, shares: Shares, examples: int) -> int:
    """Return how many phases can be planned, at least 2.

    Raises:
        PlanError: Not even two can.
    """
    first = draft_phases(task, shares, _FEWEST, examples).rounds[0]
    count = max(_LONGEST - first.bit_length(), _FEWEST)
    while True:
        try:
            allowed = count_allowed(task, draft_phases(task, shares, count, examples))
        except PlanError:  # a late phase may be beyond what noise tables can be, where the early ones are not
            if count == _FEWEST:
                raise
            allowed = max(count // 2, _FEWEST)
        if allowed == count:
            return count
        count = allowed  # which gives each of them a little more room, and so other sizes


def draft_error(task: Task, shares: Shares, draft: Draft) -> tuple[float, float]:
    """Return the error that a draft stays below on honest queries, and the part of it that those far inside pay."""
    deep = task.sides * math.exp(shares.contamination - min(phase.margin for phase in draft.phases))
    return _LOSS * sum(draft.alphas) + deep, deep


def write_phases(task: Task, draft: Draft) -> tuple[PhasePlan, ...]:
    """Return a draft's phases as a plan has them."""
    return tuple(_write_phase(task, draft, index, _memory(task, draft, index)) for index in range(len(draft.phases)))


def _write_instance(task: Task, sized: SizedInstance, delta: float, *, start: bool) -> InstancePlan:
    return InstancePlan(
        law=_LAW,
        scale=sized.scale,
        low=sized.low,
        high=sized.high,
        points=sized.points,
        trim=task.model.trim if start else 0,
        mediums=sized.mediums,
        instances=task.start_instances if start else 1,
        epsilon=sized.epsilon,
        delta_between=delta,
    )


def _write_phase(task: Task, draft: Draft, index: int, memory: int) -> PhasePlan:
    sized, delta, rounds = draft.phases[index], draft.deltas[index], draft.rounds[index]
    noise = noise_delta(sized.stopper_epsilon, rounds, task.start_instances)
    between = delta * (1.0 - CAP_SHARE - NOISE_SHARE)
    return PhasePlan(
        phase=index + 1,
        rounds=rounds,
        delta=delta,
        delta_noise=noise,
        alpha=draft.alphas[index],
        beta=_beta(task, index + 1),
        margin=sized.margin,
        start=_write_instance(task, sized.start, between, start=True),
        rearmed=_write_instance(task, sized.rearmed, between, start=False),
        stopper=StopperPlan(
            epsilon=sized.stopper_epsilon,
            threshold=sized.threshold,
            cap=sized.cap,
            delta_cap=delta * CAP_SHARE / task.start_instances,
        ),
        memory_bytes=memory,
    )


def _memory(task: Task, draft: Draft, index: int) -> int:
    """Bytes of the private arrays (twice the kept pairs, see `Window`), noise tables, and a batch of strings."""
    sized = draft.phases[index]
    following = draft.phases[min(index + 1, len(draft.phases) - 1)]
    key = key_bytes(task.model.features)
    pair_bytes = key + 8  # of a key and its record's number
    keep = following.start.points + task.model.trim
    pairs = [keep * (side + 1 if task.model.slicing == "sequential" else 1) for side in range(task.sides)]
    kept = sum(2 * pair + 1024 for pair in pairs) + task.sides * (2 * sized.rearmed.points + 1024)
    windows = pair_bytes * kept
    points = task.sides * key * max(sized.start.points, sized.rearmed.points)
    tables = sum(16 * (kind.points + kind.high - kind.low + 2) for kind in (sized.start, sized.rearmed))
    stopper = 32 * round(128 / sized.stopper_epsilon)
    return windows + points + tables + stopper + batch_bytes(task.model.features, task.sides)
