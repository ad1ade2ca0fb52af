"""What is measured: every metric with its name, help text and labels, made from the telemetry records.

Labels are the model, the shard's number and a closed list of reasons.
"""

import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from oracle.planning.plan import Plan
from oracle.telemetry.records import BOUNDS, ProcessTelemetry, ShardTelemetry, Timing, Work
from oracle.telemetry.states import State
from oracle.telemetry.truths import TruthTelemetry

__all__ = ["Moment", "RecordCollector", "Tally", "TruthCollector"]

_SHARD: Final = ("model", "shard")

_TRUTH_GAUGES: Final = (
    ("perpetua_truth_period", "The newest period whose true labels were counted, from 0"),
    ("perpetua_truth_right", "Noisy count of its answers that were right"),
    ("perpetua_truth_wrong", "Noisy count of its answers that were wrong"),
    ("perpetua_truth_error", "Share of its answers that were wrong, by these counts"),
    ("perpetua_truth_error_half_width", "How far noise moved that share at most, 19 times in 20"),
    ("perpetua_truth_alpha", "The error that was asked of the plan"),
)
"""Name and help text of what is told of a shard's newest release."""

_TIMED: Final = {
    Work.DECODE: ("perpetua_decode_seconds", "Seconds to decode a batch's messages"),
    Work.ANSWER: (
        "perpetua_answer_seconds",
        "Seconds to decide a batch, but for those in which a phase ended or a side was armed afresh",
    ),
    Work.COMMIT: ("perpetua_commit_seconds", "Seconds until a batch's answers were durable"),
    Work.RESTORE: ("perpetua_restore_seconds", "Seconds from opening a snapshot to being where the commits are"),
    Work.SNAPSHOT: ("perpetua_snapshot_seconds", "Seconds to write a snapshot"),
    Work.LATENCY: (
        "perpetua_latency_seconds",
        "Seconds from a message's time in the log until its answer was durable, at most: those of its commit's oldest",
    ),
}
"""Name and help text of each histogram; its buckets are the `BOUNDS`, so its sum is one of bounds."""

_ROUNDED: Final = "each rounded up to its bucket's bound"

_Read = Callable[[ShardTelemetry], float | None]
_Families = tuple[tuple[str, str, _Read], ...]
"""Of each family name, without `_total`, help text, and the value in a record; None: unknown now."""

_Has = Callable[[Plan], bool]
"""Whether a plan has what some families are about."""


def _any(_plan: Plan) -> bool:
    return True


def _pays(plan: Plan) -> bool:
    return plan.paid_limit is not None


def _rests(plan: Plan) -> bool:
    return plan.rests


_COUNTERS: Final[_Families] = (
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
"""Of every plan."""

_GAUGES: Final[_Families] = (
    ("perpetua_lag_records", "Messages not answered yet", lambda r: None if r.lag is None else r.lag.records),
    ("perpetua_lag_seconds", "Age of the oldest of them", lambda r: None if r.lag is None else r.lag.seconds),
    ("perpetua_snapshot_timestamp_seconds", "When the newest snapshot was written", lambda r: r.snapshot_at),
    ("perpetua_snapshot_bytes", "Size of the newest snapshot", lambda r: r.snapshot_bytes),
    (
        "perpetua_bus_refused",
        "Whether the broker lets us in no more, as in /readyz",
        lambda r: r.state is State.REFUSED,
    ),
    ("perpetua_paused", "Whether an operator has the shard wait", lambda r: r.state is State.PAUSED),
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
        "Sum of delta over the training records and all rounds so far; of a table, each row's delta",
        lambda r: r.delta_spent if r.restored else None,
    ),
    (
        "perpetua_delta_left",
        "What is left of its limit",
        lambda r: max(r.delta_limit - r.delta_spent, 0.0) if r.restored else None,
    ),
    ("perpetua_delta_limit", "Bound on that for ever", lambda r: r.delta_limit),
)
"""As `_COUNTERS`."""

