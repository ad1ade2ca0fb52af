"""The metrics: a closed list of names and labels, with the values of the records."""

import io
import math
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from connectors.base import Lag
from oracle.codec.rejections import Reason
from oracle.errors import BusError, LogDivergedError, StorageError
from oracle.predictors.base import PublicFacts
from oracle.telemetry.log import PublicLog
from oracle.telemetry.metrics import Format, Metrics, encode, format_for
from oracle.telemetry.records import Work
from oracle.telemetry.registry import Registry
from tests.support.distributions import distribution_plan
from tests.support.shards import small_plan
from tests.support.tables import paying_plan

_SHARD = frozenset({"model", "shard"})
_NAMES = {
    "perpetua_build_info": frozenset({"version", "python"}),
    **dict.fromkeys(
        [
            "perpetua_start_time_seconds",
            "perpetua_joined",
            "perpetua_model_down",
            "perpetua_shards_planned",
            "perpetua_group_strangers",
            "perpetua_group_failures_total",
        ],
        frozenset({"model"}),
    ),
    "perpetua_rejections_total": _SHARD | {"reason"},
    **dict.fromkeys(
        [
            "perpetua_rounds_total",
            "perpetua_batches_total",
            "perpetua_rearms_total",
            "perpetua_log_divergences_total",
            "perpetua_snapshot_failures_total",
            "perpetua_bus_failures_total",
            "perpetua_bus_refused",
            "perpetua_paused",
            "perpetua_disturbances_total",
            "perpetua_undelivered_total",
            "perpetua_ready",
            "perpetua_lag_records",
            "perpetua_lag_seconds",
            "perpetua_snapshot_timestamp_seconds",
            "perpetua_snapshot_age_seconds",
            "perpetua_snapshot_failing",
            "perpetua_snapshot_bytes",
            "perpetua_phase",
            "perpetua_phases",
            "perpetua_phase_rounds_left",
            "perpetua_epsilon",
            "perpetua_phase_delta",
            "perpetua_delta_spent",
            "perpetua_delta_left",
            "perpetua_delta_limit",
        ],
        _SHARD,
    ),
    **{
        f"perpetua_{work.value}_seconds_{part}": _SHARD | ({"le"} if part == "bucket" else set())
        for work in Work
        for part in ("bucket", "count", "sum")
    },
}
"""Every sample that there may ever be, with its labels."""

_ABSENT_AT_FIRST = {
    name
    for name in _NAMES
    if name.startswith(("perpetua_lag", "perpetua_snapshot_", *(f"perpetua_{work.value}_seconds" for work in Work)))
} - {"perpetua_snapshot_failures_total", "perpetua_snapshot_failing"} | {
    "perpetua_rounds_total",
    "perpetua_rearms_total",
    "perpetua_phase",
    "perpetua_phase_rounds_left",
    "perpetua_phase_delta",
    "perpetua_delta_spent",
    "perpetua_delta_left",
}
"""What nobody knows before the shard was restored."""


class _Bench:
    """A registry and its metrics."""

    def __init__(self, **options):
        self.registry = Registry(small_plan(), PublicLog(io.StringIO()), version="1.2", now=lambda: 5000.0, **options)
        self.unready: frozenset[int | None] = frozenset()
        self.metrics = Metrics(self.registry, unready=lambda: self.unready, now=lambda: 5100.0)

    def samples(self, accept=""):
        body = encode(self.metrics.collector(), format_for(accept))
        parse = parse_openmetrics if "openmetrics" in accept else parse_text
        return [sample for family in parse(body.decode()) for sample in family.samples]

    def value(self, name, shard: int | None = 0, **labels):
        """Return a shard's value, or the process's if `shard` is None."""
        wanted = {"model": small_plan().name, **({} if shard is None else {"shard": str(shard)}), **labels}
        (found,) = [sample.value for sample in self.samples() if sample.name == name and sample.labels == wanted]
        return found

    def serve(self, shard=0, lag=None, rounds=20):
        reporter = self.registry.shard(shard)
        reporter.restoring(lambda: lag)
        reporter.snapshot_read(_facts(rounds), 4000.0, 777)
        reporter.restored(_facts(rounds), 3, 0.2)
        reporter.serving()
        return reporter


def _facts(rounds, rearms=0):
    return PublicFacts(rounds, 1, rounds, small_plan().phases[0].rounds, rearms)


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_names_and_labels_are_a_closed_list(accept):
    """A shard that has seen everything shows exactly the listed samples, each with exactly its labels."""
    bench = _Bench()
    reporter = bench.serve(lag=Lag(3, 1.5))
    reporter.committed(_facts(30), [Reason.OVERSIZED], phase_ended=False)
    for work in Work:
        reporter.took(work, 0.01)
    found: dict[str, set[str]] = {}
    for sample in bench.samples(accept):
        assert found.setdefault(sample.name, set(sample.labels)) == set(sample.labels)
    assert found == {name: set(labels) for name, labels in _NAMES.items()}


