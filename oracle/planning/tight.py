"""The `tight` planner: the least number of training examples, over the shares of the privacy document's section 6."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import scipy  # which loads its parts when they are asked for
from numpy.typing import NDArray

from oracle.accounting.between_thresholds import TABLE_REACH
from oracle.errors import PlanError
from oracle.mechanisms.addresses import MAX_ROUNDS, MAX_SIDES
from oracle.mechanisms.noise import Law
from oracle.planning.box_model import BoxModel
from oracle.planning.guarantees import noise_delta, verify
from oracle.planning.harvest import trials_for
from oracle.planning.model import Model
from oracle.planning.plan import BoxPlan, InstancePlan, PhasePlan, StopperPlan, refuse_too_few
from oracle.planning.sizes import CAP_SHARE, NOISE_SHARE, Shares, SizedInstance, SizedPhase, size_phase

__all__ = ["COIN", "SEARCH_STEPS", "least_examples", "plan_or_wish", "plan_tight", "side_names"]

COIN: Final = 0.2
"""Probability of a uniformly random side under `faces`."""

_DEEP_SHARE: Final = 0.02
"""Part of alpha left for queries far inside; the margin is never smaller than it asks."""

_NEAR: Final = 0.1
"""For uniform features, the chance that another feature's face is as near as the nearest (see `slicing.Faces`)."""

_LAW: Final[Law] = "logistic"
"""Law of the noise: at the same guarantee it needs about half the points that discrete Laplace noise needs."""

_LONGEST: Final = 49
"""Phases are tried until one would last about 2^49 rounds; the plan keeps those that the round field and the noise's
precision allow."""

_SAFE: Final = 1.0 - 1e-9
"""Keeps the sum of the deltas below delta_star, however it is rounded."""

_CAPS: Final = 12
"""Tries at a cap on the later phases' deltas; one is enough but for extreme numbers of examples."""

_LOSS: Final = 0.9
"""Part of a side's stripe that is lost at most (utility; the privacy document estimates 0.8 for the worst adversary,
and 0.40 to 0.67 were simulated). Everything beyond the stripe is answered right, but for the deep error."""

SEARCH_STEPS: Final = 90
"""Sizes that the search tries at most."""

_LOWEST: Final = np.array([0.3, 0.3, 0.01, 0.3])
_HIGHEST: Final = np.array([0.95, 10.0, 0.6, 0.97])
_FIRST_GUESS: Final = np.array([0.9, 3.0, 0.1, 0.8])


@dataclass(frozen=True, slots=True)
class _Task:
    """What the search keeps fixed."""

    model: BoxModel
    sides: int
    share: float

    @property
    def start_instances(self) -> int:
        return self.sides if self.model.slicing == "sequential" else 1


@dataclass(frozen=True, slots=True)
class _Draft:
    """A sized run, before it is written down."""

    phases: tuple[SizedPhase, ...]
    rounds: tuple[int, ...]
    deltas: tuple[float, ...]
    alphas: tuple[float, ...]
    examples: int


def side_names(model: Model) -> tuple[str, ...]:
    """Return the sides in use, in the order of Stemmer (2024), Alg. 6: left_1, right_1, left_2, ..."""
    return tuple(
        f"{feature.name}:{side}"
        for feature in model.features
        for side in ("lower", "upper")
        if feature.sides in (side, "both")
    )


def _faces_share(model: Model, sides: int) -> float:
    """Return the part of a side's stripe that `faces` gives it when the features are uniform and independent.

    With d features in play the nearest face shares with Bin(d - 1, 0.1) others: E[1/(1 + Bin)] = (1 - 0.9^d)/(0.1 d).
    """
    if sides == 1:
        return 1.0
    dimension = sum(feature.sides != "none" for feature in model.features)
    return (1.0 - COIN) * (1.0 - (1.0 - _NEAR) ** dimension) / (_NEAR * dimension) + COIN / sides


def _alphas(task: _Task, shares: Shares, count: int) -> tuple[float, ...]:
    """Return the stripes' masses: alpha_1 = first, alpha_p = (1 - first) 2^-(p-1), of all that may be lost."""
    total = task.model.alpha * (1.0 - _DEEP_SHARE) / _LOSS
    return (shares.first * total, *((1.0 - shares.first) * total * 0.5 ** (p - 1) for p in range(2, count + 1)))


