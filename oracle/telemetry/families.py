"""What is measured: every metric with its name, meaning and labels, made from the telemetry records.

Labels are the model, the shard's number and a closed list of reasons.
"""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from oracle.telemetry.records import BOUNDS, ProcessTelemetry, ShardTelemetry, Timing, Work
from oracle.telemetry.states import State

__all__ = ["Family", "Moment", "Tally", "families"]

_TIMED: Final = {
    Work.ANSWER: (
        "perpetua_answer_seconds",
        "Seconds to decide a batch, but for those in which a phase ended or a side was armed afresh",
    ),
    Work.COMMIT: ("perpetua_commit_seconds", "Seconds until a batch's answers were durable"),
    Work.RESTORE: ("perpetua_restore_seconds", "Seconds from opening a snapshot to being where the commits are"),
    Work.SNAPSHOT: ("perpetua_snapshot_seconds", "Seconds to write a snapshot"),
}
"""Name and meaning of each histogram; its buckets are the `BOUNDS`, so its sum is one of bounds."""

_ROUNDED: Final = "each rounded up to its bucket's bound"

_Read = Callable[[ShardTelemetry], float | None]

_COUNTERS: Final[tuple[tuple[str, str, _Read], ...]] = (
    ("perpetua_rounds", "Rounds answered since the state was made", lambda r: r.round if r.restored else None),
    ("perpetua_batches", "Batches committed by this process", lambda r: r.batches),
    ("perpetua_rearms", "Times a side was armed afresh, ever", lambda r: r.rearms if r.restored else None),
    ("perpetua_log_divergences", "Times the log was not the one that was answered", lambda r: r.divergences),
    ("perpetua_snapshot_failures", "Snapshots that could not be written", lambda r: r.snapshot_failures),
    (
        "perpetua_undelivered",
        "Answers that the bus does not take to their askers",
        lambda r: r.undelivered,
    ),
    ("perpetua_disturbances", "Times somebody else had changed the group's offset", lambda r: r.disturbances),
    ("perpetua_bus_failures", "Times the bus failed or fenced the shard", lambda r: r.bus_failures),
)
"""Name without `_total`, meaning, and where it stands in a record; None: nothing can be said now."""

_GAUGES: Final[tuple[tuple[str, str, _Read], ...]] = (
    ("perpetua_lag_records", "Messages not answered yet", lambda r: None if r.lag is None else r.lag.records),
    ("perpetua_lag_seconds", "Age of the oldest of them", lambda r: None if r.lag is None else r.lag.seconds),
    ("perpetua_snapshot_timestamp_seconds", "When the newest snapshot was written", lambda r: r.snapshot_at),
    ("perpetua_snapshot_bytes", "Size of the newest snapshot", lambda r: r.snapshot_bytes),
    (
        "perpetua_bus_refused",
        "Whether the broker lets us in no more, as in /readyz",
        lambda r: r.state is State.REFUSED,
    ),
    ("perpetua_phase", "The phase", lambda r: r.phase if r.restored else None),
    ("perpetua_phases", "Phases planned", lambda r: r.phases),
    (
        "perpetua_phase_rounds_left",
        "Rounds until the phase ends",
        lambda r: r.phase_rounds - r.phase_round if r.restored else None,
    ),
    ("perpetua_epsilon", "Epsilon of every record", lambda r: r.epsilon),
    ("perpetua_phase_delta", "Delta of the phase's records", lambda r: r.delta if r.restored else None),
    (
        "perpetua_delta_spent",
        "Sum of delta over the training records and all rounds so far",
        lambda r: r.delta_spent if r.restored else None,
    ),
    (
        "perpetua_delta_left",
        "What is left of its limit",
        lambda r: max(r.delta_limit - r.delta_spent, 0.0) if r.restored else None,
    ),
    ("perpetua_delta_limit", "Bound on that sum for ever", lambda r: r.delta_limit),
)
"""As `_COUNTERS`, whole names."""


class Tally(NamedTuple):
    """How often some work of a shard took how long.

    Attributes:
        counts: By the bound it was rounded up to; the last number is of all that was beyond the last of `BOUNDS`.
        seconds: Sum of those bounds.
    """

    counts: tuple[int, ...]
    seconds: float

    @classmethod
    def none(cls, work: Work) -> "Tally":
        """Return that of work that was never done."""
        return cls((0,) * (len(BOUNDS[work]) + 1), 0.0)

    def plus(self, timing: Timing) -> "Tally":
        """Return it with one timing more."""
        bounds = BOUNDS[timing.work]
        index = bounds.index(timing.seconds) if timing.seconds in bounds else len(bounds)
        counts = (*self.counts[:index], self.counts[index] + 1, *self.counts[index + 1 :])
        return Tally(counts, self.seconds + timing.seconds)


