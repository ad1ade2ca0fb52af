"""The daemon on a real Mosquitto, from query to answer."""

from tests.support.mqtt import eventually
from tests.support.shards import bodies


def test_queries_are_answered_in_order_as_in_one_run(model):
    """Queries of one asker are answered in their order, with the answers of a run in memory."""
    daemon = model.serve(model.config())
    model.wait_for_event("bus.connected")
    asker = model.asker()
    contents = bodies(1500)
    for body in contents:
        asker.ask(model.queries, body)
    eventually(lambda: len(asker.heard) >= len(contents), what=lambda: (len(asker.heard), model.log()[-3:]))
    assert [heard.body for heard in asker.heard] == model.expected(contents)
    assert model.stop(daemon) == 0
    assert "daemon.stopped" in model.events()
