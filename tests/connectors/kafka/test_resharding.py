"""A state with more shards than its topic has partitions: those without one wait, and begin when it grows."""

import shutil

import pytest

from oracle.errors import RefusedError
from oracle.runtime.shard import Shard
from tests.connectors.kafka.conftest import unique_name
from tests.support.folders import long_plan, perpetua
from tests.support.kafka import KafkaModelUnderTest
from tests.support.kafka_here import serve_here
from tests.support.sharded import make_sharded_state, shard_snapshot
from tests.support.shards import bodies, deliveries_of, process_in_batches

_SHARDS = 3


@pytest.fixture
def reserved(broker, request, tmp_path):
    """A model with a state of three shards, and topics of one partition."""
    model = KafkaModelUnderTest(broker, unique_name(request), tmp_path)
    model.create_topics()
    make_sharded_state(tmp_path / "state", long_plan(), _SHARDS)
    yield model
    model.end()


def _expected(shard, contents):
    snapshot = shard_snapshot(long_plan(), shard)
    return process_in_batches(Shard(long_plan(), snapshot), deliveries_of(contents)).replies


def test_a_topic_grows_while_it_is_served(reserved):
    """No process is started anew; each shard answers its own partition from its first query on, and goes on later."""
    model, config = reserved, reserved.config()
    asked = {shard: bodies(30, seed=shard + 1) for shard in range(_SHARDS)}
    grown: list[bool] = []

    def served(_log):
        if model.count() < 20:
            return False
        if not grown:
            grow = perpetua("reshard", config, "--partitions", str(_SHARDS))
            assert grow.returncode == 0, grow.stderr
            assert f"topic {model.queries}: has 3 partitions".encode() in grow.stdout
            for shard in (1, 2):
                model.ask(asked[shard], partition=shard)
            model.ask(asked[0][20:])
            grown.append(True)
        return model.count() >= 90

    model.ask(asked[0][:20])
    log = serve_here(config, served, metadata_seconds=0.5)
    begun = [line["partition"] for line in log if line["event"] == "daemon.serving"]
    assert {begun[0], *begun} == {0, 1, 2}
    for shard in range(_SHARDS):
        assert model.values(shard) == _expected(shard, asked[shard])
    more = {shard: bodies(5, seed=shard + 10) for shard in range(_SHARDS)}
    for shard, contents in more.items():
        model.ask(contents, partition=shard)
    serve_here(config, lambda _log: model.count() >= 105)
    for shard in range(_SHARDS):
        assert model.values(shard) == _expected(shard, [*asked[shard], *more[shard]])


@pytest.mark.slow
def test_commands_know_of_shards_that_wait(reserved):
    """Check, topics, offsets, and retire at last; a number that the state cannot serve is refused."""
    model, config = reserved, reserved.config()
    model.ask(bodies(10))
    serve_here(config, lambda _log: model.count() >= 10)
    checked = perpetua("check", config).stdout
    assert b"ok     topics exist and fit the plan" in checked
    assert b"ok     2 of 3 shards wait for a partition of the query topic" in checked
    assert b"shard 1" not in checked
    assert b"2 of 3 shards wait for a partition: `perpetua reshard`" in perpetua("topics", config).stdout
    shown = perpetua("offsets", "show", config)
    assert (shown.returncode, shown.stdout.count(b"nothing is wrong")) == (0, 1)
    for wrong, said in ((4, b"must be from 1 to 3"), (1, b"has 1 partition already"), (0, b"must be from 1 to 3")):
        refused = perpetua("reshard", config, "--partitions", str(wrong))
        assert refused.returncode == 2
        assert said in refused.stderr
    retired = perpetua("retire", config)
    assert retired.returncode == 0, retired.stderr
    kinds = [event.body["kind"] for event in model.read(f"{model.name}.ledger")]
    assert kinds.count("model-retired") == 1


def test_a_topic_that_lacks_a_shard_that_has_answered_is_refused(reserved):
    """It is another topic than the one that was answered, though all of its partitions could be served."""
    model = reserved
    assert perpetua("reshard", model.config(), "--partitions", "2").returncode == 0
    model.ask(bodies(10), partition=1)
    serve_here(model.config(), lambda _log: model.count() >= 10)
    smaller = KafkaModelUnderTest(model.broker, f"{model.name}-smaller", model.folder)
    smaller.create_topics()
    with pytest.raises(RefusedError, match="has no partition 1, and shard 1 of the state has answered queries from it"):
        serve_here(smaller.config("smaller.toml"), lambda _log: False)


def test_it_moves_with_shards_that_wait(reserved):
    """To a topic with a partition for each; the shards that never answered begin there."""
    model, config = reserved, reserved.config()
    model.ask(bodies(10))
    serve_here(config, lambda _log: model.count() >= 10)
    file = model.folder / "export.json"
    assert perpetua("offsets", "export", config, "--out", file).returncode == 0
    there = KafkaModelUnderTest(model.broker, f"{model.name}-there", model.folder, partitions=_SHARDS)
    there.create_topics()
    target = there.config("there.toml")
    come = perpetua("offsets", "import", target, file, "--at", "0=0")
    assert come.returncode == 0, come.stderr
    assert come.stdout.count(b"has answered nothing yet") == 2
    for shard in range(_SHARDS):
        there.ask(bodies(5, seed=shard + 2), partition=shard)
    serve_here(target, lambda _log: there.count() >= 15)
    assert [*model.values(), *there.values()] == _expected(0, [*bodies(10), *bodies(5, seed=2)])
    assert there.values(1) == _expected(1, bodies(5, seed=3))
    shutil.rmtree(model.folder / "state")
