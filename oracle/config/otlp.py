"""`[otlp]` of the configuration: where metrics and spans are sent, to whom and how many."""

import re
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from oracle.config.base import ConfigTable, LocalPath
from oracle.config.web import is_loopback

__all__ = ["OtlpConfig", "OtlpTlsConfig"]

_ADDRESS: Final = 'http:// or https://, a host and perhaps a path, such as "https://collector:4318"'
_PLAIN: Final = re.compile(r"[!-~]+")


def _endpoint(text: str) -> str:
    """Refuse what is no address, and what may hold a secret: it is shown in errors and in the log."""
    try:
        parts = urlsplit(text)
        fits = parts.port is None or parts.port > 0
    except ValueError:
        parts, fits = urlsplit(""), False
    if not (fits and _PLAIN.fullmatch(text) and parts.scheme in {"http", "https"} and parts.hostname):
        raise PydanticCustomError("endpoint", f"must be {_ADDRESS}")
    if parts.username is not None or parts.query or parts.fragment:
        raise PydanticCustomError("endpoint", "must have no name, password, query or fragment; see headers_file")
    return text.rstrip("/")


class OtlpTlsConfig(ConfigTable):
    """`[otlp.tls]`: TLS to the collector, of an endpoint with https://.

    Attributes:
        ca_file: Certificates to trust; by default those of `requests` (certifi).
        certificate_file: Our certificate, where the collector asks for one.
        key_file: Its private key, unencrypted.
    """

    ca_file: LocalPath | None = None
    certificate_file: LocalPath | None = None
    key_file: LocalPath | None = None


class OtlpConfig(ConfigTable):
    """`[otlp]`: the metrics of /metrics, and spans of batches and queries, sent by OTLP over HTTP.

    Attributes:
        endpoint: The collector; /v1/metrics and /v1/traces are added. By default OTEL_EXPORTER_OTLP_ENDPOINT of the
            environment, else "http://localhost:4318".
        headers_file: Holds headers that go with every request, one a line, "name: value": tokens, for instance.
        tls: TLS, where the collector asks for more than the endpoint's https:// says.
        interval_seconds: How often metrics are sent.
        timeout_seconds: How long the collector may take for one request; what it does not take in time is dropped.
        sample_ratio: Share of batches that get spans. At more than 0, a query whose `traceparent` says that its asker
            samples it gets one too, within that trace: up to 200 a second, of the first 2,048 messages of each batch.
            At 0 there are no spans.
    """

    endpoint: Annotated[str, AfterValidator(_endpoint), Field(json_schema_extra={"bound": _ADDRESS})] | None = None
    headers_file: LocalPath | None = None
    tls: OtlpTlsConfig | None = None
    interval_seconds: Annotated[float, Field(ge=1, le=3600)] = 15.0
    timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 5.0
    sample_ratio: Annotated[float, Field(ge=0, le=1, json_schema_extra={"unit": "share of batches"})] = 0.01

    @model_validator(mode="after")
    def _private(self) -> Self:
        """Refuse to send secrets in the clear to another machine."""
        if self.headers_file is not None and self.endpoint is not None:
            parts = urlsplit(self.endpoint)
            if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
                raise PydanticCustomError(
                    "otlp_headers", "must be left out, or endpoint be https://: its lines would be sent in the clear"
                )
        return self
