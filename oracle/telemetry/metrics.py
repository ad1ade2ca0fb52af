"""Metrics for Prometheus, made from the telemetry records when somebody asks, and timings as they come.

There are no `process_*` and `python_*` metrics. Memory and CPU time follow the sizes of private sets, the collector's
rounds follow the objects of single messages, and telemetry is public.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from prometheus_client import exposition
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from oracle.telemetry.collector import Moment, RecordCollector, Tally
from oracle.telemetry.records import Timing, Work
from oracle.telemetry.registry import Registry

__all__ = ["Format", "Metrics", "encode", "format_for"]


class Format(StrEnum):
    """How metrics are written; the value is the content type."""

    TEXT = exposition.CONTENT_TYPE_PLAIN_0_0_4
    OPENMETRICS = openmetrics.CONTENT_TYPE_LATEST


_ENCODERS: Final[Mapping[Format, Callable[[Collector], bytes]]] = MappingProxyType(
    {Format.TEXT: exposition.generate_latest, Format.OPENMETRICS: openmetrics.generate_latest}
)


class Metrics:
    """The metrics of one model.

    Args:
        unready: The shards that are not ready now, and None if the whole model is not.
        now: Seconds since 1970.
    """

    def __init__(
        self, registry: Registry, *, unready: Callable[[], frozenset[int | None]], now: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._unready = unready
        self._now = now
        self._tallies: dict[tuple[Work, int], Tally] = {}
        registry.listen(self._observe)

    def moment(self) -> Moment:
        """Return what is to be told of this moment, for any thread."""
        return Moment(self._registry.telemetry, self._unready(), dict(self._tallies))

    def collector(self) -> RecordCollector:
        """Return the collector of a process that serves this model only."""
        moment = self.moment()
        told = moment.telemetry
        return RecordCollector((moment,), {told.model: False}, told.version, self._now())

    def _observe(self, timing: Timing) -> None:
        key = (timing.work, timing.shard)
        self._tallies[key] = self._tallies.get(key, Tally.none(timing.work)).plus(timing)


def format_for(accept: str) -> Format:
    """Return the format that an Accept header asks for; plain text if it asks for none that is known."""
    try:
        _, content_type = exposition.choose_encoder(accept)
    except (TypeError, ValueError):  # it asks for a version that is none
        return Format.TEXT
    return Format.OPENMETRICS if content_type.startswith("application/openmetrics-text") else Format.TEXT


def encode(collector: Collector, wanted: Format) -> bytes:
    """Return a collector's metrics as text."""
    return _ENCODERS[wanted](collector)