_PAID: Final[_Families] = (
    ("perpetua_paid_answers", "Answers that the data paid for, ever", lambda r: r.paid if r.restored else None),
)
_PAID_LEFT: Final[_Families] = (
    (
        "perpetua_paid_answers_left",
        "Answers that the data still pay for; at 0 no answer is verified any more",
        lambda r: r.paid_left if r.restored else None,
    ),
)
"""As `_COUNTERS` and `_GAUGES`, of plans whose answers are paid for only."""

_RESTED: Final[_Families] = (
    ("perpetua_rested_rounds", "Rounds that rested, unanswered, ever", lambda r: r.rested if r.restored else None),
)
_RESTING: Final[_Families] = (
    ("perpetua_resting", "Whether the next query gets no answer", lambda r: r.rest_left > 0 if r.restored else None),
    ("perpetua_rest_rounds_left", "Rounds until the rest ends", lambda r: r.rest_left if r.restored else None),
)
"""As these, of plans that may rest only."""


_OF_PROCESS: Final[tuple[tuple[str, str, Callable[[ProcessTelemetry], float]], ...]] = (
    ("perpetua_start_time_seconds", "When the process began", lambda told: told.started),
    (
        "perpetua_joined",
        "Whether the consumer group counts the process in; 1 without a group",
        lambda told: told.joined,
    ),
    ("perpetua_group_strangers", "Whether somebody else is in the consumer group", lambda told: told.strangers),
    ("perpetua_shards_planned", "Shards that have a partition, whoever serves them", lambda told: told.planned),
)
"""Name, help text, and the value in a process's record."""


class Tally(NamedTuple):
    """How often some work of a shard took how long.

    Attributes:
        counts: By the bound it was rounded up to; the last number is of all beyond the last of `BOUNDS`.
        seconds: Sum of those bounds.
    """

    counts: tuple[int, ...]
    seconds: float

    @classmethod
    def none(cls, work: Work) -> "Tally":
        """Return that of work that was never done."""
        return cls((0,) * (len(BOUNDS[work]) + 1), 0.0)

    def plus(self, timing: Timing) -> "Tally":
        """Return it with what a timing counts more."""
        bounds = BOUNDS[timing.work]
        index = bounds.index(timing.seconds) if timing.seconds in bounds else len(bounds)
        counts = (*self.counts[:index], self.counts[index] + timing.count, *self.counts[index + 1 :])
        return Tally(counts, self.seconds + timing.seconds * timing.count)


@dataclass(frozen=True, slots=True)
class Moment:
    """A model at a moment.

    Attributes:
        unready: The shards that are not ready, and None if the whole model is not.
    """

    telemetry: ProcessTelemetry
    unready: frozenset[int | None]
    tallies: Mapping[tuple[Work, int], Tally]


