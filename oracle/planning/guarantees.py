"""From a plan's numbers to the events its records go through, and from these to what the accountant proves."""

import math
from collections.abc import Callable, Iterator

from msgspec import UNSET, UnsetType

from oracle.accounting.accountant import Guarantee, delta_at, guarantee
from oracle.accounting.events import (
    BetweenThresholdsEvent,
    ChoiceEvent,
    Composed,
    EdgesEvent,
    EitherOf,
    Event,
    NoiseDistanceEvent,
    NoisyCountEvent,
    NoOpEvent,
    StopperEvent,
    StopperOverflowEvent,
    TruthEvent,
)
from oracle.errors import PlanError
from oracle.planning.boxes.due import chosen_epsilon, form_faults, share_faults
from oracle.planning.model import Truth
from oracle.planning.plan import BoxPlan, InstancePlan, PhasePlan
from oracle.planning.stumps.model import StumpsPlan

__all__ = [
    "ONE_DRAW",
    "noise_comparisons",
    "noise_delta",
    "query_event",
    "query_guarantee",
    "released_event",
    "released_guarantee",
    "training_event",
    "verify",
    "with_truth",
]

ONE_DRAW = 1 << 27
"""More edges than the two largest tables hold that a Stopper's threshold draw is searched in: a medium query depends on
the draws of its own Stopper and of the one that monitors its later instance."""


def noise_comparisons(rounds: int, instances: int) -> int:
    """Return how many comparisons with a Stopper's noise edge can depend on one record during a phase.

    One a round, for each instance it sits in, and each instance's threshold draw (the search counts as one comparison
    for each edge of its table). BetweenThresholds pays for its own table by a factor (`table_slack`).
    """
    return instances * (rounds + ONE_DRAW)


def noise_delta(stopper_epsilon: float, rounds: int, instances: int) -> float:
    """Return the delta that the Stopper tables' distance from the ideal law costs a record of a phase."""
    return delta_at(NoiseDistanceEvent(noise_comparisons(rounds, instances), stopper_epsilon), 0.0)


def _between(phase: PhasePlan, instance: InstancePlan) -> BetweenThresholdsEvent:
    gap, rounds = instance.high - instance.low, phase.rounds * instance.instances
    return BetweenThresholdsEvent(instance.law, instance.scale, gap, instance.mediums, instance.points, rounds)


def _instance_event(phase: PhasePlan, instance: InstancePlan) -> Event:
    """Sit in an instance: BetweenThresholds up to K mediums, the overflow beyond K, the tables' distance."""
    return Composed(
        (
            _between(phase, instance),
            StopperOverflowEvent(phase.stopper.epsilon, phase.stopper.threshold, phase.stopper.cap, instance.instances),
            NoiseDistanceEvent(noise_comparisons(phase.rounds, instance.instances), phase.stopper.epsilon),
        )
    )


def training_event(plan: BoxPlan) -> Event:
    """Return what a training record goes through: the instance(s) it sits in when phase 1 starts.

    Everything that routes other records is a function of answers already charged. Sides are armed afresh from
    queries only, so a training record sits in no later instance. Where a stump is chosen before (PRIVACY.md,
    Theorem 10), the record pays for the choice and for the cut too: the instance is armed by what these released.
    """
    return Composed((*released_event(plan).events, _instance_event(plan.phases[0], plan.phases[0].start)))


def released_event(plan: BoxPlan) -> Composed:
    """Return what a training record goes through before phase 1 is armed.

    Of stumps the choices of the pair and of the cut. Of boxes the edges of `faces`, one choice for each side, and then
    the noisy count of `init`'s check, which depends on the record through the assignment that the edges decide.
    """
    events: list[Event] = []
    if isinstance(plan, StumpsPlan):
        selection = plan.selection
        events += [
            ChoiceEvent(selection.scale, spread=1),
            NoiseDistanceEvent(1, selection.scale),
            ChoiceEvent(selection.cut_scale, spread=2),
            NoiseDistanceEvent(1, 2.0 * selection.cut_scale),
        ]
    if plan.scale is not UNSET:
        events.append(EdgesEvent(plan.scale.scale, len(plan.sides)))
    if plan.check is not UNSET:
        events += [NoisyCountEvent(plan.check.epsilon), NoiseDistanceEvent(ONE_DRAW, plan.check.epsilon)]
    return Composed(tuple(events))


