"""What the figures of a box's plan must be at least, from what its predictor runs; what they say decides nothing here.

The accountant proves a delta for the K that it is given. That K, the number of instances and each share of epsilon and
delta are stated in the plan, and this is where they are derived again (PRIVACY.md, Theorem 11).
"""

import math
from collections.abc import Iterator
from typing import Final

from msgspec import UNSET

from oracle.accounting.stopper import log_overflow
from oracle.mechanisms.addresses import MAX_ROUNDS, MAX_SIDES
from oracle.mechanisms.noise.tables import SMALLEST_SCALE
from oracle.planning.boxes.model import side_names
from oracle.planning.plan import BoxPlan, InstancePlan, PhasePlan
from oracle.planning.questions import STEEPEST
from oracle.planning.stumps.model import StumpsPlan

__all__ = ["Fault", "chosen_epsilon", "form_faults", "share_faults"]

_ROUNDED: Final = 1.0 + 1e-12
"""Above the rounding of sums of shares."""

Fault = tuple[str, object, str]
"""Where it is, what stands there, and what must."""


def form_faults(plan: BoxPlan) -> Iterator[Fault]:
    """Yield what no theorem is about, and what is counted for fewer answers or instances than there may be."""
    yield from _form(plan)
    yield from _sides(plan)
    yield from _released(plan)
    yield from _truth(plan)
    for index, phase in enumerate(plan.phases):
        yield from _stopper(f"phases[{index}].stopper", phase)
        for name, instance, sides in (("start", phase.start, _parts(plan)), ("rearmed", phase.rearmed, 1)):
            yield from _instance(f"phases[{index}].{name}", instance, phase.stopper.cap, sides)


def share_faults(plan: BoxPlan, index: int) -> Iterator[Fault]:
    """Yield shares of a phase's epsilon and delta that do not fit into the whole, or are below what they pay for."""
    phase, where = plan.phases[index], f"phases[{index}]"
    stopper = phase.stopper
    passed = math.exp(log_overflow(stopper.epsilon, stopper.threshold, stopper.cap))
    if not passed <= stopper.delta_cap * _ROUNDED:
        bound = f"more mediums than the cap pass with probability {passed!r}"
        yield f"{where}.stopper.delta_cap", stopper.delta_cap, bound
    truth = 0.0 if plan.truth is UNSET else plan.truth.epsilon  # a query's: training rows start phase 1
    for name, instance, others in (
        ("start", phase.start, chosen_epsilon(plan) if index == 0 else truth),
        ("rearmed", phase.rearmed, stopper.epsilon + truth),
    ):
        if not 0.0 < instance.epsilon <= (plan.epsilon - others) * _ROUNDED:
            bound = f"must be above 0, and at most {plan.epsilon - others!r}: epsilon less what else a record pays"
            yield f"{where}.{name}.epsilon", instance.epsilon, bound
        spent = math.fsum((instance.delta_between, instance.instances * stopper.delta_cap, phase.delta_noise))
        if not spent <= phase.delta * _ROUNDED:
            yield f"{where}.delta", phase.delta, f"the shares of {name}, delta_cap and delta_noise sum to {spent!r}"


def _parts(plan: BoxPlan) -> int:
    """Return in how many start instances one record may sit: one after another all sides may take it (Lemma 3)."""
    return 1 if plan.slicing == "faces" else len(plan.sides)


def _form(plan: BoxPlan) -> Iterator[Fault]:
    if not 0.0 <= plan.coin < 1.0:
        yield "coin", plan.coin, "must be from 0 to below 1"
    if not 0.0 < plan.share <= 1.0:
        yield "share", plan.share, "must be above 0, and at most 1"
    if plan.slicing == "rsc":
        yield "slicing", plan.slicing, "must be a rule that Lemma 3 is about"
    for index, phase in enumerate(plan.phases):
        if not phase.rounds <= MAX_ROUNDS:
            yield f"phases[{index}].rounds", phase.rounds, f"must be at most {MAX_ROUNDS}"


