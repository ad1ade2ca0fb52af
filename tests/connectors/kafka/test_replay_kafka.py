"""`perpetua replay` of a range of offsets, and the verification of a topic's answers."""

import os
import subprocess

import msgspec
import pytest
from confluent_kafka import Producer

from connectors.kafka.settings import KafkaSettings
from oracle.cli.audit.receipt_log import QueryLog, against_log
from oracle.cli.replay import kafka as replay_kafka
from oracle.errors import InputError, RefusedError
from oracle.receipts.ledgers import against_ledger, read_ledger
from oracle.receipts.receipts import open_receipt
from oracle.state.forks import read_forks
from tests.connectors.kafka.test_strangers import delete_group, set_offset
from tests.support.broker import Broker
from tests.support.folders import command, environment
from tests.support.kafka import KafkaModelUnderTest
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT

_COUNT = 700


@pytest.fixture(scope="module")
def served(broker: Broker, tmp_path_factory: pytest.TempPathFactory):
    """A model whose queries are answered, and whose daemon has stopped."""
    model = KafkaModelUnderTest(broker, f"replayed-{os.getpid()}", tmp_path_factory.mktemp("replayed")).create()
    config = model.config()
    model.ask(bodies(_COUNT))
    daemon = model.serve(config)
    try:
        model.wait_for_answers(_COUNT)
        daemon.terminate()
        assert daemon.wait(TIMEOUT) == 0
    finally:
        model.end()
    return model, config


def replay(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run(
        [*command("replay"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=TIMEOUT,
    )


def test_range_is_answered_at_a_cost(served):
    """Offsets 100 to 300 from the genesis file: 200 answers with their own noise, the fork recorded and announced."""
    model, config = served
    genesis, out = model.folder / "state.genesis", model.folder / "again.jsonl"
    options = [str(config), "--from", str(genesis), "--offsets", "100:300", "--out", str(out)]
    refused = replay(*options)
    assert (refused.returncode, "epsilon = 8" in refused.stderr) == (2, True)
    assert not read_forks(genesis)
    done = replay(*options, "--accept-cost")
    assert done.returncode == 0, done.stderr
    lines = out.read_bytes().splitlines()
    recorded = [answer.value for answer in model.read()][100:300]
    assert len(lines) == 200
    assert b'"id":"q100"' in lines[0]
    assert b'"id":"q299"' in lines[-1]
    assert lines != recorded
    events = [answer.body for answer in model.read(f"{model.name}.ledger")]
    assert [event["kind"] for event in events].count("replay-forked") == 1
    assert events[-1] == {**events[-1], "kind": "replay-forked", "number": 1, "epsilon": 8.0}


@pytest.mark.parametrize(
    ("offsets", "bound"),
    [
        ("5", "FIRST:LAST"),
        ("a:b", "FIRST:LAST"),
        ("9:9", "at least one record"),
        ("0:701", "0:700"),
        (":99999", "0:700"),
    ],
)
def test_offsets_that_are_not_there(served, offsets, bound):
    """They are refused with what there is, and nothing is paid."""
    model, config = served
    out = model.folder / "never.jsonl"
    done = replay(
        str(config),
        "--from",
        str(model.folder / "state"),
        "--offsets",
        offsets,
        "--out",
        str(out),
        "--accept-cost",
    )
    assert done.returncode == 2
    assert "--offsets" in done.stderr
    assert bound in done.stderr
    assert not out.exists()
    assert not read_forks(model.folder / "state")


def test_answers_on_the_topic_are_proved(served):
    """From the genesis file, what was committed is what re-execution gives; where nothing was, it says so."""
    model, config = served
    genesis = str(model.folder / "state.genesis")
    done = replay(str(config), "--from", genesis, "--verify")
    assert done.returncode == 0, done.stderr
    assert f"identical: {_COUNT} messages, {_COUNT} rounds from round 0" in done.stdout
    late = replay(str(config), "--from", str(model.folder / "state"), "--verify")
    assert (late.returncode, "nothing to compare" in late.stderr) == (2, True)
    other = replay(str(config), "--from", genesis, "--verify", "--partition", "7")
    assert (other.returncode, "has committed nothing" in other.stderr) == (3, True)


def test_answers_of_several_shards_on_one_partition_are_not_verified(broker, topic, monkeypatch):
    """Three shards and two partitions: the middle one is alone on its own, the others share one and are refused."""
    monkeypatch.setattr(replay_kafka, "_QUIET", 0.5)
    queries, answers = topic(3, word="queries"), topic(2, word="answers")
    producer = Producer({"bootstrap.servers": broker.servers})
    for partition, body in enumerate((b'{"of":"two"}', b'{"of":"one"}')):
        producer.produce(answers, body, partition=partition)
    producer.flush()
    settings = KafkaSettings(servers=(broker.servers,), topic=queries, answers=answers, group="g", model="m")
    with replay_kafka.KafkaLog(settings, 1).answers() as path:
        assert path.read_bytes() == b'{"of":"one"}\n'
    for shard in (0, 2):
        with (
            pytest.raises(RefusedError, match="has 2 partitions for the answers of 3 shards"),
            replay_kafka.KafkaLog(settings, shard).answers(),
        ):
            pass


def test_a_receipt_is_checked_against_topics(served, tmp_path):
    """The query topic is the log that was answered; the ledger topic is of the plan, with what shards say of it."""
    model, config = served
    receipt, state = tmp_path / "receipt.json", model.folder / "state"
    signed = subprocess.run(command("audit", "sign", state, "--out", receipt), env=environment(), check=False)
    assert signed.returncode == 0
    statement, _ = open_receipt(receipt, None)
    assert statement.round == _COUNT
    genesis = model.folder / "state.genesis"
    assert against_log(statement, QueryLog(config), genesis) == []
    assert len(against_log(msgspec.structs.replace(statement, tag_commitment=""), QueryLog(config), genesis)) == 1
    with pytest.raises(InputError, match=r"must go on to round 701.*it ends at 700"):
        against_log(msgspec.structs.replace(statement, round=_COUNT + 1), QueryLog(config), genesis)
    events = model.read(f"{model.name}.ledger")
    kinds = [event.body["kind"] for event in events]
    assert {"shard-started", "shard-stopped", "side-rearmed"} <= {*kinds}
    topic = tmp_path / "topic.txt"
    topic.write_bytes(b"".join(b"%b\t%b\n" % (event.key, event.value) for event in events))
    ledger = read_ledger(topic, f"{model.queries}/0")
    assert len(ledger) == len(events)
    complete = msgspec.structs.replace(statement, forks=kinds.count("replay-forked"))
    assert against_ledger(complete, ledger) == []
    assert against_ledger(msgspec.structs.replace(complete, rearms=0), ledger)


def test_answers_are_proved_by_our_marks(served):
    """Where somebody has deleted the group or set its offset back, our own mark says what was committed."""
    model, config = served
    genesis = str(model.folder / "state.genesis")
    for disturb in (lambda: delete_group(model), lambda: set_offset(model, 3, "theirs")):
        disturb()
        done = replay(str(config), "--from", genesis, "--verify")
        assert done.returncode == 0, done.stderr
        assert f"identical: {_COUNT} messages" in done.stdout
