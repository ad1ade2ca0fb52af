"""What may be told of a running process: frozen records of public facts.

They are the only thing that log lines, metrics, a shard's ledger events, health and the status page are
built from (ARCHITECTURE.md, "What may be seen"). No field is, or depends on, a label, a feature, a depth, a count of
mediums or the size of a set.
"""

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from connectors.base import Lag
from oracle.codec.rejections import Reason
from oracle.planning.plan import Plan
from oracle.planning.promise import Promise
from oracle.predictors.base import PublicFacts
from oracle.telemetry.states import State

__all__ = [
    "BOUNDS",
    "GRAIN",
    "NO_REJECTIONS",
    "Asked",
    "BatchTelemetry",
    "Incident",
    "ProcessTelemetry",
    "ShardTelemetry",
    "State",
    "Timing",
    "Work",
    "initial_record",
    "public_fields",
    "whole_seconds",
]

NO_REJECTIONS: Final[Mapping[Reason, int]] = MappingProxyType(dict.fromkeys(Reason, 0))
"""Every reason there is, none of them met yet."""


class Work(StrEnum):
    """What is timed; `LATENCY` is of queries, from their time in the log until their answers were durable."""

    DECODE = "decode"
    ANSWER = "answer"
    COMMIT = "commit"
    RESTORE = "restore"
    SNAPSHOT = "snapshot"
    LATENCY = "latency"


BOUNDS: Final[Mapping[Work, tuple[float, ...]]] = MappingProxyType(
    {
        Work.DECODE: (0.002, 0.01, 0.05, 0.25, 1.0),
        Work.ANSWER: (0.002, 0.01, 0.05, 0.25, 1.0),
        Work.COMMIT: (0.005, 0.025, 0.1, 0.5, 2.5),
        Work.RESTORE: (1.0, 10.0, 60.0, 600.0),
        Work.SNAPSHOT: (0.1, 1.0, 10.0),
        Work.LATENCY: (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0),
    }
)
"""Upper bounds (seconds) of the ranges that are told apart in how long work takes."""


GRAIN: Final = 0.0625
"""Seconds: a batch's beginning is told in multiples of it, as batches that follow each other tell how long one took."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a piece of work took, told coarsely.

    To the microsecond it would follow the answers (a restore does their bookkeeping again) and the queries (which miss
    the processor's caches or do not), so nobody is told but of the range that it lies in.

    Attributes:
        seconds: How long, rounded up to the next one of `BOUNDS`; beyond the last one, to that times a power of two.
        count: How many pieces of work took no longer.
    """

    shard: int
    work: Work
    seconds: float
    count: int = 1

    def __post_init__(self) -> None:
        """Round up."""
        object.__setattr__(self, "seconds", _bound(BOUNDS[self.work], self.seconds))


def _bound(bounds: tuple[float, ...], seconds: float) -> float:
    index = bisect.bisect_left(bounds, seconds)
    bound = bounds[min(index, len(bounds) - 1)]
    while bound < seconds:
        bound *= 2.0
    return bound


@dataclass(frozen=True, slots=True)
class Asked:
    """One message whose asker traces it.

    Attributes:
        traceparent: The asker's span, as its message names it (W3C Trace Context); of what is told, the one thing that
            an asker chooses.
        position: Behind the message.
        reason: Why it was rejected, as its answer says; None if it was answered.
    """

    traceparent: str
    position: int
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTelemetry:
    """One batch that was committed, and in which no side was armed afresh and no phase ended.

    Attributes:
        began: When its messages were handed over: seconds since 1970, a multiple of `GRAIN`.
        first: Position behind its first message.
        last: Position behind its last one.
        messages: How many.
        rounds: How many rounds they took.
        rejected: How many were rejected.
        seconds: How long each kind of work took, rounded up as by `Timing`; `LATENCY` is of all, from `began` on.
        asked: Those whose askers trace them.
    """

    shard: int
    began: float
    first: int
    last: int
    messages: int
    rounds: int
    rejected: int
    seconds: Mapping[Work, float]
    asked: tuple[Asked, ...] = ()

    def __post_init__(self) -> None:
        """Make all times coarse."""
        rounded = {work: _bound(BOUNDS[work], seconds) for work, seconds in self.seconds.items()}
        object.__setattr__(self, "seconds", MappingProxyType(rounded))
        object.__setattr__(self, "began", math.floor(self.began / GRAIN) * GRAIN)


