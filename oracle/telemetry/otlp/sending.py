"""Metrics and spans on their way to a collector, beside the daemon: it never waits for them.

What is to be sent waits in bounded queues, in threads that end with the process. Where the collector is away, slow or
hangs, the newest metrics replace older ones, and the oldest spans are dropped; when the daemon ends, what is left is
given `FLUSH_SECONDS`.
"""

import asyncio
import contextlib
import os
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from requests.utils import get_environ_proxies

from oracle.config.credentials import secret_of
from oracle.config.otlp import OtlpConfig, OtlpTlsConfig
from oracle.config.web import is_loopback
from oracle.errors import BusError, InputError
from oracle.telemetry.client_logs import LibraryLog, hear_client
from oracle.telemetry.collector import RecordCollector
from oracle.telemetry.log import PublicLog
from oracle.telemetry.observers import Observers
from oracle.telemetry.otlp.metrics import metrics_data
from oracle.telemetry.otlp.spans import Channel, Spans

__all__ = ["FLUSH_SECONDS", "exporting", "try_sending"]

FLUSH_SECONDS: Final = 3.0
"""Most time for what is left when the daemon ends."""

_LOGGERS: Final = ("opentelemetry", "urllib3")
_DEFAULT: Final = "http://localhost:4318"
_BASE: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_OFF: Final = "OTEL_SDK_DISABLED"
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([ -~]*)")
_QUEUED_SPANS: Final = 2048
_SPANS_AT_ONCE: Final = 512
_SPAN_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class _Exporters:
    """What speaks to the collector; `spans` is None where none are made."""

    metrics: MetricExporter
    spans: SpanExporter | None


@contextlib.asynccontextmanager
async def exporting(
    table: OtlpConfig, channels: Mapping[str, Channel], observers: Observers, log: PublicLog
) -> AsyncIterator[None]:
    """Send the models' metrics, and spans of their batches, until the context is left.

    Args:
        table: `[otlp]`.
        channels: Where each model's queries come from, by name.
        observers: Of the process.
        log: The process's; it gets nothing of what is sent.

    Raises:
        InputError: A file cannot be used, or a variable of OpenTelemetry in the environment.
        StorageError: The headers' file cannot be read.
    """
    if os.environ.get(_OFF, "").strip().lower() == "true":
        yield
        return
    hear_client(LibraryLog(log, "otlp.client"), _LOGGERS)
    models = observers.models
    resource = _resource(models.names, models.version)
    exporters = _exporters(table)
    sender = _MetricsSender(exporters.metrics, resource, observers.now())
    threads = [sender.thread]
    if exporters.spans is not None:
        provider = _provider(exporters.spans, resource)
        models.follow(lambda name: Spans(provider, name, channels[name], table.sample_ratio).take)
        threads.append(threading.Thread(target=provider.shutdown, name="otlp-spans-end", daemon=True))
    sending = asyncio.create_task(_send_often(sender, observers, table.interval_seconds))
    log.info("otlp.exporting")
    try:
        yield
    finally:
        models.follow(None)
        sending.cancel()
        sender.send(observers.collector())
        sender.end()
        await asyncio.to_thread(_ended, threads)


def try_sending(table: OtlpConfig) -> None:
    """Send an export of metrics that has none.

    Raises:
        InputError: See `exporting`.
        StorageError: See `exporting`.
        BusError: The collector does not take it.
    """
    hear_client(None, _LOGGERS)
    exporter = _exporters(table).metrics
    try:
        if exporter.export(MetricsData([])) is not MetricExportResult.SUCCESS:
            msg = (
                f"{_base(table)}: the collector does not answer in {table.timeout_seconds:g} s, or refuses what is sent"
            )
            raise BusError(msg)
    finally:
        exporter.shutdown()


def _ended(threads: Sequence[threading.Thread]) -> None:
    """Begin those that are not, and wait for all within the bound; what still hangs then ends with the process."""
    deadline = time.monotonic() + FLUSH_SECONDS
    for thread in threads:
        if thread.ident is None:
            thread.start()
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0.0))


async def _send_often(sender: "_MetricsSender", observers: Observers, seconds: float) -> None:
    while True:
        sender.send(observers.collector())
        await asyncio.sleep(seconds)


