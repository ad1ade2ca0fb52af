"""Queries and answers with schemas, read beside the daemon: verified, forked, audited, counted, and followed."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient

from oracle.cli.audit.receipt_log import QueryLog, against_log
from oracle.codec.json.truths import TruthCodec
from oracle.codec.registered.avro_schemas import avro_query
from oracle.planning.model import Truth
from oracle.receipts.receipts import open_receipt
from oracle.state.keys import read_key_file
from oracle.state.truths import truth_secret
from tests.connectors.kafka.conftest import unique_name
from tests.connectors.kafka.schema_clients import CLIENTS, AvroClient, Client, query_rows, registry_config
from tests.support.broker import Broker
from tests.support.folders import command, long_plan, perpetua
from tests.support.kafka import KafkaModelUnderTest
from tests.support.registry import RegistryUnderTest
from tests.support.waiting import TIMEOUT, eventually
from tests.truths.logs import counted

_FORMS = ["avro", pytest.param("protobuf", marks=pytest.mark.slow)]
_TRUTH = Truth(epsilon=0.5, rounds=20, lag=10)


def _mixed(asker: Client) -> list[bytes]:
    """Return queries with schemas, some that are none, and one whose schema nobody knows."""
    asked = [asker.body(row) for row in query_rows(80)]
    return [*asked[:40], b"no frame", struct.pack(">BI", 0, 2**31 - 7) + bytes(20), *asked[40:]]


def _served(model: KafkaModelUnderTest, config: Path, asked: list[bytes]) -> list[bytes]:
    """Return the answers of a daemon that has stopped, the last of which is in JSON."""
    daemon = model.serve(config)
    model.ask(asked)
    model.ask([b'{"id": "json", "x": [0.5, 0.5]}'], headers=[("content-type", b"application/json")])
    model.wait_for_answers(len(asked) + 1)
    daemon.terminate()
    assert daemon.wait(TIMEOUT) == 0
    return model.values()


@pytest.mark.parametrize("form", _FORMS)
def test_a_log_with_schemas_is_verified_audited_and_forked(
    model: KafkaModelUnderTest, registry: RegistryUnderTest, client: SchemaRegistryClient, form: str
) -> None:
    """Answers byte for byte, beside some in JSON, and what is missing is found; a fork's answers are lines of JSON."""
    asker, config = CLIENTS[form](model, client), registry_config(model, registry, form)
    answers = _served(model, config, _mixed(asker))
    genesis = model.folder / "state.genesis"
    done = perpetua("verify", config, "--from", genesis)
    assert (done.returncode, b"identical: 83 messages, 81 rounds" in done.stdout) == (0, True), done
    receipt = model.folder / "receipt.json"
    assert perpetua("audit", "sign", model.folder / "state", "--out", receipt).returncode == 0
    assert against_log(open_receipt(receipt, None)[0], QueryLog(config), genesis) == []
    (cut,) = model.broker.admin.delete_records([TopicPartition(model.answers, 0, 20)]).values()
    assert cut.result().low_watermark == 20
    done = perpetua("verify", config, "--from", genesis)
    assert (done.returncode, b"DIFFERENT: the answer to message 0" in done.stdout) == (1, True), done
    assert answers[0][0] == 0
    out = model.folder / "again.jsonl"
    done = perpetua("fork", config, "--from", genesis, "--offsets", "39:43", "--out", out, "--accept-cost")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert [one.get("id") for one in lines] == ["q39", None, None, "q40"]
    assert [one.get("error") for one in lines] == [None, "malformed", "unknown-schema", None]
    assert [one.get("round") for one in lines] == [0, None, None, 1]
    assert {one["label"] for one in (lines[0], lines[3])} <= set(model.plan.labels)
    done = perpetua("fork", config, "--from", genesis, "--out", out.with_suffix(".arrow"), "--accept-cost")
    assert (done.returncode, b"must end in .jsonl" in done.stderr) == (2, True), done


@pytest.mark.slow
def test_a_registry_that_lost_a_schema_is_named_by_a_verification(
    model: KafkaModelUnderTest, registry: RegistryUnderTest, client: SchemaRegistryClient
) -> None:
    """Where the state folder does not have it either; one that gives the answers' schema another id does not matter."""
    config = registry_config(model, registry, "avro")
    registry.stop()
    registry.start()  # so that ids begin anew, now and later
    asker = AvroClient(model, client)
    _served(model, config, [asker.body(row) for row in query_rows(5)])
    registry.stop()
    registry.start()
    genesis = model.folder / "state.genesis"
    done = perpetua("verify", config, "--from", genesis)
    assert done.returncode == 0, done.stderr
    (kept,) = (model.folder / "state").glob("schemas-*.jsonl")
    kept.unlink()
    done = perpetua("verify", config, "--from", genesis)
    assert (done.returncode, b"unless schemas with ids 1, which are not in" in done.stderr) == (3, True), done


