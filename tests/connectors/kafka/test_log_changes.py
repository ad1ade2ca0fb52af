"""The query log is not the one that was answered, or is there no more: a clear stop, and not one answer."""

import asyncio
import shutil
import time
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from oracle.errors import LogCutError, LogDivergedError, RefusedError, SourceError
from oracle.state.folder import peek_folder
from tests.support.folders import perpetua
from tests.support.kafka_here import serve_here
from tests.support.shards import bodies

_FIRST = 300


def answered(model, count=_FIRST, **sections):
    """Have the first queries answered, and return the configuration."""
    config = model.config(**sections)
    model.ask(bodies(count))
    serve_here(config, lambda _log: model.count() >= count)
    return config


def never(_log):
    """Go on until an error ends it."""
    return False


def set_aside(model):
    """Return a copy of the state folder as it is now."""
    return shutil.copytree(model.folder / "state", model.folder / "aside", dirs_exist_ok=True)


def put_back(model):
    """Put the copy in the place of the state folder."""
    shutil.rmtree(model.folder / "state")
    shutil.move(model.folder / "aside", model.folder / "state")


def recreate(model, contents, **config):
    """Delete the query topic, and make another one of its name."""
    model.broker.delete_topic(model.queries)
    while True:  # the broker has agreed to delete it, and does so in its own time
        try:
            model.broker.create_topic(model.queries, model.partitions, {"compression.type": "uncompressed", **config})
            break
        except Exception:  # noqa: BLE001
            time.sleep(0.1)
    model.ask(contents)


class Mark(NamedTuple):
    """What is committed for the group."""

    offset: int
    metadata: str


def commit_offset(model, mark):
    """Set the group's offset from outside, as nobody should."""

    async def commit():
        client = AIOKafkaConsumer(
            bootstrap_servers=model.broker.servers, group_id=model.group, enable_auto_commit=False
        )
        await client.start()
        try:
            query = TopicPartition(model.queries, 0)
            client.assign([query])
            await client.commit({query: (mark.offset, mark.metadata)})
        finally:
            await client.stop()

    asyncio.run(commit())


def committed(model):
    """Return what is committed for the group; confluent-kafka may give metadata with a stray letter at its end."""

    async def look():
        client = AIOKafkaAdminClient(bootstrap_servers=model.broker.servers)
        await client.start()
        try:
            query = TopicPartition(model.queries, 0)
            return (await client.list_consumer_group_offsets(model.group, partitions=[query]))[query]
        finally:
            await client.close()

    return Mark(*asyncio.run(look()))


def refused(model, config, error, message, **settings):
    """Assert that serving ends with this error before anything more is answered."""
    before = model.read()
    with pytest.raises(error, match=message):
        serve_here(config, never, **settings)
    assert model.read() == before


def test_records_deleted_between_snapshot_and_commit_are_missed(model):
    """Retention ate what a restore must re-execute: no way round it but a newer snapshot."""
    set_aside(model)
    config = answered(model)
    newer = shutil.copytree(model.folder / "state", model.folder / "newer")
    put_back(model)
    model.ask(bodies(50, seed=2))
    model.delete_records(200)
    message = rf"topic {model.queries}, partition 0: the records from offset 0 to 200 were deleted \(retention\)"
    refused(model, config, SourceError, message)
    shutil.rmtree(model.folder / "state")
    shutil.move(newer, model.folder / "state")
    serve_here(config, lambda _log: model.count() >= _FIRST + 50)
    assert model.values() == model.expected([*bodies(_FIRST), *bodies(50, seed=2)])


def test_queries_deleted_before_they_were_answered_are_given_up_by_the_operator_only(model):
    """A new state, and one that has answered: each says what is gone, and goes on behind it when told to."""
    config = model.config()
    first, second = bodies(60), bodies(60, seed=2)
    model.ask(first)
    model.delete_records(20)
    where = f"topic {model.queries}, partition 0: begins at offset "
    refused(
        model,
        config,
        SourceError,
        where + r"20: .* from 0 to 20 .* source.first_offset.0 = 20 for this partition alone$",
    )
    serve_here(config, lambda _log: model.count() >= 40, first_offset=20)
    assert model.values() == model.expected(first[20:])
    model.ask(second)
    model.delete_records(70)
    refused(
        model, config, SourceError, where + r"70: .* from 60 to 70 .* set source.first_offset = 70, ", first_offset=20
    )
    serve_here(config, lambda _log: model.count() >= 90, first_offset=70)
    assert model.values() == model.expected([*first[20:], *second[10:]])


