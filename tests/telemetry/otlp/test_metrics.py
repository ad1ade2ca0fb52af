"""Metrics by OTLP: what /metrics shows, point for point, after the real encoder and a decoder."""

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from opentelemetry.sdk.resources import Resource
from prometheus_client.parser import text_string_to_metric_families

from connectors.base import Lag
from oracle.codec.rejections import Reason
from oracle.predictors.base import PublicFacts
from oracle.telemetry.log import PublicLog
from oracle.telemetry.metrics import Format, Metrics, encode
from oracle.telemetry.otlp.metrics import metrics_data
from oracle.telemetry.records import Work
from oracle.telemetry.registry import Registry
from tests.support.collector import Collector, attributes
from tests.support.shards import small_plan

_timings = st.lists(st.tuples(st.sampled_from(list(Work)), st.floats(0.0, 1e4), st.integers(1, 10**6)), max_size=12)


def _metrics(timings=(), lag=None):
    registry = Registry(small_plan(), PublicLog(io.StringIO()), version="1.2", now=lambda: 5000.5)
    metrics = Metrics(registry, unready=frozenset, now=lambda: 5100.25)
    for shard in (0, 3):
        reporter = registry.shard(shard)
        reporter.restoring(lambda: lag)
        facts = PublicFacts(20, 1, 20, small_plan().phases[0].rounds, 0)
        reporter.restored(facts, 3, 0.2)
        reporter.committed(facts, [Reason.MALFORMED, Reason.MALFORMED], phase_ended=False)
        for work, seconds, count in timings:
            reporter.took(work, seconds, count)
    return metrics


def _exported(metrics):
    collector = metrics.collector()
    data = metrics_data(collector.collect(), Resource({"a": "b"}), 5000.5, 5100.25)
    return encode_metrics(data)


def _samples(text):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _flat(request):
    """Return an OTLP request as Prometheus' samples."""
    found = {}
    (whose,) = request.resource_metrics
    (scope,) = whose.scope_metrics
    for metric in scope.metrics:
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points:
            labels = attributes(point.attributes)
            key = tuple(sorted(labels.items()))
            if kind == "histogram":
                found[f"{metric.name}_count", key] = point.count
                found[f"{metric.name}_sum", key] = point.sum
                total = 0
                for bound, count in zip([*point.explicit_bounds, math.inf], point.bucket_counts, strict=True):
                    total += count
                    le = "+Inf" if bound == math.inf else repr(bound)
                    found[f"{metric.name}_bucket", tuple(sorted({**labels, "le": le}.items()))] = total
            else:
                value = getattr(point, point.WhichOneof("value"))
                found[metric.name + ("_total" if kind == "sum" else ""), key] = value
    return found


@given(timings=_timings, lag=st.sampled_from([None, Lag(3, None), Lag(7, 0.5)]))
def test_they_are_those_of_metrics_point_for_point(timings, lag):
    """Names, labels, values, buckets and sums: nothing more, nothing less, whatever was timed."""
    metrics = _metrics(timings, lag)
    text = encode(metrics.collector(), Format.TEXT).decode()
    assert _flat(_exported(metrics)) == pytest.approx(_samples(text))


def test_kinds_units_and_times_are_told():
    """Counters are monotone sums since the process began; times are whole seconds; units are OpenTelemetry's."""
    request = _exported(_metrics([(Work.COMMIT, 0.3, 1)]))
    (whose,) = request.resource_metrics
    assert attributes(whose.resource.attributes) == {"a": "b"}
    found = {metric.name: metric for metric in whose.scope_metrics[0].metrics}
    rounds = found["perpetua_rounds"]
    assert rounds.sum.is_monotonic
    cumulative = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    assert rounds.sum.aggregation_temporality == found["perpetua_commit_seconds"].histogram.aggregation_temporality
    assert rounds.sum.aggregation_temporality == cumulative
    (point, _) = rounds.sum.data_points
    assert (point.start_time_unix_nano, point.time_unix_nano) == (5000 * 10**9, 5100 * 10**9)
    assert (found["perpetua_commit_seconds"].unit, rounds.unit) == ("s", "")
    assert rounds.description == "Rounds answered since the state was made"
    (histogram, _) = found["perpetua_commit_seconds"].histogram.data_points
    assert not histogram.HasField("min")
    assert not histogram.HasField("max")


def test_a_collector_reads_them():
    """The bytes of an export are what the tests' collector, and so any other, takes."""
    collector = Collector()
    collector.take("/v1/metrics", _exported(_metrics()).SerializeToString())
    assert collector.value("perpetua_rejections", shard="3", reason="malformed") == 2
    assert collector.value("perpetua_rounds", shard="0") == 20
