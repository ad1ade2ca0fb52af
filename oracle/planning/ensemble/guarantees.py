"""From an ensemble's plan to the events its records go through (PRIVACY.md, Theorem 29)."""

import math

from msgspec import UNSET

from oracle.accounting.accountant import Guarantee, guarantee
from oracle.accounting.events import (
    Composed,
    EitherOf,
    Event,
    NoiseDistanceEvent,
    NoisyCountEvent,
    PaidQuestionsEvent,
    StopperEvent,
    StopperOverflowEvent,
)
from oracle.planning.ensemble.model import EnsemblePhase, EnsemblePlan
from oracle.planning.guarantees import ONE_DRAW, noise_comparisons, with_truth

__all__ = ["query_event", "query_guarantee", "shares_guarantee", "table_delta", "training_event"]


def training_event(plan: EnsemblePlan) -> Event:
    """Return what a training row goes through: the noisy count of its class, then the teachers of the first life."""
    first = plan.phases[0]
    if plan.share_slope is UNSET:
        return _membership(plan, first)
    return Composed((*_count(plan.share_slope), _membership(plan, first)))


def shares_guarantee(plan: EnsemblePlan) -> Guarantee | None:
    """Return what a training row pays for the noisy counts of the classes alone; None where there are none.

    It is part of what a row goes through, so it never costs more than that.
    """
    if plan.share_slope is UNSET:
        return None
    return guarantee(Composed(_count(plan.share_slope)), plan.share_slope * (1.0 + 1e-12))


def query_event(plan: EnsemblePlan, index: int) -> Event:
    """Return what a query of phase `index + 1` goes through.

    Its own answer is hidden, and with it which of these happened (PRIVACY.md, Theorem 29): it was paid for and is one
    bit of a Stopper, of a life armed in its phase or the one before; or it was free, and is in the teachers of at most
    one life, armed in its phase or the next two. In each case it is in the counts of its block, and, where true labels
    are counted, in one of its period's.
    """
    counts = _count(plan.control.epsilon)
    stoppers = (Composed((*counts, *_bit(plan, phase))) for phase in plan.phases[max(index - 1, 0) : index + 1])
    lives = (Composed((*counts, _membership(plan, phase))) for phase in plan.phases[index : index + 3])
    return with_truth(plan.truth, EitherOf((*stoppers, *lives)))


def query_guarantee(plan: EnsemblePlan, index: int) -> Guarantee:
    """Return the guarantee of a record of phase `index + 1`; in phase 1 it covers the training rows too."""
    event = query_event(plan, index)
    return guarantee(EitherOf((event, training_event(plan))) if index == 0 else event, plan.epsilon)


def _membership(plan: EnsemblePlan, phase: EnsemblePhase) -> Event:
    """Be in one teacher of a life: each count of votes moves by at most 1, until K answers were paid for.

    A life is armed in the phase, and over by the end of the next one. When it ends follows from its answers, and it
    has ended when its Stopper has counted to the cap.
    """
    asked = _life(plan, phase) * (len(plan.classes) - 1)
    paid = plan.questions * phase.stopper.cap
    return PaidQuestionsEvent("logistic", phase.slope, paid, gap=phase.gap, questions=asked, points=plan.teachers)


def _bit(plan: EnsemblePlan, phase: EnsemblePhase) -> tuple[Event, ...]:
    """Be counted by a Stopper that halts at its cap in any case: there it could tell, so getting there is a failure."""
    stopper = phase.stopper
    overflow = StopperOverflowEvent(stopper.epsilon, stopper.threshold, stopper.cap - 1)
    return StopperEvent(stopper.epsilon), overflow, _stopper_tables(plan, phase)


def _count(epsilon: float) -> tuple[Event, Event]:
    """Return noisy counts of classes, one of which a record moves by 1, and the distance of their table."""
    return NoisyCountEvent(epsilon), NoiseDistanceEvent(ONE_DRAW, epsilon)


def _life(plan: EnsemblePlan, phase: EnsemblePhase) -> int:
    """Return the most rounds of a life that was armed in a phase."""
    return sum(part.rounds for part in plan.phases[phase.phase - 1 : phase.phase + 1])


def _stopper_tables(plan: EnsemblePlan, phase: EnsemblePhase) -> Event:
    return NoiseDistanceEvent(noise_comparisons(_life(plan, phase), 1), phase.stopper.epsilon)


def table_delta(plan: EnsemblePlan, index: int) -> float:
    """Return the delta that the distance of tables from their laws costs a record of a phase."""
    phase = plan.phases[index]
    events = [_count(plan.control.epsilon)[1], _stopper_tables(plan, phase)]
    if index == 0 and plan.share_slope is not UNSET:
        events.append(_count(plan.share_slope)[1])
    return math.fsum(guarantee(event, plan.epsilon).delta for event in events)
