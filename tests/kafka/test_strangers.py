"""Strangers in the group: whatever becomes of its offsets, the model goes on from what it has committed."""

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from oracle.errors import StateError
from tests.kafka.test_log_changes import Mark, commit_offset, committed
from tests.support.kafka_here import serve_here
from tests.support.shards import bodies

_FIRST = 120
_MORE = 40


def read_on(model):
    """Read the queries as some other program does that was given our group: it commits by itself, at its end too."""
    settings = {"bootstrap.servers": model.broker.servers, "group.id": model.group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": True, "session.timeout.ms": 6000})
    consumer.subscribe([model.queries])
    for _ in range(_MORE // 2):
        assert consumer.poll(30) is not None
    consumer.close()


def set_offset(model, offset, metadata=""):
    """Reset the group's offset, as `kafka-consumer-groups --reset-offsets` does."""
    place = TopicPartition(model.queries, 0, offset, metadata)
    request = ConsumerGroupTopicPartitions(model.group, [place])
    (future,) = model.broker.admin.alter_consumer_group_offsets([request]).values()
    future.result(30)


def delete_group(model):
    """Delete the group, as an operator or a week's silence does."""
    (future,) = model.broker.admin.delete_consumer_groups([model.group]).values()
    future.result(30)


_DISTURBANCES = {
    "a consumer that commits by itself": read_on,
    "reset to the earliest": lambda model: set_offset(model, 0),
    "reset to the latest": lambda model: set_offset(model, _FIRST + _MORE),
    "reset beyond the end": lambda model: set_offset(model, 10_000),
    "another's metadata": lambda model: set_offset(model, _FIRST, "theirs"),
    "a group that was deleted": delete_group,
}


def start(model):
    """Have the first queries answered, and ask more."""
    config = model.config()
    model.ask(bodies(_FIRST))
    serve_here(config, lambda _log: model.count() >= _FIRST)
    return config


def goes_on(model, config):
    """Serve on until all is answered, and return the log; each query has one answer."""
    log = serve_here(config, lambda _log: model.count() >= _FIRST + _MORE)
    assert model.values() == model.expected([*bodies(_FIRST), *bodies(_MORE, seed=2)])
    return log


@pytest.mark.parametrize("disturbance", _DISTURBANCES)
def test_what_others_do_to_the_groups_offsets_ends_no_model(model, disturbance):
    """It goes on from its own mark, says what it found, and puts the group's offset right again."""
    config = start(model)
    model.ask(bodies(_MORE, seed=2))
    _DISTURBANCES[disturbance](model)
    log = goes_on(model, config)
    (told,) = [line for line in log if line["event"] == "group.stranger"]
    assert told["level"] == "warning"
    for name in (model.group, model.queries, "partition 0"):
        assert name in told["error"]
    assert committed(model).offset == _FIRST + _MORE
    assert not [line for line in goes_on(model, config) if line["event"] == "group.stranger"]
