"""A query's `traceparent` on a real broker: it goes with the answer, and the daemon's span is its child."""

from tests.support.collector import TRACEPARENT, UNSAMPLED, collecting
from tests.support.kafka import wait_until
from tests.support.shards import bodies


def test_queries_are_traced_through(model):
    """Sampled ones, answered or rejected, by their offsets; the answer keeps the header, sampled or not."""
    for given in (UNSAMPLED, TRACEPARENT):
        model.ask(bodies(1), headers=[("traceparent", given.encode()), ("tracestate", b"a=b")])
    model.ask([b"?"], headers=[("traceparent", TRACEPARENT.encode())])
    with collecting() as collector:
        process = model.serve(model.config(extra=f'[otlp]\nendpoint = "{collector.endpoint}"\n'))
        answers = model.wait_for_answers(3)
        wait_until(lambda: len(collector.of_asker()) == 2)
        process.terminate()
        process.wait()
        found = sorted(collector.of_asker(), key=lambda span: str(span["messaging.kafka.offset"]))
    kept = [dict(answer.headers) for answer in answers]
    assert [headers["traceparent"].decode() for headers in kept] == [UNSAMPLED, TRACEPARENT, TRACEPARENT]
    assert kept[0]["tracestate"] == b"a=b"
    answered, rejected = found
    assert answered == {
        "perpetua.model": model.plan.name,
        "messaging.system": "kafka",
        "messaging.destination.name": model.queries,
        "messaging.destination.partition.id": "0",
        "messaging.operation.type": "process",
        "messaging.kafka.offset": 1,
        "perpetua.position": 2,
        "perpetua.outcome": "answered",
    }
    assert (rejected["messaging.kafka.offset"], rejected["error.type"]) == (2, "malformed")
