"""A collector for OTLP over HTTP: it reads what is sent with OpenTelemetry's own messages, or hangs as it is told."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint, NumberDataPoint

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
_ASKER: Final = "00f067aa0ba902b7"
TRACEPARENT: Final = f"00-{TRACE}-{_ASKER}-01"
"""The span of an asker that samples its trace."""

UNSAMPLED: Final = f"00-{'a' * 32}-{_ASKER}-00"
"""That of one that does not."""

Series = tuple[str, tuple[tuple[str, str], ...]]
"""A metric's name and labels."""


class Collector:
    """What was received.

    Attributes:
        port: Where it listens on 127.0.0.1; set by `collecting`.
        requests: Headers of all requests, by path.
        spans: All of them, in the order in which they came.
        resources: Attributes of the processes.
        metrics: The newest points.
        hanging: Set to leave every request without an answer, until it is cleared.
    """

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.spans: list[Span] = []
        self.resources: list[dict[str, object]] = []
        self.metrics: dict[Series, NumberDataPoint | HistogramDataPoint] = {}
        self.hanging = threading.Event()
        self.over = threading.Event()

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def take(self, path: str, body: bytes) -> None:
        """Read a request."""
        if path == "/v1/traces":
            spans = ExportTraceServiceRequest.FromString(body)
            for whose in spans.resource_spans:
                self.resources.append(attributes(whose.resource.attributes))
                for scope in whose.scope_spans:
                    self.spans += scope.spans
        elif path == "/v1/metrics":
            found = ExportMetricsServiceRequest.FromString(body)
            for one in found.resource_metrics:
                self.resources.append(attributes(one.resource.attributes))
                for scope_metrics in one.scope_metrics:
                    for metric in scope_metrics.metrics:
                        for point in getattr(metric, str(metric.WhichOneof("data"))).data_points:
                            labels = tuple(
                                sorted((name, str(value)) for name, value in attributes(point.attributes).items())
                            )
                            self.metrics[metric.name, labels] = point

    def of_asker(self) -> list[dict[str, object]]:
        """Return the attributes of the spans within the asker's trace, each of which is its span's child."""
        found = [span for span in list(self.spans) if span.trace_id.hex() == TRACE]
        assert {span.parent_span_id.hex() for span in found} <= {_ASKER}
        ids = {span.span_id for span in self.spans if span.name.startswith("process batch")}
        assert all(link.span_id in ids for span in found for link in span.links)
        return [attributes(span.attributes) for span in found]

    def value(self, name: str, **labels: str) -> float | None:
        """Return the newest number of one series of model and shard; None if there is none."""
        for (found, given), point in list(self.metrics.items()):
            if found == name and dict(given).items() >= labels.items():
                return (
                    float(point.as_int or point.as_double) if isinstance(point, NumberDataPoint) else float(point.count)
                )
        return None


def attributes(found: Any) -> dict[str, object]:
    """Return attributes by name."""

    def value(one: KeyValue) -> object:
        return getattr(one.value, str(one.value.WhichOneof("value")))

    return {one.key: value(one) for one in found}


@contextmanager
def collecting(certificate: Path | None = None, authority: Path | None = None) -> Iterator[Collector]:
    """Listen on a free port of 127.0.0.1; with a certificate by TLS, and asking for one if there is an authority."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            while collector.hanging.is_set() and not collector.over.wait(0.05):
                pass
            collector.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            collector.take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Say nothing of clients that went away, or that TLS refused."""

    with Server(("127.0.0.1", 0), Handler) as server:
        collector.port = server.server_port
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            if authority is not None:
                context.load_verify_locations(authority)
                context.verify_mode = ssl.CERT_REQUIRED
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield collector
        finally:
            collector.over.set()
            server.shutdown()
            serving.join()
