"""Spans: which batches and queries have some, what they say, and that no time in them is fine."""

import math
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from oracle.telemetry.otlp.spans import MOST_QUERIES, Channel, Spans
from oracle.telemetry.records import BOUNDS, GRAIN, Asked, BatchTelemetry, Work

_TRACE, _SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_PARENT = f"00-{_TRACE}-{_SPAN}-01"
_KAFKA = Channel("kafka", "vfr.queries")


def _batch(*asked, began=1000.3, **seconds):
    lengths = {Work.DECODE: 0.0012, Work.ANSWER: 0.013, Work.COMMIT: 0.0061, Work.LATENCY: 0.0312}
    lengths |= {Work[name]: value for name, value in seconds.items()}
    return BatchTelemetry(
        shard=3, began=began, first=101, last=140, messages=40, rounds=38, rejected=2, seconds=lengths, asked=asked
    )


class _Traced:
    """Spans of batches, as they are exported."""

    def __init__(self, channel=_KAFKA, ratio=1.0):
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._spans = Spans(provider, "vfr", channel, ratio)

    def take(self, *batches):
        """Return the spans of batches, by name."""
        for batch in batches:
            self._spans.take(batch)
        found: dict[str, list[Any]] = {}
        for span in self._exporter.get_finished_spans():
            found.setdefault(span.name, []).append(span)
        self._exporter.clear()
        return found


def test_a_batch_has_a_span_and_one_for_each_kind_of_work():
    """They say where it came from, how much it was, and how long all took at most, laid end to end."""
    found = _Traced().take(_batch())
    assert list(found) == ["decode", "answer", "commit", "process batch vfr.queries"]
    (whole,) = found["process batch vfr.queries"]
    assert dict(whole.attributes) == {
        "perpetua.model": "vfr",
        "messaging.system": "kafka",
        "messaging.destination.name": "vfr.queries",
        "messaging.destination.partition.id": "3",
        "messaging.operation.type": "process",
        "messaging.batch.message_count": 40,
        "perpetua.rounds": 38,
        "perpetua.rejected": 2,
        "perpetua.position.first": 101,
        "perpetua.position.last": 140,
    }
    assert whole.parent is None
    assert whole.kind is SpanKind.CONSUMER
    begin = 1000.25e9
    ends = [begin, begin + 0.002e9, begin + 0.052e9, begin + 0.077e9]
    for name, start, end in zip(("decode", "answer", "commit"), ends, ends[1:], strict=False):
        (stage,) = found[name]
        assert (stage.start_time, stage.end_time) == (start, end)
        assert stage.parent == whole.context
        assert not stage.attributes
    assert (whole.start_time, whole.end_time) == (begin, ends[-1])  # 0.05 in all would end before its parts


def test_waiting_makes_a_batch_longer_than_its_work():
    """What lies between the kinds of work counts for the whole, rounded up too."""
    (whole,) = _Traced().take(_batch(LATENCY=0.3))["process batch vfr.queries"]
    assert whole.end_time - whole.start_time == 0.5e9


def test_no_time_is_fine():
    """A batch begins at a multiple of a sixteenth of a second; lengths are bounds, whatever they were."""
    for began, answer in ((1000.0625, 0.0100001), (1000.1249, 0.05)):
        batch = _batch(began=began, ANSWER=answer)
        assert batch.began == 1000.0625
        assert batch.began % GRAIN == 0
        assert all(batch.seconds[work] in BOUNDS[work] for work in batch.seconds)
        assert batch.seconds[Work.ANSWER] == 0.05


def test_a_traced_query_has_a_span_within_its_askers_trace_linked_to_its_batch():
    """It is the asker's span's child, says what became of the query, and lasts as long as its batch."""
    found = _Traced().take(_batch(Asked(_PARENT, 105, None), Asked(_PARENT, 106, "malformed")))
    (whole,) = found["process batch vfr.queries"]
    answered, rejected = found["process vfr.queries"]
    for span in (answered, rejected):
        assert f"{span.context.trace_id:032x}" == _TRACE
        assert f"{span.parent.span_id:016x}" == _SPAN
        assert span.parent.is_remote
        assert [link.context for link in span.links] == [whole.context]
        assert (span.start_time, span.end_time) == (whole.start_time, whole.end_time)
        assert span.kind is SpanKind.CONSUMER
    assert dict(answered.attributes) == {
        "perpetua.model": "vfr",
        "messaging.system": "kafka",
        "messaging.destination.name": "vfr.queries",
        "messaging.destination.partition.id": "3",
        "messaging.operation.type": "process",
        "perpetua.position": 105,
        "perpetua.outcome": "answered",
        "messaging.kafka.offset": 104,
    }
    assert rejected.attributes["perpetua.outcome"] == "rejected"
    assert rejected.attributes["error.type"] == "malformed"


@pytest.mark.parametrize(
    "parent",
    [
        f"00-{'0' * 32}-{_SPAN}-01",  # no trace
        f"00-{_TRACE}-{'0' * 16}-01",  # no span
        f"ff-{_TRACE}-{_SPAN}-01",  # no version
    ],
)
def test_what_is_no_trace_context_has_no_span(parent):
    """The batch has its own nevertheless, and nothing fails."""
    assert "process vfr.queries" not in _Traced().take(_batch(Asked(parent, 105, None)))


def test_other_sources_have_no_partitions_and_perhaps_no_topic():
    """Names of MQTT's topics are told; a file's path is not."""
    found = _Traced(Channel("mqtt", "vfr/queries")).take(_batch(Asked(_PARENT, 1, None)))
    (span,) = found["process vfr/queries"]
    assert span.attributes["messaging.destination.name"] == "vfr/queries"
    assert not {"messaging.destination.partition.id", "messaging.kafka.offset"} & set(span.attributes)
    found = _Traced(Channel("jsonl")).take(_batch())
    (span,) = found["process batch vfr"]
    assert "messaging.destination.name" not in span.attributes


@pytest.mark.parametrize(("ratio", "expected"), [(1.0, 400), (0.25, 100), (0.01, 4), (0.0, 0)])
def test_a_share_of_the_batches_has_spans(ratio, expected):
    """As many as the ratio says, evenly."""
    found = _Traced(ratio=ratio).take(*[_batch()] * 400)
    assert len(found.get("process batch vfr.queries", [])) == pytest.approx(expected, abs=1)


def test_a_traced_query_brings_its_batch():
    """So that the link leads somewhere, however few batches have spans."""
    found = _Traced(ratio=1e-9).take(_batch(), _batch(Asked(_PARENT, 105, None)), _batch())
    assert [len(found[name]) for name in ("process batch vfr.queries", "process vfr.queries")] == [1, 1]


def test_askers_cannot_have_spans_without_end():
    """So many a second are made, whoever samples all of theirs; a second later there are more."""
    asked = [Asked(_PARENT, position, None) for position in range(150)]
    traced = _Traced(ratio=1e-9)
    found = traced.take(*(_batch(*asked, began=second) for second in (10.0, 10.4, 10.9)))
    assert len(found["process vfr.queries"]) == MOST_QUERIES == 200
    assert len(found["process batch vfr.queries"]) == 2
    found = traced.take(_batch(*asked, began=11.0))
    assert len(found["process vfr.queries"]) == 150


def test_a_length_beyond_all_bounds_is_one_of_a_doubling():
    """As of metrics: nothing fails where something took an hour."""
    (whole,) = _Traced().take(_batch(LATENCY=3600.0))["process batch vfr.queries"]
    assert math.log2((whole.end_time - whole.start_time) / 300e9) == 4
