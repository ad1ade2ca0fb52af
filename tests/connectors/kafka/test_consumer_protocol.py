"""Brokers that speak the consumer protocol of KIP-848 to others: our members speak the classic one, and all is served."""

import contextlib
import threading

from confluent_kafka import Consumer

from tests.support.kafka_here import serve_here
from tests.support.shards import bodies
from tests.support.waiting import eventually


@contextlib.contextmanager
def _modern(model):
    """Be a member of the model's group by the new protocol, until the context is left."""
    settings = {
        "bootstrap.servers": model.broker.servers,
        "group.id": model.group,
        "group.protocol": "consumer",
        "enable.auto.commit": False,
        "client.id": "somebody",
        "log_level": 0,
    }
    consumer, over = Consumer(settings), threading.Event()
    consumer.subscribe([model.queries])

    def poll():
        while not over.is_set():
            consumer.poll(0.1)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield consumer
    finally:
        over.set()
        thread.join()
        consumer.close()


def test_group_that_had_members_of_the_new_protocol(model):
    """Once they have left, it is ours as any other group is."""
    with _modern(model) as consumer:
        eventually(lambda: consumer.assignment())
    contents = bodies(5)
    model.ask(contents)
    serve_here(model.config(), lambda _log: model.count() >= 5)
    assert model.values() == model.expected(contents)


def test_member_of_the_new_protocol_beside_a_daemon(model):
    """It takes the partition, as any other stranger may; it is told of, and when it leaves all is answered, once."""
    contents = bodies(10)
    model.ask(contents[:5])
    stages = []

    def done(log):
        if model.count() >= 5 and not stages:
            with _modern(model) as consumer:
                with contextlib.suppress(AssertionError):
                    eventually(lambda: consumer.assignment(), seconds=20)
                stages.append(len(consumer.assignment()))
                if __import__("os").environ.get("LOOK"): __import__("time").sleep(20)
            model.ask(contents[5:])
        return model.count() >= 10

    log = serve_here(model.config(), done)
    print(stages, [(l["event"], l.get("error"), l.get("reason")) for l in log])
    assert model.values() == model.expected(contents)
