"""The accountant: from an event to the (epsilon, delta) that it proves. Unknown events are refused, never guessed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from oracle.accounting.between_thresholds import (
    SIDES_REACH,
    TABLE_GAP,
    TABLE_REACH,
    laplace_log_delta,
    logistic_log_delta,
    table_slack,
)
from oracle.accounting.events import (
    BetweenThresholdsEvent,
    ChoiceEvent,
    Composed,
    EdgesEvent,
    EitherOf,
    Event,
    NoiseDistanceEvent,
    NoisyCountEvent,
    NonPrivateEvent,
    NoOpEvent,
    PaidQuestionsEvent,
    StopperEvent,
    StopperOverflowEvent,
    ThresholdBitsEvent,
    TruthEvent,
)
from oracle.accounting.paid_questions import NO_UPPER, above_log_delta, one_sided_price, table_distance
from oracle.accounting.race import between_log_delta, race_log_delta
from oracle.accounting.stopper import log_overflow
from oracle.accounting.threshold_bits import bits_log_delta
from oracle.errors import InputError, RefusedError
from oracle.mechanisms.noise.tables import EDGE_DISTANCE

__all__ = ["Guarantee", "UnsupportedEventError", "delta_at", "guarantee"]

_Pure = StopperEvent | ChoiceEvent | EdgesEvent | NoisyCountEvent | TruthEvent | PaidQuestionsEvent

_Trading = BetweenThresholdsEvent | PaidQuestionsEvent | ThresholdBitsEvent | EitherOf

_Before = Sequence[EdgesEvent | NoisyCountEvent]

_UP = 1e-12
"""Relative slack above the rounding of a sum."""


class UnsupportedEventError(RefusedError):
    """No theorem at hand covers the event."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A proved statement about one record.

    Attributes:
        epsilon: In nats.
        delta: Probability, rounded up.
        event: What it is a statement about.
    """

    epsilon: float
    delta: float
    event: Event


def guarantee(event: Event, epsilon: float) -> Guarantee:
    """Return the least (epsilon, delta) statement at `epsilon` that the theorems give for `event`."""
    return Guarantee(epsilon, delta_at(event, epsilon), event)


def delta_at(event: Event, epsilon: float) -> float:  # noqa: C901 -- one for each event
    """Return the delta of `event` at `epsilon`, rounded up.

    Formal guarantees:
        * The result is at least the true delta (PRIVACY.md, Theorem 4, Theorem 5, Theorem 7, Theorem 12 and Theorem 17
          to Theorem 20, and Theorem 26; basic composition with pure events, Theorem 8).
        * It is at most 1, and never rises with epsilon but by rounding.

    Args:
        event: Any event.
        epsilon: At least 0 (nats).

    Raises:
        InputError: Epsilon is below 0, or is no number.
        UnsupportedEventError: Two events of one composition both trade epsilon against delta.

    >>> delta_at(StopperEvent(0.5), 0.4), delta_at(StopperEvent(0.5), 0.5)
    (1.0, 0.0)
    """
    if not epsilon >= 0.0:
        raise InputError("epsilon", epsilon, "must be at least 0")
    match event:
        case NoOpEvent():
            delta = 0.0
        case NonPrivateEvent():
            delta = 1.0
        case StopperEvent() | ChoiceEvent() | EdgesEvent() | NoisyCountEvent() | TruthEvent():
            delta = 0.0 if epsilon >= _pure(event) else 1.0
        case StopperOverflowEvent():
            delta = event.instances * math.exp(log_overflow(event.epsilon, event.threshold, event.cap))
        case NoiseDistanceEvent():
            # P~(A) <= P(A) + d <= exp(eps) Q(A) + d <= exp(eps) (Q~(A) + d) + d, d the distance
            delta = (1.0 + math.exp(event.epsilon)) * event.comparisons * float(EDGE_DISTANCE)
        case BetweenThresholdsEvent():
            delta = _between(event, epsilon)
        case PaidQuestionsEvent():
            delta = _paid(event, epsilon)
        case ThresholdBitsEvent():
            delta = math.exp(bits_log_delta(event, epsilon))
        case EitherOf():
            delta = max((delta_at(part, epsilon) for part in event.events), default=0.0)
        case Composed():
            delta = _composed(event, epsilon)
        case _:
            raise UnsupportedEventError(f"event {type(event).__name__}: no theorem covers it")
    return min(delta * (1.0 + 1e-12), 1.0)


def _between(event: BetweenThresholdsEvent, epsilon: float, rho: float = 0.0) -> float:
    if epsilon == 0.0:
        return 1.0
    if event.law == "logistic":
        log_delta = between_log_delta(event.scale, event.gap, event.mediums, epsilon, rho=rho)
        known = event.points >= event.gap > 0 and event.scale * event.gap >= TABLE_GAP
        if known and event.scale * (event.points + 1) <= TABLE_REACH:
            return math.exp(min(log_delta + event.rounds * table_slack(event.scale), 0.0))
    elif event.law == "discrete-laplace":
        log_delta = laplace_log_delta(event.scale, event.gap, event.mediums, epsilon)
    else:
        raise UnsupportedEventError(f"event BetweenThresholdsEvent: no theorem covers the law {event.law}")
    return math.exp(log_delta) + (1.0 + math.exp(epsilon)) * 2.0 * event.rounds * float(EDGE_DISTANCE)


def _paid(event: PaidQuestionsEvent, epsilon: float, before: _Before = ()) -> float:
    """Return the delta of paid questions after these releases: PRIVACY.md, Theorem 17 to Theorem 22, 26, Lemma 27."""
    if event.law == "exponential":
        return _tables(event, epsilon) + (0.0 if epsilon >= _pure(event) else 1.0)
    if event.gap is not None and event.law != "logistic":
        msg = f"event PaidQuestionsEvent: no theorem covers the law {event.law} between two thresholds"
        raise UnsupportedEventError(msg)
    if epsilon == 0.0:
        return 1.0
    gap = NO_UPPER if event.gap is None else event.gap
    if _is_counted(event):
        log_delta = between_log_delta(event.slope, gap, event.paid, epsilon, rho=_rho(before))
        return math.exp(min(log_delta + event.questions * table_slack(event.slope, 4), 0.0))
    log_delta = logistic_log_delta(event.slope, gap, event.paid, epsilon, rho=_rho(before))
    log_delta = min(log_delta, race_log_delta(event.slope, gap, event.paid, epsilon, rho=_rho(before)))
    start = before[0] if before else None
    if event.gap is None and len(before) <= 1 and not isinstance(start, EdgesEvent):
        log_delta = min(log_delta, above_log_delta(event.slope, event.paid, epsilon, exact=True, start=start))
    return math.exp(log_delta) + _tables(event, epsilon)


def _is_counted(event: PaidQuestionsEvent) -> bool:
    """Return whether every answer is so likely that its table's distance is a factor: PRIVACY.md, Lemma 27."""
    if event.gap is None or not event.points >= 1:
        return False
    return event.slope * event.gap >= TABLE_GAP and event.slope * (event.points + event.gap + 3) <= SIDES_REACH


