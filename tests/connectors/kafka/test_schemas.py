"""Avro and Protobuf with a Schema Registry, written and read by Confluent's own serializers over a real broker."""

import json
import struct

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from oracle.codec.registered.avro_schemas import avro_query
from tests.connectors.kafka.schema_clients import CLIENTS, AvroClient, answers_of, query_rows, registry_config
from tests.support.kafka import KafkaModelUnderTest
from tests.support.registry import RegistryUnderTest
from tests.support.shards import bodies
from tests.support.waiting import eventually


def _unknown(number: int) -> bytes:
    return struct.pack(">BI", 0, number) + bytes(20)


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_confluents_clients_are_answered_in_their_format(
    model: KafkaModelUnderTest, registry: RegistryUnderTest, client: SchemaRegistryClient, form: str
) -> None:
    """The answers are those that JSON would have got, rejections too; JSON that says so is answered beside them."""
    asker = CLIENTS[form](model, client)
    model.serve(registry_config(model, registry, form))
    rows = query_rows(60)
    model.ask([asker.body(row) for row in rows])
    model.ask([_unknown(2**31 + 5), b"no frame", _unknown(10**6)])
    model.ask([b'{"id": "json", "x": [0.5, 0.5]}'], headers=[("content-type", b"application/json")])
    model.ask([None])
    answers = model.wait_for_answers(65)
    expected = [json.loads(body) for body in model.expected([*bodies(60), b'{"id": "json", "x": [0.5, 0.5]}', None])]
    told = [asker.answer(one.value) for one in (*answers[:60], answers[64])]
    assert told == [{k: v for k, v in one.items() if v is not None} for one in (*expected[:60], expected[61])]
    assert {dict(one.headers)["content-type"].decode() for one in answers[:63]} == {f"application/{form}"}
    reasons = [asker.answer(one.value)["error"] for one in answers[60:63]]
    assert reasons == ["unknown-schema", "malformed", "unknown-schema"]
    assert answers[63].body == expected[60]
    assert f"{model.answers}-value" in registry.ask("/subjects")


def test_a_writers_schema_changes_and_one_does_not_fit(
    model: KafkaModelUnderTest, registry: RegistryUnderTest, client: SchemaRegistryClient
) -> None:
    """Fields that come to be are passed over; without a feature each message is rejected, and its field named."""
    model.serve(registry_config(model, registry, "avro"))
    own = AvroClient(model, client)
    grown = avro_query(model.plan)
    grown["fields"].insert(1, {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []})
    later = AvroClient(model, client, grown)
    other = registry.register("other", {"type": "record", "name": "O", "fields": [{"name": "a", "type": "double"}]})
    row = {"id": "x", "a": 0.5, "b": 0.5}
    model.ask([own.body(row), struct.pack(">BId", 0, other, 0.5), later.body({**row, "tags": ["t"]})])
    first, unfit, third = answers_of(model, own, 3)
    assert (first["label"], first["round"]) == (third["label"], third["round"] - 1)
    bound = "a field for a number"
    assert unfit == {"model": "tiny", "error": "unfit-schema", "field": "b", "bound": bound}


def test_what_was_unknown_stays_so_when_the_log_is_read_again(
    model: KafkaModelUnderTest, registry: RegistryUnderTest, client: SchemaRegistryClient
) -> None:
    """A killed daemon comes to the same state, though the schema is there by now; later messages of it are queries."""
    asker = AvroClient(model, client)
    config = registry_config(model, registry, "avro")
    daemon = model.serve(config)
    first = asker.body({"id": "first", "a": 0.5, "b": 0.5})
    model.ask([first])
    model.wait_for_answers(1)
    coming = registry.register("newest", {"type": "record", "name": "N", "fields": [{"name": "z", "type": "int"}]}) + 1
    early = struct.pack(">BI", 0, coming) + first[5:]
    model.ask([early, *map(asker.body, query_rows(20))])
    assert answers_of(model, asker, 22)[1]["error"] == "unknown-schema"
    daemon.kill()
    daemon.wait()
    schema = avro_query(model.plan)
    schema["fields"].append({"name": "new", "type": "int", "default": 0})
    assert registry.register("of somebody", {**schema, "name": "Late"}) == coming
    model.serve(config, "again.log")
    model.ask([early + b"\2", *map(asker.body, query_rows(3))])
    told = answers_of(model, asker, 26)
    assert told[1]["error"] == "unknown-schema"
    assert [one.get("round") for one in told] == [0, None, *range(1, 25)]
    assert told[22]["id"] == "first"
    assert "log diverged" not in (model.folder / "again.log").read_text()


def test_while_the_registry_does_not_answer_a_message_waits(
    model: KafkaModelUnderTest, registry: RegistryUnderTest, client: SchemaRegistryClient
) -> None:
    """Those before it are answered, it is not rejected, and the daemon says what it waits for and goes on."""
    asker = AvroClient(model, client)
    schema = avro_query(model.plan)
    schema["fields"].append({"name": "more", "type": "int", "default": 0})
    later = AvroClient(model, client, schema)
    body = later.body({"id": "late", "a": 0.5, "b": 0.5, "more": 1})
    model.serve(registry_config(model, registry, "avro"))
    model.ask([asker.body(row) for row in query_rows(5)])
    model.wait_for_answers(5)
    with registry.paused():
        model.ask([body])
        eventually(lambda: any("kafka.registry" in str(line) for line in model.log()), what=lambda: model.log()[-3:])
        assert model.count() == 5
    assert answers_of(model, asker, 6)[5]["id"] == "late"
