"""Strangers in the group: whatever becomes of its offsets, the model goes on from what it has committed."""

import asyncio
import json
import signal
import threading

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from connectors.kafka import membership
from connectors.kafka.marks import Claim
from connectors.kafka.restore import restore
from oracle.config.daemon import load_config
from oracle.errors import StateError
from oracle.hosting.kafka import open_model
from tests.connectors.kafka.test_log_changes import Mark, commit_offset, committed
from tests.support.folders import perpetua
from tests.support.kafka import wait_until
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


def test_an_offset_set_back_with_its_own_metadata_moves_nobody(model):
    """A copy of what was committed earlier: our mark is the newer one, and as much our own."""
    config = model.config()
    model.ask(bodies(_FIRST // 2))
    serve_here(config, lambda _log: model.count() >= _FIRST // 2)
    earlier = committed(model)
    model.ask(bodies(_FIRST)[_FIRST // 2 :])
    serve_here(config, lambda _log: model.count() >= _FIRST)
    model.ask(bodies(_MORE, seed=2))
    commit_offset(model, earlier)
    log = goes_on(model, config)
    (told,) = [line["error"] for line in log if line["event"] == "group.stranger"]
    assert f"was reset to {_FIRST // 2}; resuming from our own mark at offset {_FIRST}" in told


def test_metadata_of_ours_at_another_offset_is_nobodys(model):
    """Copied to where it does not belong it is no commit of ours: nothing is left out, and nothing given twice."""
    config = start(model)
    model.ask(bodies(_MORE, seed=2))
    commit_offset(model, Mark(_FIRST + 5, committed(model).metadata))
    goes_on(model, config)


def test_metadata_with_a_nul_is_read(model):
    """Clients of librdkafka end it with one: a commit of ours that such a client copied is still ours."""
    config = start(model)
    mark = committed(model)
    set_offset(model, mark.offset, mark.metadata)
    commit_offset(model, Mark(mark.offset, committed(model).metadata.removesuffix("\0") + "\0"))
    assert committed(model).metadata.endswith("\0")
    model.ask(bodies(_MORE, seed=2))
    assert not [line for line in goes_on(model, config) if line["event"] == "group.stranger"]


def test_marks_that_somebody_copied_are_none(model):
    """Every mark written again by another producer, the oldest last: the newest of ours counts."""
    config = start(model)
    producer = Producer({"bootstrap.servers": model.broker.servers, "transactional.id": f"{model.name}-other"})
    producer.init_transactions()
    producer.begin_transaction()
    for mark in reversed(model.read(model.marks)):
        producer.produce(model.marks, mark.value, key=mark.key, partition=0)
    producer.produce(model.marks, b"\xff", key=b"theirs", partition=0)
    producer.produce(model.marks, None, key=b"theirs", partition=0)
    producer.commit_transaction(30)
    model.ask(bodies(_MORE, seed=2))
    delete_group(model)
    goes_on(model, config)


def test_marks_made_anew_are_written_anew(model):
    """The topic of marks is deleted: the group's offset, which is sealed, is enough; the daemon makes the topic."""
    config = start(model)
    model.broker.delete_topic(model.marks)
    model.ask(bodies(_MORE, seed=2))
    goes_on(model, config)
    delete_group(model)
    goes_on(model, config)


def test_with_neither_offset_nor_mark_it_stops_and_says_what_to_do(model):
    """Both are gone, or what is there is nobody's: names and numbers, and which command helps."""
    config = start(model)
    model.broker.delete_topic(model.marks)
    set_offset(model, 7, "theirs")
    where = f"group {model.group}, topic {model.queries}, partition 0: "
    with pytest.raises(StateError, match=rf"{where}offset 7 was not committed by Perpetua .*perpetua offsets"):
        serve_here(config, lambda _log: False)
    delete_group(model)
    with pytest.raises(StateError, match=rf"{where}.* no commit, .* at position {_FIRST}.*perpetua offsets restore"):
        serve_here(config, lambda _log: False)
    assert model.values() == model.expected(bodies(_FIRST))


def test_a_state_from_before_there_were_marks_is_served(model):
    """Its metadata has no seal and there is no mark: both are there from the next commit on."""
    config = start(model)
    mark = committed(model)
    model.broker.delete_topic(model.marks)
    commit_offset(model, Mark(mark.offset, " ".join(mark.metadata.split()[:-1])))
    model.ask(bodies(_MORE, seed=2))
    assert not [line for line in goes_on(model, config) if line["event"] == "group.stranger"]
    assert committed(model).metadata.split()[-1].startswith("hmac:")
    assert model.read(model.marks)


def test_offsets_shows_both_places_and_restores_them(model):
    """What others did is shown and exits 1; a restore makes both agree, and a model that lost both goes on too."""
    config = start(model)
    shown = perpetua("offsets", "show", config)
    assert shown.returncode == 0
    assert f"offset {_FIRST}, round {_FIRST}" in shown.stdout.decode()
    set_offset(model, 7, "theirs")
    shown = perpetua("offsets", "show", config)
    assert shown.returncode == 1
    next_start = f"the next start goes on from: offset {_FIRST}"
    for words in ("offset 7, not committed by Perpetua", next_start, "WRONG: group "):
        assert words in shown.stdout.decode()
    done = perpetua("offsets", "restore", config)
    assert (done.returncode, done.stdout) == (
        0,
        f"partition 0: offset {_FIRST} is the group's and our mark's again; the group's was 7\n".encode(),
    )
    assert perpetua("offsets", "show", config).returncode == 0
    assert b"already" in perpetua("offsets", "restore", config).stdout
    delete_group(model)
    model.broker.delete_topic(model.marks)
    assert perpetua("serve", config).returncode == 3
    shown, refused = perpetua("offsets", "show", config), perpetua("offsets", "restore", config)
    assert (shown.returncode, refused.returncode) == (1, 3)
    assert b"--from snapshot" in shown.stdout
    assert b"--from snapshot" in refused.stderr
    assert perpetua("offsets", "restore", config, "--from", "mark").returncode == 2
    assert perpetua("offsets", "restore", config, "--from", "snapshot").returncode == 0
    model.ask(bodies(_MORE, seed=2))
    goes_on(model, config)


def test_offsets_show_waits_for_a_transaction_that_is_under_way(model):
    """A shard in service has one open most of the time: what its place is can be seen meanwhile."""
    config = start(model)
    producer = Producer({"bootstrap.servers": model.broker.servers, "transactional.id": f"{model.name}-other"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(model.marks, b"theirs", key=b"theirs", partition=0)
    assert producer.flush(30) == 0
    ended = threading.Timer(5.0, producer.commit_transaction, [30])
    ended.start()
    shown = perpetua("offsets", "show", config)
    ended.join()
    assert (shown.returncode, shown.stderr) == (0, b"")


def test_offsets_are_not_restored_while_somebody_is_in_the_group(model):
    """Who it is is said; when it has left, they are. To look is always allowed, beside a daemon too."""
    config = model.config()
    model.ask(bodies(_FIRST))
    daemon = model.serve(config)
    model.wait_for_answers(_FIRST)
    assert perpetua("offsets", "show", config).returncode == 0
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(30) == 0
    assert not {"shard.fenced", "bus.unavailable"} & set(model.events())
    set_offset(model, 7)
    settings = {"bootstrap.servers": model.broker.servers, "group.id": model.group, "client.id": "their dashboard"}
    stranger = Consumer({**settings, "enable.auto.commit": False})
    stranger.subscribe([model.queries])
    wait_until(lambda: stranger.poll(0.1) is None and stranger.assignment())
    done = perpetua("offsets", "restore", config)
    assert done.returncode == 2
    assert b"has 1 member, 'their dashboard' at 127.0.0.1; stop" in done.stderr
    stranger.close()
    assert perpetua("offsets", "restore", config).returncode == 0
    assert committed(model).offset == _FIRST


def test_marks_and_offset_that_contradict_each_other_stop_it_until_somebody_chooses(model):
    """An older Perpetua has served in between, which kept no marks: the error names both, and which command helps."""
    config = start(model)
    earlier = model.read(model.marks)
    model.ask(bodies(_MORE, seed=2))
    goes_on(model, config)
    late = committed(model)
    assert len(model.read(model.marks)) > len(earlier)
    ahead = Mark(late.offset, " ".join(late.metadata.split()[:-1]))
    model.broker.delete_topic(model.marks)
    set_offset(model, _FIRST, "theirs")
    place = Claim(_FIRST, json.loads(earlier[-1].value)["metadata"])
    asyncio.run(restore(settings_of(config), 0, place))
    commit_offset(model, ahead)
    with pytest.raises(StateError, match=rf"offset {late.offset} and our mark at offset {_FIRST} contradict"):
        serve_here(config, lambda _log: False)
    assert perpetua("offsets", "restore", config).returncode == 3
    assert perpetua("offsets", "restore", config, "--from", "group").returncode == 0
    model.ask(bodies(5, seed=3))
    serve_here(config, lambda _log: model.count() >= _FIRST + _MORE + 5)
    assert model.values() == model.expected([*bodies(_FIRST), *bodies(_MORE, seed=2), *bodies(5, seed=3)])


def settings_of(config):
    """Return the connector's settings, as the daemon has them."""
    return open_model(load_config(config)).settings


def test_a_stranger_in_the_group_is_told_of(model, monkeypatch):
    """Who it is, where it is, and when it has left; the daemon goes on."""
    monkeypatch.setattr(membership, "_LOOK_SECONDS", 0.5)
    config = model.config(source="session_seconds = 6")
    stranger = Consumer(
        {
            "bootstrap.servers": model.broker.servers,
            "group.id": model.group,
            "client.id": "their dashboard",
            "partition.assignment.strategy": "roundrobin",
            "session.timeout.ms": 6000,
        }
    )
    joined = False

    def done(log):
        nonlocal joined
        if not joined and any(line["event"] == "daemon.serving" for line in log):
            stranger.subscribe([model.queries])
            joined = True
        if joined:
            stranger.poll(0.1)
        return any(line["event"] == "group.stranger" for line in log)

    try:
        log = serve_here(config, done)
    finally:
        stranger.close()
    (told,) = [line["error"] for line in log if line["event"] == "group.stranger"]
    assert f"group {model.group}: another application is a member: 'their dashboard' at 127.0.0.1; " in told