def test_before_it_is_restored_a_shard_shows_only_what_is_known():
    """All reasons are there at 0 and the plan's figures; nothing is said of rounds that only a restore can tell."""
    bench = _Bench()
    bench.registry.shard(0)
    assert {sample.name for sample in bench.samples()} == set(_NAMES) - _ABSENT_AT_FIRST
    for reason in Reason:
        assert bench.value("perpetua_rejections_total", reason=reason.value) == 0


def test_values_are_the_records():
    """Counters, gauges, lag, snapshot and privacy of one shard, to the number."""
    bench, plan = _Bench(), small_plan()
    reporter = bench.serve(lag=Lag(3, 1.5))
    reporter.committed(_facts(50, rearms=2), [Reason.OVERSIZED, Reason.NOT_UTF8, Reason.OVERSIZED], phase_ended=False)
    reporter.snapshot_failed(StorageError("full"))
    reporter.undelivered(1)
    (record,) = bench.registry.telemetry.shards
    expected = {
        "perpetua_rounds_total": 50,
        "perpetua_batches_total": 1,
        "perpetua_rearms_total": 2,
        "perpetua_log_divergences_total": 0,
        "perpetua_snapshot_failures_total": 1,
        "perpetua_bus_failures_total": 0,
        "perpetua_undelivered_total": 1,
        "perpetua_bus_refused": 0,
        "perpetua_paused": 0,
        "perpetua_ready": 1,
        "perpetua_lag_records": 3,
        "perpetua_lag_seconds": 1.5,
        "perpetua_snapshot_timestamp_seconds": 4000,
        "perpetua_snapshot_age_seconds": 1100,
        "perpetua_snapshot_failing": 1,
        "perpetua_snapshot_bytes": 777,
        "perpetua_phase": 1,
        "perpetua_phases": len(plan.phases),
        "perpetua_phase_rounds_left": plan.phases[0].rounds - 50,
        "perpetua_epsilon": plan.epsilon,
        "perpetua_phase_delta": plan.phases[0].delta,
        "perpetua_delta_spent": record.delta_spent,
        "perpetua_delta_left": max(plan.delta - record.delta_spent, 0.0),
        "perpetua_delta_limit": plan.delta,
    }
    assert {name: bench.value(name) for name in expected} == expected
    assert bench.value("perpetua_rejections_total", reason="oversized") == 2
    assert bench.value("perpetua_rejections_total", reason="not-utf8") == 1
    reporter.failed(LogDivergedError("log diverged"))
    assert bench.value("perpetua_log_divergences_total") == 1


def test_paid_answers_are_told_where_there_are_any():
    """A counter and what is left, in both formats; of a plan without them not even their names."""
    bench, names = _Bench(), {"perpetua_paid_answers_total", "perpetua_paid_answers_left"}
    bench.serve()
    assert not any("paid" in sample.name for sample in bench.samples())
    plan = paying_plan("statistics")
    bench.registry = Registry(plan, PublicLog(io.StringIO()), version="1.2", now=lambda: 5000.0)
    bench.metrics = Metrics(bench.registry, unready=lambda: bench.unready, now=lambda: 5100.0)
    reporter = bench.registry.shard(0)
    assert not names & {sample.name for sample in bench.samples()}, "nobody knows before the shard was restored"
    for paid in (0, 5, 12):
        reporter.restored(replace(_facts(20), paid=paid), 0, 0.1)
        for accept in ("", "application/openmetrics-text; version=1.0.0"):
            found = {sample.name: sample.value for sample in bench.samples(accept) if sample.name in names}
            assert found == {"perpetua_paid_answers_total": paid, "perpetua_paid_answers_left": 12 - paid}


def test_of_paid_answers_that_settle_all_others_none_is_left():
    """They are counted, but nothing runs out, so no alert can say so."""
    bench, plan = _Bench(), distribution_plan()
    bench.registry = Registry(plan, PublicLog(io.StringIO()), version="1.2", now=lambda: 5000.0)
    bench.metrics = Metrics(bench.registry, unready=lambda: bench.unready, now=lambda: 5100.0)
    bench.registry.shard(0).restored(replace(_facts(20), paid=plan.paid), 0, 0.1)
    found = {sample.name: sample.value for sample in bench.samples() if "paid" in sample.name and sample.value < 1e6}
    assert found == {"perpetua_paid_answers_total": plan.paid}


def test_a_process_that_no_broker_answers_says_so():
    """With no shard of its own it tells how many there are, that the group does not count it in, and each failure."""
    bench = _Bench(shards=4, grouped=True)
    names = ("perpetua_joined", "perpetua_shards_planned", "perpetua_group_failures_total")

    def told():
        return tuple(bench.value(name, None) for name in names)

    assert told() == (0, 4, 0)
    for failures in (1, 2):
        bench.registry.bus_failed(BusError("brokers a:9092: KafkaConnection"))
        assert told() == (0, 4, failures)
    assert not any("shard" in sample.labels for sample in bench.samples())
    bench.registry.joined()
    assert told() == (1, 4, 2)