def released_guarantee(plan: BoxPlan) -> Guarantee:
    """Return what a training record pays for `released_event` alone, where no instance was armed after all.

    It is part of what a record of phase 1 goes through, so it never costs more than that.
    """
    event = released_event(plan)
    edges = 0.0 if plan.scale is UNSET else 2.0 * plan.scale.scale * len(plan.sides)
    count = 0.0 if plan.check is UNSET else plan.check.epsilon
    epsilon = (edges + count) * (1.0 + 1e-12)
    if isinstance(plan, StumpsPlan) or epsilon >= plan.epsilon:
        return Guarantee(plan.epsilon, plan.phases[0].delta, event)
    return guarantee(event, epsilon)


def query_event(plan: BoxPlan, index: int) -> Event:
    """Return what a query of phase `index + 1` goes through.

    Its own answer is hidden, and with it which of these happened (PRIVACY.md, Theorem 11):
    low: it leaves no state; medium: it is one bit of a Stopper, then sits in at most one re-armed instance of
    the phase; high on every side: it sits in the instance(s) that start the next phase. In each case it is in one of
    its period's counts, where true labels are counted (Theorem 32).
    """
    phase = plan.phases[index]
    branches: list[Event] = [
        NoOpEvent(),
        Composed((StopperEvent(phase.stopper.epsilon), _instance_event(phase, phase.rearmed))),
    ]
    if index + 1 < len(plan.phases):
        following = plan.phases[index + 1]
        branches.append(_instance_event(following, following.start))
    return with_truth(plan.truth, EitherOf(tuple(branches)))


def with_truth(truth: Truth | UnsetType, event: Event) -> Event:
    """Return what a query goes through, its true label included: whatever its own answer decided."""
    return event if truth is UNSET else Composed((event, TruthEvent(truth.epsilon)))


def query_guarantee(plan: BoxPlan, index: int) -> Guarantee:
    """Return the guarantee of a record of phase `index + 1`; in phase 1 it covers the training records too."""
    event = query_event(plan, index)
    if index == 0:
        event = EitherOf((event, training_event(plan)))
    return guarantee(event, plan.epsilon)


def _share_deltas(plan: BoxPlan, index: int) -> Iterator[tuple[str, InstancePlan, float]]:
    """Yield each kind of instance with the delta that it has at its own share of epsilon, of all parts the first.

    What a record pays beside it is in the composition, so that the accountant is asked what it was asked before.
    """
    phase = plan.phases[index]
    before = released_event(plan).events if index == 0 else ()
    chosen = chosen_epsilon(plan) if index == 0 else 0.0
    for name, instance, others, spent in (
        ("start", phase.start, before, chosen),
        ("rearmed", phase.rearmed, (StopperEvent(phase.stopper.epsilon),), phase.stopper.epsilon),
    ):
        whole = min(plan.epsilon, (spent + instance.epsilon) * (1.0 + 1e-12))
        yield name, instance, delta_at(Composed((*others, _between(phase, instance))), whole)


def verify(plan: BoxPlan, progress: Callable[[int], None] = lambda _phases: None) -> None:
    """Derive what is due from what the plan runs, and check every figure that privacy rests on with the accountant.

    Args:
        plan: The plan.
        progress: Called with the number of phases that are checked, after each.

    Raises:
        PlanError: A figure is less than what is due, or the deltas sum to more than delta.
    """
    for where, value, bound in form_faults(plan):
        raise PlanError(f"plan.{where} = {value!r}: {bound}")
    spent = [plan.declared * plan.phases[0].delta, *(phase.rounds * phase.delta for phase in plan.phases)]
    for index, phase in enumerate(plan.phases):
        proved = query_guarantee(plan, index).delta
        if not proved <= phase.delta:
            raise PlanError(f"plan.phases[{index}].delta = {phase.delta!r}: the accountant proves {proved!r} only")
        if not phase.delta_noise >= noise_delta(phase.stopper.epsilon, phase.rounds, phase.start.instances):
            msg = f"plan.phases[{index}].delta_noise = {phase.delta_noise!r}: below the noise tables' distance"
            raise PlanError(msg)
        for where, value, bound in share_faults(plan, index):
            raise PlanError(f"plan.{where} = {value!r}: {bound}")
        for name, instance, share in _share_deltas(plan, index):
            if not share <= instance.delta_between * (1.0 + 1e-9):
                stated = f"plan.phases[{index}].{name}.delta_between = {instance.delta_between!r}"
                raise PlanError(f"{stated}: {share!r} is proved at epsilon = {instance.epsilon!r}")
        progress(index + 1)
    if not math.fsum(spent) <= plan.delta:
        raise PlanError(f"plan.delta = {plan.delta!r}: the schedule spends {math.fsum(spent)!r}")
