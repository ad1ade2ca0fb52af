"""A query's `traceparent` as a user property, on a real broker: it goes with the answer, and has a span."""

from tests.support.collector import TRACEPARENT, UNSAMPLED, collecting
from tests.support.shards import bodies
from tests.support.waiting import eventually


def test_queries_are_traced_through(model):
    """The daemon's span is the asker's child; the answer keeps the property, sampled or not."""
    with collecting() as collector:
        process = model.serve(model.config(extra=f'[otlp]\nendpoint = "{collector.endpoint}"\n'))
        model.wait_for_event("bus.connected")
        asker = model.asker()
        for given, body in zip((UNSAMPLED, TRACEPARENT), bodies(2), strict=True):
            asker.ask(model.queries, body, user=[("traceparent", given)])
        eventually(lambda: len(asker.heard) == 2)
        eventually(lambda: len(collector.of_asker()) == 1)
        assert model.stop(process) == 0
        (span,) = collector.of_asker()
    assert [dict(heard.user)["traceparent"] for heard in asker.heard] == [UNSAMPLED, TRACEPARENT]
    assert span["messaging.system"] == "mqtt"
    assert span["messaging.destination.name"] == model.queries
    assert span["perpetua.outcome"] == "answered"
