"""Spans of batches, and of the queries that askers trace, made from what is told of a batch (`BatchTelemetry`).

Every time in them is one that the record has: a batch begins at a multiple of `GRAIN`, and what was done with it is
laid end to end from there, each as long as it is told to have taken at most. So spans are no finer than the metrics.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Link, Span, SpanKind, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from connectors.traceparents import TRACEPARENT
from oracle.telemetry.otlp.metrics import SCOPE
from oracle.telemetry.records import Asked, BatchTelemetry, Work

__all__ = ["MOST_QUERIES", "Channel", "Spans"]

MOST_QUERIES: Final = 200
"""Most spans of queries a second: an asker may sample all of theirs."""

_NANOSECONDS: Final = 1_000_000_000
_STAGES: Final = (Work.DECODE, Work.ANSWER, Work.COMMIT)


@dataclass(frozen=True, slots=True)
class Channel:
    """Where queries come from.

    Attributes:
        system: The bus, as OpenTelemetry calls it ("kafka", "mqtt"); or another source's kind.
        name: The topic; None where there is none.
    """

    system: str
    name: str | None = None


class Spans:
    """Takes what is told of batches, and makes spans of some of them.

    Args:
        provider: Where the spans go; it samples all that it is given.
        model: The model's name.
        ratio: Share of batches that get spans; one with a query that is traced gets some besides.
    """

    def __init__(self, provider: TracerProvider, model: str, channel: Channel, ratio: float) -> None:
        self._tracer = provider.get_tracer(SCOPE)
        self._ratio = ratio
        self._system = channel.system
        self._always: dict[str, str] = {"perpetua.model": model, "messaging.system": channel.system}
        if channel.name is not None:
            self._always["messaging.destination.name"] = channel.name
        self._name = channel.name or model
        self._propagator = TraceContextTextMapPropagator()
        self._due = 0.0
        self._second, self._left = -1, 0

    def take(self, batch: BatchTelemetry) -> None:
        """Make the spans of a batch, if it is to have any."""
        asked = self._allowed(batch)
        self._due += self._ratio
        if self._due < 1.0 and not asked:
            return
        self._due = max(self._due - 1.0, 0.0)
        begin = round(batch.began * _NANOSECONDS)
        lengths = {work: math.ceil(batch.seconds[work] * _NANOSECONDS) for work in (*_STAGES, Work.LATENCY)}
        end = begin + max(lengths[Work.LATENCY], sum(lengths[work] for work in _STAGES))
        whole = self._batch(batch, begin)
        at = begin
        for work in _STAGES:
            context = set_span_in_context(whole)
            stage = self._tracer.start_span(work.value, context, start_time=at)
            at += lengths[work]
            stage.end(at)
        for one in asked:
            self._query(batch, one, whole, begin, end)
        whole.end(end)

    def _allowed(self, batch: BatchTelemetry) -> tuple[Asked, ...]:
        """Return the traced queries that still get spans within this second."""
        if not batch.asked:
            return ()
        second = math.floor(batch.began)
        if second != self._second:
            self._second, self._left = second, MOST_QUERIES
        asked = batch.asked[: self._left]
        self._left -= len(asked)
        return asked

    def _batch(self, batch: BatchTelemetry, begin: int) -> Span:
        attributes: dict[str, str | int] = {
            **self._where(batch),
            "messaging.operation.type": "process",
            "messaging.batch.message_count": batch.messages,
            "perpetua.rounds": batch.rounds,
            "perpetua.rejected": batch.rejected,
            "perpetua.position.first": batch.first,
            "perpetua.position.last": batch.last,
        }
        name = f"process batch {self._name}"
        return self._tracer.start_span(name, kind=SpanKind.CONSUMER, attributes=attributes, start_time=begin)

    def _query(self, batch: BatchTelemetry, asked: Asked, whole: Span, begin: int, end: int) -> None:
        """Make the span of a query within its asker's trace, linked to its batch's; none where that is no trace."""
        context = self._propagator.extract({TRACEPARENT: asked.traceparent})
        if not get_current_span(context).get_span_context().is_valid:
            return
        attributes: dict[str, str | int] = {
            **self._where(batch),
            "messaging.operation.type": "process",
            "perpetua.position": asked.position,
            "perpetua.outcome": "answered" if asked.reason is None else "rejected",
        }
        if asked.reason is not None:
            attributes["error.type"] = asked.reason
        if self._system == "kafka":
            attributes["messaging.kafka.offset"] = asked.position - 1
        links = [Link(whole.get_span_context())]
        name = f"process {self._name}"
        kind = SpanKind.CONSUMER
        self._tracer.start_span(name, context, kind, attributes, links, begin).end(end)

    def _where(self, batch: BatchTelemetry) -> Mapping[str, str]:
        partition = {"messaging.destination.partition.id": str(batch.shard)} if self._system == "kafka" else {}
        return {**self._always, **partition}