def test_a_topic_made_anew_is_refused(model):
    """Kafka forgets the group's offset with the topic; our mark, the log's length and its times tell."""
    config = answered(model)
    mark = committed(model)
    assert (mark.offset, mark.metadata.split()[0]) == (_FIRST, "perpetua1")
    recreate(model, bodies(10))
    message = rf"partition 0: ends at offset 10, but was read up to {_FIRST}"
    refused(model, config, LogCutError, message)
    commit_offset(model, mark)
    refused(model, config, LogCutError, message)
    model.ask(bodies(_FIRST + 50)[10:])
    refused(
        model,
        config,
        LogDivergedError,
        rf"the record before offset {_FIRST} is missing or not the one that was answered",
    )


def test_a_topic_made_anew_under_a_running_daemon_stops_it(model):
    """It stops with code 3, which no supervisor restarts, names what happened, and gives no answer to the new topic."""
    daemon = model.serve(model.config())
    model.ask(bodies(20))
    model.wait_for_answers(20)
    recreate(model, bodies(10, seed=2))
    assert daemon.wait(60) == 3
    (told,) = [line for line in model.log() if line.get("event") == "shard.failed"]
    assert told["level"] == "error"
    assert f"topic {model.queries}, partition 0: ends at offset " in told["error"]
    assert "but was read up to 20: it was recreated or truncated" in told["error"]
    assert model.values() == model.expected(bodies(20))


def test_other_queries_between_snapshot_and_commit_are_found_out_by_the_tag(model):
    """One query is another one, at the same times and offsets: re-execution comes to another tag, `check`'s too."""
    set_aside(model)
    config = answered(model)
    mark = committed(model)
    put_back(model)
    other = bodies(_FIRST)
    other[123] = bodies(1, seed=3)[0]
    recreate(model, other)
    model.broker.delete_topic(model.marks)
    commit_offset(model, Mark(_FIRST, " ".join(["perpetua1", "-1", mark.metadata.split()[2]])))
    refused(model, config, LogDivergedError, f"the queries before round {_FIRST} are not the ones that were answered")
    assert "and the topic: log diverged: the queries before round" in perpetua("check", config).stdout.decode()


def test_an_older_state_folder_gives_the_same_answers(model):
    """The folder of some time ago: what was answered since is executed again, and nothing is given twice."""
    set_aside(model)
    config = answered(model)
    put_back(model)
    more = bodies(100, seed=2)
    model.ask(more)
    log = serve_here(config, lambda _log: model.count() >= _FIRST + 100)
    assert next(line["rounds"] for line in log if line["event"] == "daemon.recovered") == _FIRST
    assert model.values() == model.expected([*bodies(_FIRST), *more])


def test_a_topic_with_other_partitions_is_refused_before_the_start(model):
    """Somebody added a partition: there is no shard for it."""
    config = answered(model, 10)
    model.broker.add_partitions(model.queries, 2)
    refused(model, config, RefusedError, "has 2 partitions, but the state has 1 shard, .* perpetua init --shards 2")


def test_a_partition_added_while_serving_stops_the_daemon(model):
    """It is noticed with the next metadata; what was answered stands, and the state is saved."""
    config = model.config()
    added = False

    def add(_log):
        nonlocal added
        if not added and model.count() == 10:
            model.broker.add_partitions(model.queries, 2)
            added = True
        return False

    model.ask(bodies(10))
    with pytest.raises(RefusedError, match="has 2 partitions, but the state has 1 shard"):
        serve_here(config, add, metadata_seconds=0.5)
    assert model.values() == model.expected(bodies(10))
    header = peek_folder(model.folder / "state")
    assert header is not None
    assert header.position == 10
