"""What was released, stated by its mathematics: the events that the accountant reads. It never reads a mechanism.

Evolution policy: events are never removed, new fields have defaults, and the meaning of a field never changes.
"""

from dataclasses import dataclass
from typing import Final, Literal

from oracle.mechanisms.noise.tables import Law
from oracle.mechanisms.thresholds.paid import PaidLaw

__all__ = [
    "BetweenThresholdsEvent",
    "ChoiceEvent",
    "Composed",
    "EdgesEvent",
    "EitherOf",
    "Event",
    "NoOpEvent",
    "NoiseDistanceEvent",
    "NoisyCountEvent",
    "NonPrivateEvent",
    "PaidQuestionsEvent",
    "StopperEvent",
    "StopperOverflowEvent",
    "ThresholdBitsEvent",
]

_UP: Final = 1e-12
"""Relative slack above the rounding of a few products."""


@dataclass(frozen=True, slots=True)
class NoOpEvent:
    """Nothing was released."""


@dataclass(frozen=True, slots=True)
class NonPrivateEvent:
    """Something was released without protection: epsilon is infinite."""


@dataclass(frozen=True, slots=True)
class BetweenThresholdsEvent:
    """Adaptive depth queries, each depth moved by at most 1 by the record, answered until the K-th medium.

    Attributes:
        law: Law of the fresh integer noise of each answer.
        scale: Its inverse scale e (nats).
        gap: g = t_h - t_l.
        mediums: K, over all instances that the record sits in.
        points: M, the largest depth; 0 if it is not known.
        rounds: Answers given with noise from a table (see `NoiseDistanceEvent`); 0 for ideal noise.
    """

    law: Law
    scale: float
    gap: int
    mediums: int
    points: int = 0
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class StopperEvent:
    """A bit stream monitored by a monotone Stopper; the record is one bit of it (PRIVACY.md, Theorem 7).

    Attributes:
        epsilon: eps_S (nats).
    """

    epsilon: float


@dataclass(frozen=True, slots=True)
class StopperOverflowEvent:
    """The chance that a Stopper lets more mediums pass than the cap a `BetweenThresholdsEvent` was counted for.

    Attributes:
        epsilon: eps_S (nats).
        threshold: k.
        cap: K.
        instances: Number of Stoppers this is counted for.
    """

    epsilon: float
    threshold: int
    cap: int
    instances: int = 1


@dataclass(frozen=True, slots=True)
class NoiseDistanceEvent:
    """A mechanism of `epsilon` nats whose noise is within 2^-128 of the ideal law at each edge it is compared with.

    Attributes:
        comparisons: Comparisons of a draw with an edge that can depend on the record.
        epsilon: What the mechanism pays with ideal noise.
    """

    comparisons: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class ChoiceEvent:
    """One candidate was chosen with probability proportional to exp(-scale * its loss).

    Attributes:
        scale: e (nats per unit of loss).
        spread: The changes that one record makes to the candidates' losses all lie within so much of each other.
    """

    scale: float
    spread: int


@dataclass(frozen=True, slots=True)
class EdgesEvent:
    """One candidate was chosen for each of several sides, as in a `ChoiceEvent` of spread 2.

    Attributes:
        scale: e (nats per unit of loss) of each choice.
        sides: How many.
    """

    scale: float
    sides: int

    @property
    def rho(self) -> float:
        """Its zCDP, rounded up: the loss of each choice lies in an interval of length 2 e (Theorem 15)."""
        return self.sides * self.scale * self.scale / 2.0 * (1.0 + _UP)


@dataclass(frozen=True, slots=True)
class NoisyCountEvent:
    """Integers were shown with discrete Laplace noise each; one record changes so many of them, by at most 1 each.

    Attributes:
        epsilon: Inverse scale of the noise (nats).
        counts: How many of them the record changes.
    """

    epsilon: float
    counts: int = 1

    @property
    def rho(self) -> float:
        """Its zCDP, rounded up: the loss of each count lies in [-epsilon, epsilon] (Theorem 15)."""
        return self.counts * self.epsilon * self.epsilon / 2.0 * (1.0 + _UP)


@dataclass(frozen=True, slots=True)
class TruthEvent:
    """Two integers were shown with exact discrete Laplace noise; the record moves one of them by 1, at any moment.

    Attributes:
        epsilon: Inverse scale of the noise (nats).
    """

    epsilon: float


@dataclass(frozen=True, slots=True)
class PaidQuestionsEvent:
    """Adaptive questions about counts that the record moves by at most 1 each, until the K-th paid answer.

    Attributes:
        law: Law of the fresh noise of each answer.
        slope: Its inverse scale e (nats).
        paid: K.
        gap: g, least t_h - t_l of questions between two thresholds (logistic noise only); None if all are "above".
        threshold_slope: e_1 of the noise on all thresholds (nats), for exponential noise only.
        monotone: Whether the record moves all counts the same way.
        questions: Answers given with noise from a table, free ones too; 0 for ideal noise.
        points: M, where counts are from 0 to M, zones are about a middle in the same range, and of what is paid only
            its side of the middle is told (PRIVACY.md, Lemma 27); 0 if that is not known.
    """

    law: PaidLaw
    slope: float
    paid: int
    gap: int | None = None
    threshold_slope: float | None = None
    monotone: bool = False
    questions: int = 0
    points: int = 0


@dataclass(frozen=True, slots=True)
class ThresholdBitsEvent:
    """Bits [a + D E > threshold], queries and thresholds chosen by earlier bits, computed in float64.

    Attributes:
        law: Law of E.
        scale: Its scale.
        shift: How far the record moves a, at most, in units of D.
        bits: How many, at most.
        dimension: D, terms of the dot product a.
    """

    law: Literal["laplace", "gaussian"]
    scale: float
    shift: float
    bits: int
    dimension: int


@dataclass(frozen=True, slots=True)
class Composed:
    """All of these happened to the record."""

    events: "tuple[Event, ...]"


@dataclass(frozen=True, slots=True)
class EitherOf:
    """Exactly one of these happened to the record; which one is part of what its own round keeps hidden.

    The view given the hidden outcome is close to the view without the record, for each outcome; so is their mixture.
    """

    events: "tuple[Event, ...]"


Event = (
    NoOpEvent
    | NonPrivateEvent
    | BetweenThresholdsEvent
    | ChoiceEvent
    | EdgesEvent
    | NoisyCountEvent
    | PaidQuestionsEvent
    | StopperEvent
    | StopperOverflowEvent
    | TruthEvent
    | NoiseDistanceEvent
    | ThresholdBitsEvent
    | Composed
    | EitherOf
)
