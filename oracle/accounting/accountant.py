"""The accountant: from an event to the (epsilon, delta) that it proves. Unknown events are refused, never guessed."""

import math
from dataclasses import dataclass

from oracle.accounting.between_thresholds import (
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
    EitherOf,
    Event,
    NoiseDistanceEvent,
    NonPrivateEvent,
    NoOpEvent,
    StopperEvent,
    StopperOverflowEvent,
    ThresholdBitsEvent,
)
from oracle.accounting.stopper import log_overflow
from oracle.accounting.threshold_bits import bits_log_delta
from oracle.errors import InputError, RefusedError
from oracle.mechanisms.noise import EDGE_DISTANCE

__all__ = ["Guarantee", "UnsupportedEventError", "delta_at", "guarantee"]


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
        * The result is at least the true delta (Theorems B, B', C; zCDP; basic composition with pure events).
        * It is at most 1, and never rises with epsilon but by rounding.

    Args:
        event: Any event.
        epsilon: At least 0 (nats).

    Raises:
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
        case StopperEvent() | ChoiceEvent():
            delta = 0.0 if epsilon >= _pure(event) else 1.0
        case StopperOverflowEvent():
            delta = event.instances * math.exp(log_overflow(event.epsilon, event.threshold, event.cap))
        case NoiseDistanceEvent():
            # P~(A) <= P(A) + d <= exp(eps) Q(A) + d <= exp(eps) (Q~(A) + d) + d, d the distance
            delta = (1.0 + math.exp(event.epsilon)) * event.comparisons * float(EDGE_DISTANCE)
        case BetweenThresholdsEvent():
            delta = _between(event, epsilon)
        case ThresholdBitsEvent():
            delta = math.exp(bits_log_delta(event, epsilon))
        case EitherOf():
            delta = max((delta_at(part, epsilon) for part in event.events), default=0.0)
        case Composed():
            delta = _composed(event, epsilon)
        case _:
            msg = f"event {type(event).__name__}: no theorem covers it"
            raise UnsupportedEventError(msg)
    return min(delta * (1.0 + 1e-12), 1.0)


def _between(event: BetweenThresholdsEvent, epsilon: float) -> float:
    if epsilon == 0.0:
        return 1.0
    if event.law == "logistic":
        log_delta = logistic_log_delta(event.scale, event.gap, event.mediums, epsilon)
        known = event.points >= event.gap > 0 and event.scale * event.gap >= TABLE_GAP
        if known and event.scale * (event.points + 1) <= TABLE_REACH:
            return math.exp(min(log_delta + event.rounds * table_slack(event.scale), 0.0))
    elif event.law == "discrete-laplace":
        log_delta = laplace_log_delta(event.scale, event.gap, event.mediums, epsilon)
    else:
        msg = f"event BetweenThresholdsEvent: no theorem covers the law {event.law}"
        raise UnsupportedEventError(msg)
    return math.exp(log_delta) + (1.0 + math.exp(epsilon)) * 2.0 * event.rounds * float(EDGE_DISTANCE)


def _pure(event: StopperEvent | ChoiceEvent) -> float:
    """Return what a mechanism with delta = 0 pays: Theorem C, or the exponential mechanism of McSherry and Talwar."""
    return event.epsilon if isinstance(event, StopperEvent) else event.scale * event.spread


def _flat(event: Event) -> list[Event]:
    if isinstance(event, Composed):
        return [leaf for part in event.events for leaf in _flat(part)]
    return [event]


def _composed(event: Composed, epsilon: float) -> float:
    """Pure events take their epsilon off; then one event may trade, and the others add their delta plainly."""
    leaves = _flat(event)
    pure = math.fsum(_pure(leaf) for leaf in leaves if isinstance(leaf, StopperEvent | ChoiceEvent))
    if pure > epsilon:
        return 1.0
    trading = [leaf for leaf in leaves if isinstance(leaf, BetweenThresholdsEvent | ThresholdBitsEvent | EitherOf)]
    if len(trading) > 1:
        msg = "composition: at most one event may trade epsilon against delta"
        raise UnsupportedEventError(msg)
    # a + (b + c): additive deltas are taken at the full epsilon; the order of subtraction rounds epsilon down
    left = math.nextafter(epsilon - pure, 0.0)
    delta = sum(
        delta_at(leaf, epsilon)
        for leaf in leaves
        if not isinstance(leaf, StopperEvent | ChoiceEvent) and leaf not in trading
    )
    return delta + sum(delta_at(leaf, left) for leaf in trading)