def whole_seconds(seconds: float) -> float:
    """Return the whole second of a moment, which is all that is told of it: what lies between two is no timing."""
    return float(math.floor(seconds))


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that an operator should know.

    Attributes:
        at: When (whole seconds since 1970).
        shard: Which shard's; None if it is the whole process's.
        text: An error's text: of Perpetua's own, which are public; of others no more than the kind.
    """

    at: float
    shard: int | None
    event: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTelemetry:
    """One shard at a moment.

    Attributes:
        shard: Its number; 0 where there is one only.
        restored: Whether it is where its commits are. Before, the facts are its snapshot's, or those of a new state.
        round: Rounds answered since the state was made, as of the last commit.
        phase: Current phase, from 1.
        rearms: Times that any side was armed afresh since the state was made.
        epsilon: Per-record epsilon (nats).
        delta: Per-record delta of the phase's records.
        delta_spent: Sum of delta over the shard's training records and all its rounds so far.
        delta_limit: Its bound for ever.
        nominal: True where no proof bounds epsilon and the deltas (the `paper` profile).
        protects_queries: False where they are those of the training records only.
        paid: Answers that the data paid for since the state was made, as of the last commit.
        paid_limit: How many they pay for at most; None where no answer is paid for.
        settles: Whether these settle all others, so that nobody misses more.
        rested: Rounds that rested, without an answer, since the state was made, as of the last commit.
        rest_left: Rounds that will rest before one is answered again; 0 while it does not rest.
        batches: Batches committed by this process.
        begun: Batches that it began to answer, those included; of a shard that serves, more than these are under way.
        rejections: Messages rejected by this process, by reason; every reason is there.
        lag: How far the answers are behind the stream; None where the source cannot tell.
        snapshot_at: When this process wrote or read the newest snapshot it knows (whole seconds since 1970).
        snapshot_bytes: Its size, which depends on the plan and the phase only.
        divergences: Times that this process found another log than the one that was answered.
        snapshot_failures: Snapshots that this process could not write.
        snapshot_failing: Whether the last one that it tried to write is one of them.
        bus_failures: Times that the bus failed this process, or gave the shard to another one.
        refusal: What the broker that does not let us in any more was asked, and says; None while it does.
        undelivered: Answers that this process gave up, as the bus does not take them where they are to go.
        disturbances: Times that this process found the group's offset changed by somebody else (Kafka).
    """

    shard: int
    state: State = State.WAITING
    restored: bool = False
    round: int
    phase: int
    phases: int
    phase_round: int
    phase_rounds: int
    rearms: int
    epsilon: float
    delta: float
    delta_spent: float
    delta_limit: float
    nominal: bool
    protects_queries: bool = True
    paid: int = 0
    paid_limit: int | None = None
    settles: bool = False
    rested: int = 0
    rest_left: int = 0
    batches: int = 0
    begun: int = 0
    rejections: Mapping[Reason, int] = field(default_factory=lambda: NO_REJECTIONS)
    lag: Lag | None = None
    snapshot_at: float | None = None
    snapshot_bytes: int | None = None
    divergences: int = 0
    snapshot_failures: int = 0
    snapshot_failing: bool = False
    bus_failures: int = 0
    refusal: str | None = None
    undelivered: int = 0
    disturbances: int = 0

    @property
    def answers(self) -> bool:
        """Whether queries are answered as they come."""
        return self.state in {State.SERVING, State.DEGRADED}

    @property
    def paid_left(self) -> int | None:
        """How many answers the data still pay for; None where no answer is paid for, or nobody misses more."""
        return None if self.paid_limit is None or self.settles else self.paid_limit - self.paid

    @property
    def promise(self) -> dict[str, float | str]:
        """What a record of the phase is promised, as log fields; one that no proof bounds is called nominal."""
        promise: dict[str, float | str] = {"epsilon": self.epsilon, "delta": self.delta}
        if not self.protects_queries:
            promise["covers"] = "training"
        return promise | {"nominal": True} if self.nominal else promise


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTelemetry:
    """The whole process at a moment, as to one model.

    Attributes:
        model: What the model is called.
        plan: The plan of every shard; public.
        started: When the process began (whole seconds since 1970).
        joined: Whether the consumer group counts us in; always True without a group.
        planned: How many shards of the state have a partition, whoever serves them.
        bus_failures: Times that the bus did not let the process take part; those of a shard are in its own record.
        strangers: Whether somebody else is in the consumer group.
        shards: Those that are ours, by number.
        incidents: The last ones, newest first.
    """

    version: str
    model: str
    plan: Plan
    promise: Promise
    started: float
    joined: bool
    planned: int
    bus_failures: int
    strangers: bool = False
    shards: tuple[ShardTelemetry, ...]
    incidents: tuple[Incident, ...]


def public_fields(plan: Plan, facts: PublicFacts) -> dict[str, int | float]:
    """Return the fields of `ShardTelemetry` that follow from the plan and a predictor's public facts."""
    return {
        "round": facts.round,
        "phase": facts.phase,
        "phase_round": facts.phase_round,
        "phase_rounds": facts.phase_rounds,
        "rearms": facts.rearms,
        "paid": facts.paid,
        "rested": facts.rested,
        "rest_left": facts.rest_left,
        "delta": plan.phases[facts.phase - 1].delta,
        "delta_spent": plan.delta_spent(facts.phase, facts.phase_round),
    }


def initial_record(plan: Plan, shard: int) -> ShardTelemetry:
    """Return the record of a shard of which nothing is known yet but its plan."""
    first = PublicFacts(round=0, phase=1, phase_round=0, phase_rounds=plan.phases[0].rounds, rearms=0)
    return ShardTelemetry(
        shard=shard,
        phases=len(plan.phases),
        epsilon=plan.epsilon,
        delta_limit=plan.delta,
        nominal=plan.nominal,
        protects_queries=plan.protects_queries,
        paid_limit=plan.paid_limit,
        settles=plan.settles,
        **public_fields(plan, first),  # type: ignore[arg-type]  # mypy cannot see which field has which type
    )