class _MetricsSender:
    """Sends metrics from a thread of its own: the newest that it has when it is done with those before."""

    def __init__(self, exporter: MetricExporter, resource: Resource, started: float) -> None:
        self._exporter = exporter
        self._resource = resource
        self._started = started
        self._waiting: deque[RecordCollector] = deque(maxlen=1)
        self._news = threading.Event()
        self._over = False
        self.thread = threading.Thread(target=self._run, name="otlp-metrics", daemon=True)
        self.thread.start()

    def send(self, collector: RecordCollector) -> None:
        """Have the metrics of one moment sent; it never waits."""
        self._waiting.append(collector)
        self._news.set()

    def end(self) -> None:
        """Let the thread end behind what waits."""
        self._over = True
        self._news.set()

    def _run(self) -> None:
        over = False
        while not over:
            self._news.wait()
            self._news.clear()
            over = self._over
            with contextlib.suppress(IndexError):
                collector = self._waiting.pop()
                self._exporter.export(metrics_data(collector.collect(), self._resource, self._started, collector.now))
        self._exporter.shutdown()


def _provider(exporter: SpanExporter, resource: Resource) -> TracerProvider:
    provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
    processor = BatchSpanProcessor(
        exporter,
        max_queue_size=_QUEUED_SPANS,
        max_export_batch_size=_SPANS_AT_ONCE,
        schedule_delay_millis=_SPAN_SECONDS * 1000,
    )
    provider.add_span_processor(processor)
    return provider


def _resource(models: Sequence[str], version: str) -> Resource:
    """Return what tells the process from others; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before it."""
    ours = {
        "service.name": "perpetua",
        "service.version": version,
        "service.instance.id": str(uuid.uuid4()),
    }
    if len(models) == 1:
        ours["perpetua.model"] = models[0]
    return Resource(ours).merge(OTELResourceDetector().detect())


def _base(table: OtlpConfig) -> str:
    return (table.endpoint or os.environ.get(_BASE) or _DEFAULT).rstrip("/")


def _exporters(table: OtlpConfig) -> _Exporters:
    base = _base(table)
    _refuse_open(table, base)
    tls = table.tls or OtlpTlsConfig()
    shared: dict[str, Any] = {
        "headers": _headers(table.headers_file),
        "timeout": table.timeout_seconds,
        "certificate_file": _file("ca_file", tls.ca_file),
        "client_certificate_file": _file("certificate_file", tls.certificate_file),
        "client_key_file": _file("key_file", tls.key_file),
    }
    try:
        metrics = OTLPMetricExporter(f"{base}/v1/metrics", session=_session(base, tls), **shared)
        if table.sample_ratio == 0:
            return _Exporters(metrics, None)
        return _Exporters(metrics, OTLPSpanExporter(f"{base}/v1/traces", session=_session(base, tls), **shared))
    except (ImportError, RuntimeError, ValueError) as exc:
        bound = f"a variable OTEL_... of the environment cannot be used ({type(exc).__name__})"
        raise InputError("otlp", "...", bound) from exc


def _refuse_open(table: OtlpConfig, base: str) -> None:
    """Refuse to send secrets in the clear: of an endpoint of the configuration, that has seen to it itself."""
    parts = urlsplit(base)
    if table.headers_file is not None and parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        bound = f"must be left out, or {_BASE} be https://: its lines would be sent in the clear"
        raise InputError("otlp.headers_file", str(table.headers_file), bound)


class _Session(requests.Session):
    """Follows no redirect: `requests` would send our headers, but for Authorization, wherever it leads."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002 -- as `requests` has it
        return None


def _session(base: str, tls: OtlpTlsConfig) -> requests.Session:
    """Return a session that trusts whom it is told: `requests` by itself prefers a variable of the environment."""
    session = _Session()
    if tls.ca_file is not None:
        session.trust_env = False
        session.proxies.update(get_environ_proxies(base))
    return session


def _file(name: str, path: Path | None) -> str | None:
    """Return a file's name for the exporters, which would look for it at the first request only."""
    if path is None:
        return None
    if not os.access(path, os.R_OK) or not path.is_file():
        raise InputError(f"otlp.tls.{name}", str(path), "must be a file that can be read")
    return str(path)


def _headers(path: Path | None) -> dict[str, str] | None:
    text = secret_of("otlp.headers_file", path)
    if text is None:
        return None
    lines = [line for line in text.splitlines() if line.strip()]
    found = [_HEADER.fullmatch(line) for line in lines]
    if not found or not all(found):
        raise InputError("otlp.headers_file", str(path), 'must hold headers, one a line, "name: value"')
    return {match[1]: match[2].strip() for match in found if match is not None}
