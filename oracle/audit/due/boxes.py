"""What a `tight` plan of boxes or stumps owes (PRIVACY.md, Theorem 10, 11 and 15), and whether its promise holds."""

import math
from collections.abc import Iterator
from typing import Final

from msgspec import UNSET

from oracle.audit.due.bounds import answer_tables, comparisons_tables, few_successes, overflow
from oracle.audit.due.game import Game
from oracle.audit.due.parts import Due, at_least, at_most, price, truth_dues
from oracle.planning.plan import BoxPlan, InstancePlan, PhasePlan
from oracle.planning.stumps.model import StumpsPlan

__all__ = ["box_dues"]

_EDGES: Final = 1 << 28
"""More edges than a threshold's draw is compared with."""

_MOST_SIDES: Final = 2**10
"""An address has ten bits for the side."""

_LOST: Final = 0.9
"""Part of a stripe that is lost at most: Estimate 14."""

_PROBABLE: Final = 1.0 + 1e-6


def box_dues(plan: BoxPlan) -> Iterator[Due]:
    """Yield all comparisons, those about privacy first."""
    yield from _sides(plan)
    yield from truth_dues(plan)
    chosen = 0.0
    starts: list[tuple[float, float, float]] = []
    if isinstance(plan, StumpsPlan):
        law = plan.selection.cut_law
        yield Due("selection.cut_law", "the cut is chosen, as Theorem 10 has it", law == "choice", law)
        chosen = plan.selection.scale + 2.0 * plan.selection.cut_scale
        stated = plan.selection.epsilon + plan.selection.cut_epsilon
        yield at_least("selection", "epsilon of choice and cut, together", stated * _PROBABLE, chosen)
    if plan.scale is not UNSET:
        edge = 2.0 * plan.scale.scale
        starts += [(0.0, edge, edge)] * len(plan.sides)
    if plan.check is not UNSET:
        starts.append((plan.check.epsilon, plan.check.epsilon, 2.0 * plan.check.epsilon))
    for index, phase in enumerate(plan.phases):
        yield from _phase(plan, index, phase, chosen if index == 0 else 0.0, tuple(starts) if index == 0 else ())
    yield from _promise(plan)


def _one_record(plan: BoxPlan) -> int:
    return 1 if plan.slicing == "faces" else len(plan.sides)


def _sides(plan: BoxPlan) -> Iterator[Due]:
    used = sum({"none": 0, "both": 2}.get(feature.sides, 1) for feature in plan.features)
    wanted = 1 if isinstance(plan, StumpsPlan) else used
    yield Due("sides", "as many as the features have", len(plan.sides) == wanted, f"{len(plan.sides)}, of {wanted}")
    yield at_most("sides", "each has noise of its own", len(plan.sides), _MOST_SIDES)
    if plan.scale is not UNSET:
        yield at_least("scale.rank", "an edge without a loss is aimed at", plan.scale.rank, 1)
    if plan.check is not UNSET:
        yield at_least("check.stripe", "so many outermost rows are counted, however they come", plan.check.stripe, 0)
    proved = plan.slicing in {"faces", "sequential"}
    yield Due("slicing", "a rule that Lemma 3 is about", proved, plan.slicing)


