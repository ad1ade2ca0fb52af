"""Something for Prometheus to scrape: an exporter with the daemon's metric names, whose values a test sets.

The one place that stands for the daemon's web server in the tests of deploy/.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

from oracle.codec.rejections import Reason

_COUNTERS: Final = (
    "perpetua_rounds",
    "perpetua_batches",
    "perpetua_rearms",
    "perpetua_log_divergences",
    "perpetua_snapshot_failures",
    "perpetua_bus_failures",
    "perpetua_disturbances",
    "perpetua_undelivered",
)
_OF_PROCESS: Final = {
    "perpetua_joined": 1.0,
    "perpetua_shards_planned": 2.0,
    "perpetua_group_strangers": 0.0,
    "perpetua_model_down": 0.0,
}
"""The gauges of a process, and what they say while all is well with two shards."""

_HISTOGRAMS: Final = (
    "perpetua_answer_seconds",
    "perpetua_decode_seconds",
    "perpetua_commit_seconds",
    "perpetua_restore_seconds",
    "perpetua_snapshot_seconds",
    "perpetua_latency_seconds",
)
_HEALTHY: Final = {
    "perpetua_ready": 1.0,
    "perpetua_bus_refused": 0.0,
    "perpetua_paused": 0.0,
    "perpetua_lag_records": 3.0,
    "perpetua_lag_seconds": 0.5,
    "perpetua_snapshot_timestamp_seconds": 1.8e9,
    "perpetua_snapshot_age_seconds": 20.0,
    "perpetua_snapshot_failing": 0.0,
    "perpetua_snapshot_bytes": 84_000.0,
    "perpetua_phase": 2.0,
    "perpetua_phases": 21.0,
    "perpetua_phase_rounds_left": 9e6,
    "perpetua_epsilon": 1.0,
    "perpetua_phase_delta": 1e-10,
    "perpetua_delta_spent": 6e-4,
    "perpetua_delta_left": 4e-4,
    "perpetua_delta_limit": 1e-3,
}
"""The gauges of a shard, and what they say while all is well."""

_TRUTH: Final = {
    "perpetua_truth_ready": 1.0,
    "perpetua_truth_period": 4.0,
    "perpetua_truth_right": 9012.0,
    "perpetua_truth_wrong": 950.0,
    "perpetua_truth_error": 0.095,
    "perpetua_truth_error_half_width": 0.004,
    "perpetua_truth_alpha": 0.1,
}
"""The gauges of `perpetua truth`, and what they say of a shard."""

TRUTH_METRICS: Final = frozenset({*_TRUTH, "perpetua_truth_rejections_total"})
"""What `perpetua truth` exports."""

METRICS: Final = frozenset(
    {
        "perpetua_build_info",
        "perpetua_start_time_seconds",
        "perpetua_rejections_total",
        "perpetua_group_failures_total",
        *_OF_PROCESS,
        *_HEALTHY,
        *(f"{name}_total" for name in _COUNTERS),
        *(f"{name}_{part}" for name in _HISTOGRAMS for part in ("bucket", "count", "sum")),
    }
)
"""The names of all samples, but for those of paid answers and of rests."""

REST_METRICS: Final = frozenset({"perpetua_rested_rounds_total", "perpetua_resting", "perpetua_rest_rounds_left"})
"""The names of those of models that may rest."""

PAID_METRICS: Final = frozenset({"perpetua_paid_answers_total", "perpetua_paid_answers_left"})
"""The names of those, of models that have such."""

_TICK: Final = 0.1
_LABELS: Final = ("model", "shard")


class Monitored:
    """One process with shards, healthy and under load until a test says otherwise, and with what counts true labels.

    Args:
        shards: How many.
        bearer: The token that a scrape must show; None for none.

    Attributes:
        gauges: By name, with labels model and shard.
        counters: By name without `_total`, with labels model and shard.
        bearer: As above.
        port: Where it listens on 127.0.0.1; set by `monitored`.
    """

    def __init__(self, shards: int, bearer: str | None) -> None:
        self.bearer = bearer
        self.port = 0
        self.registry = CollectorRegistry(auto_describe=False)
        info = Gauge("perpetua_build_info", "Build.", ("version", "python"), registry=self.registry)
        info.labels("0.1.0", "3.12").set(1)
        started = Gauge("perpetua_start_time_seconds", "Start.", ("model",), registry=self.registry)
        started.labels("vfr").set(time.time())
        for name, value in _OF_PROCESS.items():
            Gauge(name, name, ("model",), registry=self.registry).labels("vfr").set(value)
        Counter("perpetua_group_failures", "Bus.", ("model",), registry=self.registry).labels("vfr")
        self.gauges = {name: Gauge(name, name, _LABELS, registry=self.registry) for name in _HEALTHY}
        self.counters = {name: Counter(name, name, _LABELS, registry=self.registry) for name in _COUNTERS}
        self._histograms = [Histogram(name, name, _LABELS, registry=self.registry) for name in _HISTOGRAMS]
        self._rejections = Counter("perpetua_rejections", "Rejections.", (*_LABELS, "reason"), registry=self.registry)
        truth = {name: Gauge(name, name, _LABELS, registry=self.registry) for name in _TRUTH}
        self._untrue = Counter("perpetua_truth_rejections", "Labels.", (*_LABELS, "reason"), registry=self.registry)
        self._shards = [str(number) for number in range(shards)]
        for shard in self._shards:
            for name, value in _HEALTHY.items():
                self.gauges[name].labels("vfr", shard).set(value)
            for name, value in _TRUTH.items():
                truth[name].labels("vfr", shard).set(value)
            for counter in self.counters.values():
                counter.labels("vfr", shard)
            for reason in Reason:
                self._rejections.labels("vfr", shard, reason.value)

    def work(self) -> None:
        """Answer a few queries on every shard, and reject one."""
        for shard in self._shards:
            self.counters["perpetua_rounds"].labels("vfr", shard).inc(100)
            self.counters["perpetua_batches"].labels("vfr", shard).inc()
            self._rejections.labels("vfr", shard, Reason.MALFORMED.value).inc()
            self._untrue.labels("vfr", shard, Reason.MALFORMED.value).inc()
            for histogram in self._histograms:
                histogram.labels("vfr", shard).observe(0.01)


@contextmanager
def monitored(shards: int = 2, bearer: str | None = None) -> Iterator[Monitored]:
    """Serve `/metrics`, and `/livez` and `/readyz` as the daemon does, on a free port of 127.0.0.1."""
    subject = Monitored(shards, bearer)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/livez" and bearer and self.headers.get("Authorization") != f"Bearer {bearer}":
                self._answer(401, "text/plain", b"")
            elif self.path == "/metrics":
                encode, kind = choose_encoder(self.headers.get("Accept", ""))
                self._answer(200, kind, encode(subject.registry))
            else:
                ready = self.path == "/livez" or all(
                    sample.value for metric in subject.gauges["perpetua_ready"].collect() for sample in metric.samples
                )
                self._answer(200 if ready else 503, "application/json", b"{}")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    over = threading.Event()

    def keep_working() -> None:
        while not over.wait(_TICK):
            subject.work()

    worker = threading.Thread(target=keep_working)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        subject.port = server.server_port
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": _TICK})
        serving.start()
        worker.start()
        try:
            yield subject
        finally:
            over.set()
            server.shutdown()
            serving.join()
            worker.join()
