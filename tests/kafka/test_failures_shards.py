"""Several shards in one process: what stops one of them does not hold the others."""

import shutil

import pytest

from oracle.errors import SourceError
from oracle.state.folder import FolderStore, peek_folder
from oracle.state.keys import create_key_file
from oracle.state.shards import begin_shards, finish_shards, shard_name
from tests.kafka.conftest import unique_name
from tests.support.folders import long_plan
from tests.support.kafka import KafkaModelUnderTest
from tests.support.kafka_here import serve_here
from tests.support.shards import bodies, first_snapshot

_SHARDS = 2


def make_shards(folder, plan):
    """Make what `perpetua init --shards 2` makes, of the same rows twice."""
    folder.mkdir(mode=0o700)
    key = create_key_file(folder / "key")
    begin_shards(folder, _SHARDS)
    for number in range(_SHARDS):
        (folder / shard_name(number)).mkdir(mode=0o700)
        with FolderStore.open(folder / shard_name(number), key) as store:
            store.write_plan(plan.encode())
            store.save(first_snapshot(plan, bytes([number]) * 32))
    (folder / "plan.json").write_bytes(plan.encode())
    finish_shards(folder)


@pytest.fixture
def sharded(broker, request, tmp_path):
    """A model with two partitions and a state of two shards."""
    model = KafkaModelUnderTest(broker, unique_name(request), tmp_path, partitions=_SHARDS).create()
    shutil.rmtree(tmp_path / "state")
    make_shards(tmp_path / "state", long_plan())
    yield model
    model.end()


def test_a_shard_that_cannot_go_on_holds_no_other(sharded):
    """One's log lost records; the other answers on, is saved at the end, and the end tells of the first."""
    config = sharded.config()
    contents = [bodies(100), bodies(100, seed=2)]
    for partition, queries in enumerate(contents):
        sharded.ask(queries[:50], partition=partition)
    serve_here(config, lambda _log: sharded.count() >= 100)
    for partition, queries in enumerate(contents):
        sharded.ask(queries[50:], partition=partition)
    sharded.delete_records(60, partition=0)

    def done(log):
        failed = any(line["event"] == "shard.failed" and line["partition"] == 0 for line in log)
        return failed and len(sharded.values(1)) >= 100

    with pytest.raises(SourceError, match=r"partition 0: .* the queries from 50 to 60 were deleted"):
        serve_here(config, done)
    assert sharded.values(0) == sharded.expected(contents[0][:50])
    assert sharded.values(1) == sharded.expected(contents[1])
    header = peek_folder(sharded.folder / "state" / shard_name(1))
    assert header is not None
    assert header.round == 100