def _sides(plan: BoxPlan) -> Iterator[Fault]:
    """Yield sides that are not the features', or that would share their noise, and counts that no lemma is about."""
    if isinstance(plan, StumpsPlan):
        if len(plan.sides) != 1:
            yield "sides", plan.sides, "must be one: what Theorem 10 is about"
        for name, unused in (("scale", plan.scale), ("check", plan.check)):
            if unused is not UNSET:
                yield name, unused, "must be left out: stumps have no use for it"
    elif plan.sides != side_names(plan) or not 1 <= len(plan.sides) <= MAX_SIDES:
        yield "sides", f"{len(plan.sides)} names", f"must be those of the features, from 1 to {MAX_SIDES}"
    if plan.scale is not UNSET and plan.scale.rank < 1:
        yield "scale.rank", plan.scale.rank, "must be at least 1"
    if plan.check is not UNSET and plan.check.stripe < 0:  # one record would move the count once in every batch
        yield "check.stripe", plan.check.stripe, "must be at least 0"


def _released(plan: BoxPlan) -> Iterator[Fault]:
    """Yield noise of the releases before phase 1 that cannot be, or that no theorem here is about."""
    slopes: dict[str, float] = {}
    if plan.scale is not UNSET:
        slopes["scale.scale"] = plan.scale.scale
    if plan.check is not UNSET:
        slopes["check.epsilon"] = plan.check.epsilon
    if isinstance(plan, StumpsPlan):
        selection = plan.selection
        slopes |= {"selection.scale": selection.scale, "selection.cut_scale": selection.cut_scale}
        if selection.cut_law != "choice":
            yield "selection.cut_law", selection.cut_law, 'must be "choice": what Theorem 10 is about'
        for name, stated, proved in (
            ("epsilon", selection.epsilon, selection.scale),
            ("cut_epsilon", selection.cut_epsilon, 2.0 * selection.cut_scale),
        ):
            if not stated >= proved:
                yield f"selection.{name}", stated, f"the accountant proves {proved!r} only"
    for where, slope in slopes.items():
        yield from _slope(where, slope)


def _truth(plan: BoxPlan) -> Iterator[Fault]:
    """Yield counts of true labels that no model declares."""
    if plan.truth is UNSET:
        return
    if not 0.0 < plan.truth.epsilon < plan.epsilon:
        yield "truth.epsilon", plan.truth.epsilon, f"must be above 0, and below {plan.epsilon!r}"
    if not (plan.truth.rounds >= 1 and plan.truth.lag >= 0):
        yield "truth.rounds", [plan.truth.rounds, plan.truth.lag], "must be at least 1, and lag at least 0"


def _slope(where: str, slope: float) -> Iterator[Fault]:
    if not SMALLEST_SCALE <= slope <= STEEPEST:
        yield where, slope, f"must be from {SMALLEST_SCALE:g} to {STEEPEST:g}: there is no other noise"


def _stopper(where: str, phase: PhasePlan) -> Iterator[Fault]:
    stopper = phase.stopper
    for name, value in (("law", stopper.law), ("scale", stopper.scale)):
        if value is not UNSET:
            yield f"{where}.{name}", value, "must be left out: Theorem 7 is about epsilon, and the discrete Laplace law"
    if not 1 <= stopper.threshold <= stopper.cap:
        yield f"{where}.cap", stopper.cap, f"must be at least the threshold, {stopper.threshold}, and that at least 1"
    yield from _slope(f"{where}.epsilon", stopper.epsilon)


def _instance(where: str, instance: InstancePlan, cap: int, sides: int) -> Iterator[Fault]:
    if instance.law == "laplace":
        yield f"{where}.law", instance.law, "must be a law that Theorem 4 or 5 is about"
    for name, value in (("base", instance.base), ("slice_scale", instance.slice_scale)):
        if value is not UNSET:
            yield f"{where}.{name}", value, "must be left out: noisy slices are for profile paper only"
    yield from _slope(f"{where}.scale", instance.scale)
    if not (0 < instance.low <= instance.high <= instance.points and instance.trim >= 0):
        sizes = [instance.low, instance.high, instance.points, instance.trim]
        yield where, sizes, "must be 0 < low <= high <= points, and trim at least 0"
    if instance.instances < sides:
        yield f"{where}.instances", instance.instances, f"a record may sit in {sides}"
    mediums = cap * max(instance.instances, sides)
    if instance.mediums < mediums:
        yield f"{where}.mediums", instance.mediums, f"{mediums} may pass: the Stopper's cap, for each instance"


def chosen_epsilon(plan: BoxPlan) -> float:
    """Return what a training record pays for the stump, by basic composition, before its instance."""
    return plan.selection.epsilon + plan.selection.cut_epsilon if isinstance(plan, StumpsPlan) else 0.0