@dataclass(frozen=True, slots=True)
class Moment:
    """All that metrics are made from.

    Attributes:
        telemetry: The records.
        unready: The shards that are not ready, and None if the whole process is not.
        now: Seconds since 1970.
        tallies: By work and shard.
    """

    telemetry: ProcessTelemetry
    unready: frozenset[int | None]
    now: float
    tallies: Mapping[tuple[Work, int], Tally]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: Without `_total`.
        kind: Prometheus's type.
        meaning: In words, with nothing in it that the formats escape.
        samples: Name with labels, and value, of each.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    samples: Sequence[tuple[str, float]]


def families(moment: Moment) -> Iterator[Family]:
    """Yield every metric."""
    telemetry = moment.telemetry
    model = _escaped(telemetry.model)
    labelled = [(record, f'{{model="{model}",shard="{record.shard}"}}') for record in telemetry.shards]
    for work, (name, meaning) in _TIMED.items():
        yield Family(name, "histogram", f"{meaning}; {_ROUNDED}", list(_timed(moment, model, work, name)))
    yield from _of_process(telemetry, model)
    for name, meaning, read in _COUNTERS:
        yield Family(name, "counter", meaning, _read(f"{name}_total", labelled, read))
    now, unready = moment.now, moment.unready
    gauges: tuple[tuple[str, str, _Read], ...] = (
        *_GAUGES,
        (
            "perpetua_snapshot_age_seconds",
            "Age of the newest snapshot",
            lambda r: None if r.snapshot_at is None else max(now - r.snapshot_at, 0.0),
        ),
        (
            "perpetua_snapshot_failing",
            "Whether the last try to write a snapshot failed",
            lambda r: float(r.snapshot_failing),
        ),
        ("perpetua_ready", "Whether the shard is ready, as in /readyz", lambda r: not unready & {r.shard, None}),
    )
    for name, meaning, read in gauges:
        yield Family(name, "gauge", meaning, _read(name, labelled, read))
    yield Family(
        "perpetua_rejections",
        "counter",
        "Messages rejected by this process",
        [
            (f'perpetua_rejections_total{{model="{model}",reason="{reason.value}",shard="{record.shard}"}}', count)
            for record in telemetry.shards
            for reason, count in record.rejections.items()
        ],
    )


def _of_process(telemetry: ProcessTelemetry, model: str) -> Iterator[Family]:
    labels = f'{{python="{_escaped(platform.python_version())}",version="{_escaped(telemetry.version)}"}}'
    yield Family("perpetua_build_info", "gauge", "What is running", [(f"perpetua_build_info{labels}", 1.0)])
    for name, meaning, value in (
        ("perpetua_start_time_seconds", "When the process began", telemetry.started),
        ("perpetua_joined", "Whether the consumer group counts the process in; 1 without a group", telemetry.joined),
        ("perpetua_group_strangers", "Whether somebody else is in the consumer group", telemetry.strangers),
        ("perpetua_shards_planned", "Shards that the state has, whoever serves them", telemetry.planned),
    ):
        yield Family(name, "gauge", meaning, [(f'{name}{{model="{model}"}}', value)])
    name, meaning = "perpetua_group_failures", "Times the bus did not let the process take part"
    yield Family(name, "counter", meaning, [(f'{name}_total{{model="{model}"}}', telemetry.bus_failures)])


def _read(name: str, labelled: Sequence[tuple[ShardTelemetry, str]], read: _Read) -> list[tuple[str, float]]:
    values = ((labels, read(record)) for record, labels in labelled)
    return [(name + labels, value) for labels, value in values if value is not None]


def _timed(moment: Moment, model: str, work: Work, name: str) -> Iterator[tuple[str, float]]:
    """Yield the samples of a histogram, whose buckets each hold those below them."""
    bounds = [*map(repr, BOUNDS[work]), "+Inf"]
    for (other, shard), tally in sorted(moment.tallies.items()):
        if other is not work:
            continue
        labels, within = f'model="{model}",shard="{shard}"', 0
        for bound, count in zip(bounds, tally.counts, strict=True):
            within += count
            yield f'{name}_bucket{{le="{bound}",{labels}}}', within
        yield f"{name}_count{{{labels}}}", within
        yield f"{name}_sum{{{labels}}}", tally.seconds


def _escaped(value: str) -> str:
    """Return a label's value as both text formats write it."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