def _tables(event: PaidQuestionsEvent, epsilon: float) -> float:
    if not event.questions:
        return 0.0
    # of noise on all thresholds there is one draw; a smaller slope makes its table the longer one
    once = 0.0 if event.threshold_slope is None else table_distance(event.threshold_slope, 1, epsilon)
    return table_distance(event.slope, event.questions, epsilon) + once


def _is_pure(event: Event) -> TypeGuard[_Pure]:
    return isinstance(event, _Pure) and not (isinstance(event, PaidQuestionsEvent) and event.law != "exponential")


def _pure(event: _Pure) -> float:
    """Return what a mechanism with delta = 0 pays: PRIVACY.md, Theorem 7, Lemma 9, Theorem 19, 32, or Laplace's."""
    match event:
        case EdgesEvent():
            return 2.0 * event.scale * event.sides
        case ChoiceEvent():
            return event.scale * event.spread
        case NoisyCountEvent():
            return event.epsilon * event.counts
        case PaidQuestionsEvent():
            return one_sided_price(event.slope, event.threshold_slope, event.paid, monotone=event.monotone)
        case StopperEvent() | TruthEvent():
            return event.epsilon


def _flat(event: Event) -> list[Event]:
    if isinstance(event, Composed):
        return [leaf for part in event.events for leaf in _flat(part)]
    return [event]


def _composed(event: Composed, epsilon: float) -> float:
    """Pure events take their epsilon off; then one event may trade, and the others add their delta plainly.

    Where the one that trades is a BetweenThresholds with logistic noise, or paid questions, edges and noisy counts that
    were released before may go by their rho instead: whatever they were, the supermartingale of Theorem 5, 17, 18 or 26
    goes on from there. Both bounds hold, so the smaller one does.
    """
    leaves = _flat(event)
    pure = [leaf for leaf in leaves if _is_pure(leaf)]
    before = [leaf for leaf in pure if isinstance(leaf, EdgesEvent | NoisyCountEvent)]
    trading: list[Event] = [leaf for leaf in leaves if isinstance(leaf, _Trading) and leaf not in pure]
    if len(trading) > 1:
        raise UnsupportedEventError("composition: at most one event may trade epsilon against delta")
    delta = sum(delta_at(leaf, epsilon) for leaf in leaves if leaf not in pure and leaf not in trading)
    delta += sum(_tables(leaf, epsilon) for leaf in pure if isinstance(leaf, PaidQuestionsEvent))
    least = _after(math.fsum(map(_pure, pure)), epsilon, trading)
    if before and trading and _goes_on(trading[0]):
        others = math.fsum(_pure(leaf) for leaf in pure if leaf not in before)
        least = min(least, _after(others, epsilon, trading, before))
    return delta + least


def _after(spent: float, epsilon: float, trading: list[Event], before: _Before = ()) -> float:
    """Return the delta of what trades, if there is something, at what is left of epsilon."""
    if spent > epsilon:
        return 1.0
    # a + (b + c): additive deltas are taken at the full epsilon; the order of subtraction rounds epsilon down
    left = math.nextafter(epsilon - spent, 0.0)
    return sum(_later(leaf, left, before) for leaf in trading)


def _goes_on(event: Event) -> bool:
    """Return whether the event has a supermartingale that goes on from whatever was released before."""
    return isinstance(event, PaidQuestionsEvent) or (
        isinstance(event, BetweenThresholdsEvent) and event.law == "logistic"
    )


def _later(event: Event, epsilon: float, before: _Before) -> float:
    """Return the delta of an event after these releases; there are none unless it goes on from them."""
    if before and isinstance(event, BetweenThresholdsEvent):
        return _between(event, epsilon, _rho(before))
    return _paid(event, epsilon, before) if isinstance(event, PaidQuestionsEvent) else delta_at(event, epsilon)


def _rho(before: _Before) -> float:
    return math.fsum(event.rho for event in before) * (1.0 + _UP)