def _phase(
    plan: BoxPlan, index: int, phase: PhasePlan, chosen: float, starts: tuple[tuple[float, float, float], ...]
) -> Iterator[Due]:
    where, stopper = f"phases[{index}]", phase.stopper
    sole = stopper.law is UNSET and stopper.scale is UNSET
    yield Due(f"{where}.stopper", "the law of Theorem 7, at its epsilon", sole, f"epsilon = {stopper.epsilon:g}")
    if not (stopper.epsilon > 0.0 and 1 <= stopper.threshold <= stopper.cap):
        yield Due(f"{where}.stopper", "it halts, and before its cap", holds=False, says=f"{stopper}")
        return
    passed = overflow(stopper.epsilon, stopper.threshold, stopper.cap)
    yield at_least(f"{where}.stopper.delta_cap", "what passes the cap", stopper.delta_cap * _PROBABLE, passed)
    before = plan.phases[index - 1].delta if index else math.inf
    truth = 0.0 if plan.truth is UNSET else plan.truth.epsilon
    told = chosen if index == 0 else truth  # training rows, who have no truth, start phase 1
    for name, instance, parts, left, delta in (
        ("start", phase.start, _one_record(plan), plan.epsilon - told, min(phase.delta, before)),
        ("rearmed", phase.rearmed, 1, plan.epsilon - stopper.epsilon - truth, phase.delta),
    ):
        here = f"{where}.{name}"
        mediums = parts * stopper.cap
        yield at_least(f"{here}.instances", "instances that one record may sit in", instance.instances, parts)
        yield at_least(f"{here}.mediums", "mediums that all of these may answer", instance.mediums, mediums)
        bare = instance.base is UNSET and instance.slice_scale is UNSET and instance.law == "logistic"
        yield Due(here, "logistic noise on slices of whole numbers", bare, instance.law)
        if not bare:
            continue
        yield at_most(f"{here}.epsilon", "its share and what else is paid", instance.epsilon, left * _PROBABLE)
        compared = comparisons_tables(parts * phase.rounds, 0.0)
        yield at_least(f"{where}.delta_noise", "comparisons with a Stopper's edges", phase.delta_noise, compared)
        tables = comparisons_tables(parts * (phase.rounds + _EDGES), stopper.epsilon)
        others = parts * passed + tables
        yield from price(
            here,
            Game(instance.scale, instance.high - instance.low, mediums, left, starts=starts if name == "start" else ()),
            delta,
            others,
            answer_tables(instance.scale, phase.rounds * parts) if instance.scale > 0.0 else 1.0,
        )


def _promise(plan: BoxPlan) -> Iterator[Due]:
    """Yield what only the error rests on: Estimate 14."""
    sides, last = len(plan.sides), len(plan.phases) - 1
    for index, phase in enumerate(plan.phases):
        where = f"phases[{index}]"
        for name, instance in (("start", phase.start), ("rearmed", phase.rearmed)):
            yield at_least(
                f"{where}.{name}", "room on both ends", _room(instance) * _PROBABLE, phase.margin, promise=True
            )
        enough = phase.stopper.threshold > phase.rearmed.points
        yield Due(f"{where}.stopper.threshold", "a side is armed with as many as it holds", enough, "", promise=True)
        if index < last:
            following = plan.phases[index + 1]
            rate = plan.gamma * following.alpha * plan.share / sides
            wanted = following.start.points + following.start.trim
            missed = few_successes(phase.rounds, min(rate, 1.0), wanted) if rate > 0.0 else 1.0
            what = "the next phase's sides are filled"
            yield at_most(f"{where}.rounds", what, missed, phase.beta / (4.0 * sides) * _PROBABLE, promise=True)
    first = plan.phases[0]
    rate = first.alpha * plan.share / sides
    missed = few_successes(plan.examples, min(rate, 1.0), first.start.points + first.start.trim) if rate > 0.0 else 1.0
    betas = math.fsum(phase.beta for phase in plan.phases)
    rest = plan.beta / (4.0 if isinstance(plan, StumpsPlan) else 2.0)
    yield at_most("examples", "the first sides are filled", missed, rest / sides * _PROBABLE, promise=True)
    yield at_most("beta", "all phases' chances of missing", betas, plan.beta * _PROBABLE, promise=True)
    deep = sides * math.exp(min(plan.contamination - min(phase.margin for phase in plan.phases), 50.0))
    yield at_least("deep_error", "of queries far inside", plan.deep_error * _PROBABLE, deep, promise=True)
    error = _LOST * math.fsum(phase.alpha for phase in plan.phases) + deep
    error += plan.selection.error if isinstance(plan, StumpsPlan) else 0.0
    yield at_least("expected_error", "of all stripes", plan.expected_error * _PROBABLE, error, promise=True)
    yield at_most("expected_error", "the error promised", plan.expected_error, plan.alpha * _PROBABLE, promise=True)


def _room(instance: InstancePlan) -> float:
    return instance.scale * (min(instance.low, instance.points - instance.high) - 0.5)