def test_a_process_without_a_group_is_always_in():
    """On files and MQTT there is one shard, and nobody to be counted in by."""
    bench = _Bench()
    bench.registry.shard(0)
    assert bench.value("perpetua_joined", None) == bench.value("perpetua_shards_planned", None) == 1


def test_ready_is_what_health_says():
    """A shard that is not ready, or a process that is not, shows 0."""
    bench = _Bench()
    bench.serve(0)
    bench.serve(1)
    bench.unready = frozenset({1})
    assert (bench.value("perpetua_ready", 0), bench.value("perpetua_ready", 1)) == (1, 0)
    bench.unready = frozenset({None})
    assert (bench.value("perpetua_ready", 0), bench.value("perpetua_ready", 1)) == (0, 0)


def test_a_lag_of_unknown_age_has_no_seconds():
    """The number of messages is there, their age is not made up."""
    bench = _Bench()
    bench.serve(lag=Lag(3, None))
    names = {sample.name for sample in bench.samples()}
    assert "perpetua_lag_records" in names
    assert "perpetua_lag_seconds" not in names


def test_histograms_count_what_was_timed():
    """A timing is in every bucket whose bound is not below it and in the count; the sum is one of bounds only."""
    bench = _Bench()
    reporter = bench.serve(2)
    for seconds in (0.02, 0.02, 0.3):
        reporter.took(Work.COMMIT, seconds)
    assert bench.value("perpetua_commit_seconds_count", 2) == 3
    assert bench.value("perpetua_commit_seconds_sum", 2) == pytest.approx(0.025 + 0.025 + 0.5)
    bounds = {
        float(sample.labels["le"]): sample.value
        for sample in bench.samples()
        if sample.name == "perpetua_commit_seconds_bucket"
    }
    assert bounds[math.inf] == 3
    assert all(count == (0 if bound < 0.02 else 2 if bound < 0.3 else 3) for bound, count in bounds.items())


def test_a_timing_of_many_counts_as_often():
    """The latency of a commit's answers is that of each of them."""
    bench = _Bench()
    reporter = bench.serve(2)
    reporter.took(Work.LATENCY, 0.2, 1000)
    reporter.took(Work.LATENCY, 0.3, 7)
    assert bench.value("perpetua_latency_seconds_count", 2) == 1007
    assert bench.value("perpetua_latency_seconds_sum", 2) == pytest.approx(250 + 3.5)
    assert bench.value("perpetua_latency_seconds_bucket", 2, le="0.25") == 1000


_FORMATS = [(Format.TEXT, parse_text), (Format.OPENMETRICS, parse_openmetrics)]


@pytest.mark.parametrize(("wanted", "parse"), _FORMATS)
def test_what_is_written_is_what_is_collected(wanted, parse):
    """A parser reads every sample of every family, each with its name, labels and value, and in their order."""
    bench = _Bench()
    for shard in range(3):
        reporter = bench.serve(shard, lag=Lag(3_000_000, 1.5e-7))
        reporter.committed(_facts(30), [Reason.OVERSIZED], phase_ended=False)
        for work in Work:
            reporter.took(work, 0.01)
            reporter.took(work, 1e6)
    bench.registry.shard(11)
    bench.unready = frozenset({2})
    collector = bench.metrics.collector()
    read = [(one.name, one.type, one.documentation, one.samples) for one in parse(encode(collector, wanted).decode())]
    collected = [(one.name, one.type, one.documentation, one.samples) for one in collector.collect() if one.samples]
    assert read == collected


@pytest.mark.parametrize(("wanted", "parse"), _FORMATS)
def test_labels_are_escaped(wanted, parse):
    """A model's name with a quote and a backslash is read as what it is."""
    bench = _Bench()
    bench.serve()
    collector = bench.metrics.collector()
    (moment,) = collector.moments
    named = replace(moment, telemetry=replace(moment.telemetry, model='a "b" \\ c'))
    odd = replace(collector, moments=(named,), down={named.telemetry.model: False})
    samples = [sample for family in parse(encode(odd, wanted).decode()) for sample in family.samples]
    assert {sample.labels.get("model") for sample in samples} == {'a "b" \\ c', None}


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", Format.TEXT),
        ("*/*", Format.TEXT),
        ("text/plain;version=1.0.0;escaping=allow-utf-8", Format.TEXT),
        ("application/openmetrics-text", Format.OPENMETRICS),
        ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,*/*;q=0.1", Format.OPENMETRICS),
        ("application/openmetrics-text;version=0.0.1", Format.TEXT),
        ("application/openmetrics-text;version=x", Format.TEXT),
        ("text/plain;version=x.y", Format.TEXT),
        ("application/openmetrics-text;version=" + "9" * 5000, Format.TEXT),
    ],
)
def test_format_by_accept(accept, wanted):
    """OpenMetrics for whoever asks for a version that is one, else plain text."""
    assert format_for(accept) is wanted
