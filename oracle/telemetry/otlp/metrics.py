"""Metric families as OpenTelemetry's metrics: the same names, labels and values as at /metrics."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    DataT,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as Exported
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric

__all__ = ["SCOPE", "metrics_data"]

SCOPE: Final = "perpetua"
"""Whose metrics and spans they are."""

_NANOSECONDS: Final = 1_000_000_000
_UNITS: Final = {"seconds": "s", "bytes": "By"}


@dataclass(frozen=True, slots=True)
class _Span:
    """From when to when cumulative values count (nanoseconds since 1970)."""

    start: int
    end: int


def metrics_data(families: Iterable[Metric], resource: Resource, started: float, now: float) -> MetricsData:
    """Return all families as one export.

    Counters lose nothing of their names but `_total`, which collectors put behind them again.

    Args:
        families: Gauges, counters and histograms.
        resource: What tells the process from others.
        started: When the process began (seconds since 1970).
        now: Seconds since 1970.
    """
    span = _Span(int(started) * _NANOSECONDS, int(now) * _NANOSECONDS)
    exported = [
        Exported(family.name, family.documentation, _unit(family.name), _MAKERS[family.type](family, span))
        for family in families
        if family.samples
    ]
    scope = ScopeMetrics(InstrumentationScope(SCOPE), exported, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _unit(name: str) -> str:
    return _UNITS.get(name.rpartition("_")[2], "")


def _points(family: Metric, span: _Span) -> list[NumberDataPoint]:
    return [NumberDataPoint(sample.labels, span.start, span.end, float(sample.value)) for sample in family.samples]


def _gauge(family: Metric, span: _Span) -> DataT:
    return Gauge(_points(family, span))


def _counter(family: Metric, span: _Span) -> DataT:
    return Sum(_points(family, span), AggregationTemporality.CUMULATIVE, is_monotonic=True)


@dataclass(slots=True)
class _Series:
    """One histogram's samples: how many are not above each bound, and the sum."""

    buckets: list[tuple[float, float]] = field(default_factory=list)
    total: float = 0.0


def _histogram(family: Metric, span: _Span) -> DataT:
    series: defaultdict[tuple[tuple[str, str], ...], _Series] = defaultdict(_Series)
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        one = series[tuple(labels.items())]
        if sample.name.endswith("_bucket"):
            one.buckets.append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            one.total = sample.value
    points = [_histogram_point(dict(labels), one, span) for labels, one in series.items()]
    return Histogram(points, AggregationTemporality.CUMULATIVE)


def _histogram_point(labels: Mapping[str, str], series: _Series, span: _Span) -> HistogramDataPoint:
    """Return one point; OTLP counts in each bucket alone what Prometheus counts up to its bound."""
    bounds = [bound for bound, _ in series.buckets if bound < math.inf]
    upto = [0, *(int(count) for _, count in series.buckets)]
    return HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=span.start,
        time_unix_nano=span.end,
        count=upto[-1],
        sum=series.total,
        bucket_counts=[high - low for low, high in pairwise(upto)],
        explicit_bounds=bounds,
        min=None,  # type: ignore[arg-type]  # not known, which is left out
        max=None,  # type: ignore[arg-type]  # as `min`
    )


_MAKERS: Final[Mapping[str, Callable[[Metric, _Span], DataT]]] = {
    "gauge": _gauge,
    "counter": _counter,
    "histogram": _histogram,
}
