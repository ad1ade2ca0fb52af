"""Several shards in one process: what stops one of them does not hold the others."""

import shutil
from dataclasses import replace

import pytest

from oracle.errors import ForeignShardError, SourceError
from oracle.state.folder import FolderStore, peek_folder
from oracle.state.format import decode, encode, peek
from oracle.state.keys import create_key_file, read_key_file
from oracle.state.shards import begin_shards, finish_shards, shard_name
from tests.connectors.kafka.conftest import unique_name
from tests.support.folders import long_plan
from tests.support.kafka import KafkaModelUnderTest
from tests.support.kafka_here import serve_here
from tests.support.kafka_launcher import CRASHED
from tests.support.shards import bodies, deliveries_of, first_snapshot, new_shard, process_in_batches
from tests.support.waiting import TIMEOUT, eventually

_SHARDS = 2


def _secret(shard):
    return bytes([shard]) * 32


def _expected(shard, contents):
    return process_in_batches(new_shard(long_plan(), _secret(shard)), deliveries_of(contents)).replies


def make_shards(folder, plan):
    """Make what `perpetua init --shards 2` makes, of the same rows twice, each with a key of its own."""
    folder.mkdir(mode=0o700)
    key = create_key_file(folder / "key")
    begin_shards(folder, _SHARDS)
    for number in range(_SHARDS):
        (folder / shard_name(number)).mkdir(mode=0o700)
        with FolderStore.open(folder / shard_name(number), key) as store:
            store.write_plan(plan.encode())
            store.save(first_snapshot(plan, _secret(number)))
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


def _snapshot(folder):
    (path,) = folder.glob("snapshot-*.perp")
    return path


def _take_for_another(state):
    """Put shard 0's snapshot in the place of shard 1's."""
    theirs, ours = (_snapshot(state / shard_name(number)) for number in (1, 0))
    theirs.unlink()
    shutil.copy(ours, theirs.with_name(ours.name))


def _change_places(state):
    """Give each shard's folder the other's name."""
    first, second = (state / shard_name(number) for number in (0, 1))
    first.rename(state / "aside")
    second.rename(first)
    (state / "aside").rename(second)


def _take_for_another_as_before(state):
    """Put shard 0's in the place of shard 1's, as an earlier version wrote it, which said nothing of shards."""
    _take_for_another(state)
    key = read_key_file(state / "key")
    for number in range(_SHARDS):
        path = _snapshot(state / shard_name(number))
        data = path.read_bytes()
        path.write_bytes(encode(replace(decode(data, key, peek(data).plan_digest), origin=None), key))


@pytest.mark.parametrize("mistake", [_take_for_another, _change_places, _take_for_another_as_before])
@pytest.mark.parametrize("answered", [0, 50])
def test_a_shard_in_the_place_of_another_answers_nobody(sharded, mistake, answered):
    """Its noise would go to two streams. It is refused before anything is answered."""
    for partition in range(_SHARDS):
        sharded.ask(bodies(answered, seed=partition), partition=partition)
    if answered:
        serve_here(sharded.config(), lambda _log: sharded.count() >= _SHARDS * answered)
    mistake(sharded.folder / "state")
    for partition in range(_SHARDS):
        sharded.ask(bodies(10, seed=partition), partition=partition)
    with pytest.raises(ForeignShardError, match="own snapshot back"):
        serve_here(sharded.config(), lambda _log: False)
    assert sharded.count() == _SHARDS * answered


@pytest.mark.parametrize("point", ["answers", "offsets", "end", "ended"])
def test_killed_within_a_transaction_of_both_shards(sharded, point):
    """At any point of it: it stands for both or for none, and the next process goes on from there, each answer once."""
    config = sharded.config(service="drain_seconds = 60\nbatch_rows = 8")
    contents = [bodies(200, seed=seed) for seed in range(_SHARDS)]
    for partition, queries in enumerate(contents):
        sharded.ask(queries, partition=partition)
    daemon = sharded.serve(config, trap=(point, 100))
    assert daemon.wait(TIMEOUT) == CRASHED, sharded.log()[-3:]
    assert sharded.count() < _SHARDS * 200
    log = serve_here(config, lambda _log: sharded.count() >= _SHARDS * 200)
    assert not {"shard.fenced", "shard.failed"} & {line["event"] for line in log}
    for partition, queries in enumerate(contents):
        assert sharded.values(partition) == _expected(partition, queries)


def test_two_processes_that_share_shards_take_nothing_from_each_other(sharded):
    """One comes and takes a shard over, cleanly; killed, it leaves it to the first one, which never stops answering."""
    config = sharded.config(source="session_seconds = 3")
    contents = [bodies(90, seed=seed) for seed in range(_SHARDS)]

    def ask(start):
        for partition, queries in enumerate(contents):
            sharded.ask(queries[start : start + 30], partition=partition)
        sharded.wait_for_answers(_SHARDS * (start + 30))

    sharded.serve(config, "first.log")
    ask(0)
    second = sharded.serve(config, "second.log")
    eventually(lambda: "daemon.serving" in sharded.events("second.log"), what=lambda: sharded.log("second.log")[-3:])
    ask(30)
    second.kill()
    second.wait()
    ask(60)
    assert not {"shard.fenced", "bus.unavailable"} & set(sharded.events("first.log"))
    for partition, queries in enumerate(contents):
        assert sharded.values(partition) == _expected(partition, queries)


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
    assert sharded.values(0) == _expected(0, contents[0][:50])
    assert sharded.values(1) == _expected(1, contents[1])
    header = peek_folder(sharded.folder / "state" / shard_name(1))
    assert header is not None
    assert header.round == 100
