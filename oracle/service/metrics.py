"""Metrics for Prometheus, all of them made from the telemetry records when somebody asks, and timings as they come.

The registry is passed in, and holds nothing else: there are no `process_*` and `python_*` metrics. Memory and CPU time
follow the sizes of private sets, the collector's rounds follow the objects of single messages, and telemetry is public.
Labels are the model, the shard's number and a closed list of reasons.
"""

import platform
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from oracle.service.board import Board
from oracle.service.telemetry import BOUNDS, ProcessTelemetry, ShardTelemetry, Timing, Work

__all__ = ["Metrics", "own_registry"]

_SHARD_LABELS: Final = ("model", "shard")

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
    ("perpetua_bus_failures", "Times the bus failed or fenced the shard", lambda r: r.bus_failures),
)
"""Name without `_total`, meaning, and where it stands in a record; None: nothing can be said now."""

_GAUGES: Final[tuple[tuple[str, str, _Read], ...]] = (
    ("perpetua_lag_records", "Messages not answered yet", lambda r: None if r.lag is None else r.lag.records),
    ("perpetua_lag_seconds", "Age of the oldest of them", lambda r: None if r.lag is None else r.lag.seconds),
    ("perpetua_snapshot_timestamp_seconds", "When the newest snapshot was written", lambda r: r.snapshot_at),
    ("perpetua_snapshot_bytes", "Size of the newest snapshot", lambda r: r.snapshot_bytes),
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


def own_registry() -> CollectorRegistry:
    """Return an empty registry."""
    return CollectorRegistry()


class Metrics:
    """The metrics of one process.

    Args:
        board: Where the records are.
        registry: An empty one, of this process's own.
        unready: The shards that are not ready now, and None if the whole process is not.
        now: Seconds since 1970.
    """

    def __init__(
        self,
        board: Board,
        registry: CollectorRegistry,
        *,
        unready: Callable[[], frozenset[int | None]],
        now: Callable[[], float],
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a restart shows in perpetua_start_time_seconds
        self._registry = registry
        self._model = board.telemetry.model
        self._histograms = {
            work: Histogram(name, f"{meaning}; {_ROUNDED}", _SHARD_LABELS, registry=registry, buckets=BOUNDS[work])
            for work, (name, meaning) in _TIMED.items()
        }
        board.listen(self._observe)
        registry.register(_Records(board, unready, now))

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics in the format that an Accept header asks for, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def _observe(self, timing: Timing) -> None:
        self._histograms[timing.work].labels(self._model, str(timing.shard)).observe(timing.seconds)


class _Records(Collector):
    """Turns the records into metrics."""

    def __init__(self, board: Board, unready: Callable[[], frozenset[int | None]], now: Callable[[], float]) -> None:
        self._board = board
        self._unready = unready
        self._now = now

    def describe(self) -> Iterable[Metric]:
        """Return nothing: names are not looked at when this is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        telemetry = self._board.telemetry
        yield from _of_process(telemetry)
        for name, meaning, read in _COUNTERS:
            counter = CounterMetricFamily(name, meaning, labels=_SHARD_LABELS)
            _fill(counter, telemetry, read)
            yield counter
        for name, meaning, read in _GAUGES:
            gauge = GaugeMetricFamily(name, meaning, labels=_SHARD_LABELS)
            _fill(gauge, telemetry, read)
            yield gauge
        yield _rejections(telemetry)
        now, unready = self._now(), self._unready()
        age = GaugeMetricFamily("perpetua_snapshot_age_seconds", "Age of the newest snapshot", labels=_SHARD_LABELS)
        _fill(age, telemetry, lambda r: None if r.snapshot_at is None else max(now - r.snapshot_at, 0.0))
        yield age
        ready = GaugeMetricFamily("perpetua_ready", "Whether the shard is ready, as in /readyz", labels=_SHARD_LABELS)
        _fill(ready, telemetry, lambda r: not unready & {r.shard, None})
        yield ready


def _of_process(telemetry: ProcessTelemetry) -> Iterator[Metric]:
    build = GaugeMetricFamily("perpetua_build_info", "What is running", labels=("version", "python"))
    build.add_metric((telemetry.version, platform.python_version()), 1)
    yield build
    started = GaugeMetricFamily("perpetua_start_time_seconds", "When the process began", labels=("model",))
    started.add_metric((telemetry.model,), telemetry.started)
    yield started


def _rejections(telemetry: ProcessTelemetry) -> Metric:
    counter = CounterMetricFamily(
        "perpetua_rejections", "Messages rejected by this process", labels=(*_SHARD_LABELS, "reason")
    )
    for record in telemetry.shards:
        for reason, count in record.rejections.items():
            counter.add_metric((telemetry.model, str(record.shard), reason.value), count)
    return counter


def _fill(metric: CounterMetricFamily | GaugeMetricFamily, telemetry: ProcessTelemetry, read: _Read) -> None:
    for record in telemetry.shards:
        value = read(record)
        if value is not None:
            metric.add_metric((telemetry.model, str(record.shard)), value)