@dataclass(frozen=True, slots=True)
class RecordCollector(Collector):
    """Collects the metrics of one moment, in any thread: nothing here changes any more.

    Attributes:
        moments: Of each model, in order.
        down: For each model, whether it cannot be served now.
        version: Of the software.
        now: Seconds since 1970.
    """

    moments: tuple[Moment, ...]
    down: Mapping[str, bool]
    version: str
    now: float

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family, in a fixed order."""
        for work, (name, text) in _TIMED.items():
            yield self._histogram(work, HistogramMetricFamily(name, f"{text}; {_ROUNDED}", labels=_SHARD))
        yield from self._of_process()
        for has, families in ((_any, _COUNTERS), (_pays, _PAID), (_rests, _RESTED)):
            for name, text, read in self._shown(has, families):
                yield self._of_shards(CounterMetricFamily(name, text, labels=_SHARD), read, has)
        for has, families in ((_any, _GAUGES), (_pays, _PAID_LEFT), (_rests, _RESTING), (_any, self._gauges_of_now())):
            for name, text, read in self._shown(has, families):
                yield self._of_shards(GaugeMetricFamily(name, text, labels=_SHARD), read, has)
        yield self._ready()
        yield self._rejections()

    def _histogram(self, work: Work, family: HistogramMetricFamily) -> Metric:
        bounds = [*map(repr, BOUNDS[work]), "+Inf"]
        for one in self.moments:
            for (other, shard), tally in sorted(one.tallies.items()):
                if other is work:
                    buckets = list(zip(bounds, accumulate(tally.counts), strict=True))
                    family.add_metric((one.telemetry.model, str(shard)), buckets, tally.seconds)
        return family

    def _of_process(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("perpetua_build_info", "What is running", labels=("python", "version"))
        build.add_metric((platform.python_version(), self.version), 1.0)
        yield build
        for name, text, read in _OF_PROCESS:
            gauge = GaugeMetricFamily(name, text, labels=("model",))
            for one in self.moments:
                gauge.add_metric((one.telemetry.model,), read(one.telemetry))
            yield gauge
        down = GaugeMetricFamily("perpetua_model_down", "Whether the model cannot be served now", labels=("model",))
        for model, is_down in self.down.items():
            down.add_metric((model,), is_down)
        yield down
        text = "Times the bus did not let the process take part"
        failures = CounterMetricFamily("perpetua_group_failures", text, labels=("model",))
        for one in self.moments:
            failures.add_metric((one.telemetry.model,), one.telemetry.bus_failures)
        yield failures

    def _gauges_of_now(self) -> _Families:
        now = self.now
        return (
            (
                "perpetua_snapshot_age_seconds",
                "Age of the newest snapshot",
                lambda r: None if r.snapshot_at is None else max(now - r.snapshot_at, 0.0),
            ),
            (
                "perpetua_snapshot_failing",
                "Whether the last try to write a snapshot failed",
                lambda r: r.snapshot_failing,
            ),
        )

    def _shown(self, has: _Has, families: _Families) -> _Families:
        """Return the families of plans of some kind, where the process has one such plan, or they are of any."""
        return families if has is _any or any(has(one.telemetry.plan) for one in self.moments) else ()

    def _of_shards(
        self, family: CounterMetricFamily | GaugeMetricFamily, read: _Read, has: _Has
    ) -> CounterMetricFamily | GaugeMetricFamily:
        for one in self.moments:
            for record in one.telemetry.shards if has(one.telemetry.plan) else ():
                value = read(record)
                if value is not None:
                    family.add_metric((one.telemetry.model, str(record.shard)), value)
        return family

    def _ready(self) -> Metric:
        family = GaugeMetricFamily("perpetua_ready", "Whether the shard is ready, as in /readyz", labels=_SHARD)
        for one in self.moments:
            for record in one.telemetry.shards:
                family.add_metric((one.telemetry.model, str(record.shard)), not one.unready & {record.shard, None})
        return family

    def _rejections(self) -> Metric:
        text = "Messages rejected by this process"
        family = CounterMetricFamily("perpetua_rejections", text, labels=("model", "reason", "shard"))
        for one in self.moments:
            for record in one.telemetry.shards:
                for reason, count in record.rejections.items():
                    family.add_metric((one.telemetry.model, reason.value, str(record.shard)), count)
        return family


class TruthCollector(Collector):
    """The metrics of `perpetua truth`: of labels only what was released with noise."""

    def __init__(self, telemetry: TruthTelemetry) -> None:
        self._told = telemetry

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        told = self._told
        ready = GaugeMetricFamily("perpetua_truth_ready", "Whether a shard's true labels are counted", labels=_SHARD)
        for shard, value in told.ready.items():
            ready.add_metric((told.model, str(shard)), float(value))
        rejected = CounterMetricFamily(
            "perpetua_truth_rejections", "Messages that were no true labels", labels=(*_SHARD, "reason")
        )
        for (shard, reason), count in told.rejected.items():
            rejected.add_metric((told.model, str(shard), reason.value), count)
        yield from (ready, rejected, *self._released())

    def _released(self) -> Iterator[Metric]:
        """Yield the newest period's figures; the share of wrong answers where noise leaves any to be told."""
        told = self._told
        families = [GaugeMetricFamily(name, text, labels=_SHARD) for name, text in _TRUTH_GAUGES]
        for shard, period in told.released.items():
            error = period.error(told.epsilon) or (None, None)
            values = (period.period, period.right, period.wrong, *error, told.alpha)
            for family, value in zip(families, values, strict=True):
                if value is not None:
                    family.add_metric((told.model, str(shard)), value)
        yield from families