@pytest.fixture
def counting(broker: Broker, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkaModelUnderTest]:
    """A model whose plan pays for true labels, with a topic for them."""
    plan = msgspec.structs.replace(long_plan(), truth=_TRUTH)
    made = KafkaModelUnderTest(broker, unique_name(request), tmp_path, plan=plan).create()
    broker.create_topic(f"{made.name}.truth", 1, {"compression.type": "uncompressed"})
    yield made
    made.end()


@pytest.mark.parametrize("form", _FORMS)
def test_labels_that_come_later_are_counted(
    counting: KafkaModelUnderTest, registry: RegistryUnderTest, client: SchemaRegistryClient, form: str
) -> None:
    """As of the same answers in JSON."""
    asker = CLIENTS[form](counting, client)
    table = f'[truth]\nfolder = "{counting.folder / "kept"}"\ntopic = "{counting.name}.truth"\n'
    config = registry_config(counting, registry, form, table)
    counting.serve(config)
    counting.ask([*(asker.body(row) for row in query_rows(60)), b"no frame", None, b""])
    counting.ask([b'{"id": "json", "x": [0.5, 0.5]}'], headers=[("content-type", b"application/json")])
    counting.ask([asker.body(row) for row in query_rows(40)])
    bodies = [one.value for one in counting.wait_for_answers(104)]
    told = [json.loads(body) if body.startswith(b"{") else asker.answer(body) for body in bodies]
    truths = [
        json.dumps({"id": one["id"], "round": one["round"], "label": one["label"] ^ (one["round"] % 5 == 0)}).encode()
        for one in told
        if one.get("label") is not None
    ]
    assert len(truths) >= 90
    producer = Producer({"bootstrap.servers": counting.broker.servers})
    for truth in truths:
        producer.produce(f"{counting.name}.truth", truth, partition=0)
    assert producer.flush(TIMEOUT) == 0
    counting.start(command("truth", config), "truth.log")
    key = read_key_file(counting.folder / "state" / "key")
    lines = [json.dumps(one).encode() for one in told], truths
    found = counted(TruthCodec(counting.plan), _TRUTH, truth_secret(key, counting.plan.digest, 0), lines)
    expected = [tuple(one) for one in found.released]
    assert len(expected) == 4

    def released() -> list[tuple[Any, ...]]:
        events = [line for line in counting.log("truth.log") if line.get("event") == "truth.released"]
        return [(line["period"], line["right"], line["wrong"]) for line in events]

    eventually(lambda: len(released()) >= len(expected), what=lambda: counting.log("truth.log")[-3:])
    assert released() == expected


@pytest.mark.slow
def test_a_standby_follows_queries_with_schemas(
    model: KafkaModelUnderTest, registry: RegistryUnderTest, client: SchemaRegistryClient
) -> None:
    """It takes over from a killed owner; what had no schema stays so, though it has one when the log is read again."""
    asker = AvroClient(model, client)
    config = registry_config(model, registry, "avro")
    config.write_text(config.read_text().replace("session_seconds = 2", "session_seconds = 2\nstandby = true"))
    processes = {"one.log": model.serve(config, "one.log")}
    eventually(lambda: "daemon.serving" in model.events("one.log"), what=lambda: model.log("one.log")[-3:])
    asked = [asker.body(row) for row in query_rows(300)]
    schema = {"type": "record", "name": "N", "fields": [{"name": "z", "type": "int"}]}
    coming = registry.register("newest", schema) + 1
    early = struct.pack(">BI", 0, coming) + asked[0][5:]
    model.ask([*asked[:100], early, *asked[100:150]])
    model.wait_for_answers(151)
    processes["two.log"] = model.serve(config, "two.log")

    def following() -> str | None:
        return next((log for log in processes if model.events(log)[-1:] == ["shard.followed"]), None)

    eventually(lambda: following() is not None, what=lambda: [model.log(log)[-3:] for log in processes])
    follows = following() or "two.log"
    late = avro_query(model.plan)
    late["fields"].append({"name": "new", "type": "int", "default": 0})
    assert registry.register("of somebody", {**late, "name": "Late"}) == coming
    (owner,) = set(processes) - {follows}
    processes[owner].kill()
    processes[owner].wait()
    model.ask([*asked[150:], early + b"\2"])
    model.wait_for_answers(302)
    processes[follows].kill()
    processes[follows].wait()
    model.serve(config, "three.log")
    model.ask(asked[:5])
    told = [asker.answer(one.value) for one in model.wait_for_answers(307)]
    assert [one.get("round") for one in told] == [*range(100), None, *range(100, 306)]
    assert told[100]["error"] == "unknown-schema"
    assert "log diverged" not in (model.folder / "three.log").read_text()