def _beta(task: _Task, phase: int) -> float:
    """beta_p = beta 2^-(p+1); the training set has the other half of beta."""
    return float(task.model.beta * 0.5 ** (phase + 1))


def _harvest_rounds(task: _Task, alpha: float, phase: int, points: int) -> int:
    """Return t_p: every side sees `points` honest positives in its stripe of mass alpha/S, but with prob. beta_p/4."""
    rate = task.model.gamma * alpha * task.share / task.sides
    return trials_for(points + task.model.trim, rate, _beta(task, phase) / (4.0 * task.sides))


def _size(task: _Task, shares: Shares, phase: int, rounds: int, delta: float) -> SizedPhase:
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
    )


def _later_delta(task: _Task, phase: int, rounds: int, cap: float) -> float:
    """Return delta_p = delta_star 2^-p / t_p for p >= 2, but at most `cap`."""
    return min(task.model.delta * 0.5**phase / rounds * _SAFE, cap)


def _last(task: _Task, shares: Shares, phase: int, alpha: float, cap: float) -> tuple[int, float, SizedPhase]:
    """Size the last phase as if the one after it needed as many points."""
    points = 4000.0 / min(task.model.epsilon, 2.0) ** 2
    rounds = max(round(2.0 * points * task.sides / (task.model.gamma * alpha)), 1000)
    for _ in range(2):
        sized = _size(task, shares, phase, rounds, _later_delta(task, phase, rounds, cap))
        rounds = _harvest_rounds(task, alpha / 2.0, phase, sized.start.points)
    delta = _later_delta(task, phase, rounds, cap)
    return rounds, delta, _size(task, shares, phase, rounds, delta)


def _draft(task: _Task, shares: Shares, count: int, examples: int | None) -> _Draft:
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


def _draft_under(task: _Task, shares: Shares, count: int, examples: int | None, cap: float) -> _Draft:
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
                sized.start.points + task.model.trim,
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
    return _Draft(
        tuple(phase for _, _, phase in found),
        tuple(length for length, _, _ in found),
        tuple(part for _, part, _ in found),
        alphas,
        needed,
    )


def _search(task: _Task, progress: Callable[[int], None] = lambda _step: None) -> Shares:
    """Minimise n over the shares by Nelder-Mead in the box's logit coordinates; two phases stand for all."""

    def shares_at(point: NDArray[np.float64]) -> Shares:
        inside = _LOWEST + (_HIGHEST - _LOWEST) / (1.0 + np.exp(-np.clip(point, -30.0, 30.0)))
        contamination, gap, stopper, first = (float(round(value, 4)) for value in inside)
        return Shares(contamination, gap, stopper, task.model.first_share or first)

    steps = itertools.count(1)

    def objective(point: NDArray[np.float64]) -> float:
        progress(next(steps))
        return math.log(_draft(task, shares_at(point), 2, None).examples)

    unit = (_FIRST_GUESS - _LOWEST) / (_HIGHEST - _LOWEST)
    start = np.log(unit / (1.0 - unit))
    found = scipy.optimize.minimize(
        objective, start, method="Nelder-Mead", options={"maxfev": SEARCH_STEPS, "xatol": 3e-2, "fatol": 3e-4}
    )
    return shares_at(found.x)


def _horizon(task: _Task, draft: _Draft) -> int:
    """Return how many phases the round field and the noise's precision allow."""
    allowed = 0
    for rounds, delta, sized in zip(draft.rounds, draft.deltas, draft.phases, strict=True):
        fine = noise_delta(sized.stopper_epsilon, rounds, task.start_instances) <= NOISE_SHARE * delta
        reach = max(kind.scale * (kind.points + 1) for kind in (sized.start, sized.rearmed))
        if rounds > MAX_ROUNDS or reach > TABLE_REACH or not fine:
            break
        allowed += 1
    return allowed


def _task(model: BoxModel) -> _Task:
    sides = len(side_names(model))
    if sides > MAX_SIDES:
        msg = f"model.features: {sides} sides: at most {MAX_SIDES} are supported"
        raise PlanError(msg)
    if model.slicing == "sequential":
        return _Task(model, sides, 1.0)
    return _Task(model, sides, model.share or _faces_share(model, sides))


def least_examples(model: BoxModel) -> int:
    """Return the least number of training examples that `plan_tight` accepts for a model, whatever it declares."""
    task = _task(model)
    shares = _search(task)
    return _least(task, shares, _count(task, shares, model.examples))


def _count(task: _Task, shares: Shares, examples: int) -> int:
    first = _draft(task, shares, 2, examples).rounds[0]
    count = max(_LONGEST - first.bit_length(), 2)
    return _horizon(task, _draft(task, shares, count, examples))


def _least(task: _Task, shares: Shares, count: int) -> int:
    """Return an n that suffices when it is declared (delta_1 depends on it)."""
    examples = _draft(task, shares, max(count, 2), None).examples
    while (needed := _draft(task, shares, max(count, 2), examples).examples) > examples:
        examples = needed
    return examples


def plan_tight(model: BoxModel, progress: Callable[[int], None] = lambda _step: None) -> BoxPlan:
    """Plan a run that a state can be made of (see `plan_or_wish`).

    Raises:
        PlanError: The declared examples are fewer than the least that works, or a size is out of range.
    """
    plan = plan_or_wish(model, progress)
    refuse_too_few(model, plan)
    return plan


def plan_or_wish(model: BoxModel, progress: Callable[[int], None] = lambda _step: None) -> BoxPlan:
    """Plan a run, as if just enough examples were declared where the model declares too few.

    Formal guarantees:
        * Every (epsilon, delta) in the plan was handed to the accountant and holds (`guarantees.verify`).
        * The sum of delta over the declared examples and all rounds is at most `model.delta`.
        * Nothing but the model file enters.

    Args:
        model: The model.
        progress: Called after each of about `SEARCH_STEPS` steps.

    Raises:
        PlanError: A size is out of range.
    """
    task = _task(model)
    shares = _search(task, progress)
    count = _count(task, shares, model.examples)
    if count < 2:  # noqa: PLR2004 -- an everlasting oracle needs a phase to go on to
        msg = f"model.delta = {model.delta!r}: a second phase would be longer than noise of 128 bits allows"
        raise PlanError(msg)
    draft = _draft(task, shares, count, model.examples)
    if draft.examples > model.examples:
        least = _least(task, shares, count)
        task = _Task(msgspec.structs.replace(model, examples=least), task.sides, task.share)
        draft = _draft(task, shares, count, least)
    plan = _write(task, shares, draft)
    verify(plan)
    return plan


def _write(task: _Task, shares: Shares, draft: _Draft) -> BoxPlan:
    model = task.model
    phases = tuple(_write_phase(task, draft, index, _memory(task, draft, index)) for index in range(len(draft.phases)))
    deep = task.sides * math.exp(shares.contamination - min(phase.margin for phase in draft.phases))
    return BoxPlan(
        name=model.name,
        predictor=model.predictor,
        profile=model.profile,
        features=model.features,
        sides=side_names(model),
        slicing=model.slicing,
        coin=COIN if model.slicing == "faces" and task.sides > 1 else 0.0,
        share=task.share,
        epsilon=model.epsilon,
        delta=model.delta,
        alpha=model.alpha,
        beta=model.beta,
        gamma=model.gamma,
        examples=draft.examples,
        declared=model.examples,
        expected_error=_LOSS * sum(draft.alphas) + deep,
        deep_error=deep,
        stopper_share=shares.stopper,
        first_share=shares.first,
        contamination=shares.contamination,
        limits=model.limits,
        phases=phases,
        memory_bytes=max(phase.memory_bytes for phase in phases),
    )


def _write_instance(task: _Task, sized: SizedInstance, delta: float, *, start: bool) -> InstancePlan:
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


def _write_phase(task: _Task, draft: _Draft, index: int, memory: int) -> PhasePlan:
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


def _memory(task: _Task, draft: _Draft, index: int) -> int:
    """Bytes of the private arrays (twice the kept pairs, see `Window`) and of the noise tables."""
    sized = draft.phases[index]
    following = draft.phases[min(index + 1, len(draft.phases) - 1)]
    keep = following.start.points + task.model.trim
    pairs = [keep * (side + 1 if task.model.slicing == "sequential" else 1) for side in range(task.sides)]
    windows = sum(16 * (2 * pair + 1024) for pair in pairs) + task.sides * 16 * (2 * sized.rearmed.points + 1024)
    points = task.sides * 8 * max(sized.start.points, sized.rearmed.points)
    tables = sum(16 * (kind.points + kind.high - kind.low + 2) for kind in (sized.start, sized.rearmed))
    stopper = 32 * round(128 / sized.stopper_epsilon)
    return windows + points + tables + stopper
