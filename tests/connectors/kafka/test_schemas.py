"""Avro and Protobuf with a Schema Registry, written and read by Confluent's own serializers over a real broker."""

import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from oracle.codec.registered.avro_schemas import avro_query
from oracle.codec.registered.proto_schemas import proto_answer, proto_query
from tests.codec.registered.writing import compiled
from tests.support.kafka import KafkaModelUnderTest
from tests.support.registry import RegistryUnderTest
from tests.support.shards import bodies
from tests.support.waiting import eventually


class _Client(Protocol):
    """What a client does that speaks one of the formats: a row to a body, a body to an answer."""

    def body(self, row: dict[str, Any]) -> bytes: ...
    def answer(self, body: bytes) -> dict[str, Any]: ...


class _Avro:
    """Avro, by Confluent's serializers; they register the schema of queries themselves."""

    def __init__(self, model: KafkaModelUnderTest, client: SchemaRegistryClient, schema: Any = None) -> None:
        self._write = AvroSerializer(client, json.dumps(schema or avro_query(model.plan)))
        self._read = AvroDeserializer(client)
        self._asked = SerializationContext(model.queries, MessageField.VALUE)
        self._answered = SerializationContext(model.answers, MessageField.VALUE)

    def body(self, row: dict[str, Any]) -> bytes:
        written = self._write(row, self._asked)
        assert isinstance(written, bytes)
        return written

    def answer(self, body: bytes) -> dict[str, Any]:
        read = self._read(body, self._answered)
        assert isinstance(read, dict)
        return {name: value for name, value in read.items() if value is not None and name != "padding"}


class _Protobuf:
    """Protobuf, by Confluent's serializers and classes that Protobuf's compiler makes of the model's files."""

    def __init__(self, model: KafkaModelUnderTest, client: SchemaRegistryClient) -> None:
        self._query = compiled(proto_query(model.plan), model.folder, "Query")
        answer = compiled(proto_answer(model.plan), model.folder, "Answer")
        self._write = ProtobufSerializer(self._query, client, {"use.deprecated.format": False})
        # Without a registry: it would ask for a serialized descriptor, which only Confluent's makes of a .proto file.
        self._read = ProtobufDeserializer(answer, {"use.deprecated.format": False})
        self._asked = SerializationContext(model.queries, MessageField.VALUE)
        self._answered = SerializationContext(model.answers, MessageField.VALUE)

    def body(self, row: dict[str, Any]) -> bytes:
        written = self._write(self._query(**row), self._asked)
        assert isinstance(written, bytes)
        return written

    def answer(self, body: bytes) -> dict[str, Any]:
        read = self._read(body, self._answered)
        return {field.name: value for field, value in read.ListFields() if field.name != "padding"}


_CLIENTS = {"avro": _Avro, "protobuf": _Protobuf}


@pytest.fixture
def client(registry: RegistryUnderTest) -> Iterator[SchemaRegistryClient]:
    """Confluent's client of the registry."""
    with ExitStack() as stack:
        yield stack.enter_context(SchemaRegistryClient({"url": registry.url}))


def _config(model: KafkaModelUnderTest, registry: RegistryUnderTest, form: str, more: str = "") -> Path:
    table = f'[kafka.registry]\nurl = "{registry.url}"\nrequest_seconds = 2\n{more}'
    path = model.config(source=f'session_seconds = 2\nformat = "{form}"', extra=table)
    rarely = "snapshot_rounds = 1000000\nsnapshot_seconds = 86400"  # so that a restart reads the log again
    path.write_text(path.read_text().replace("snapshot_rounds = 500", rarely))
    return path


def _rows(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return the queries of `bodies` as rows."""
    asked = [msgspec.json.decode(body) for body in bodies(count, seed)]
    return [{"id": one["id"], "a": one["x"][0], "b": one["x"][1]} for one in asked]


def _unknown(number: int) -> bytes:
    return struct.pack(">BI", 0, number) + bytes(20)


def _told(model: KafkaModelUnderTest, client: _Client, count: int) -> Sequence[dict[str, Any]]:
    return [client.answer(one.value) for one in model.wait_for_answers(count)]


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_confluents_clients_are_answered_in_their_format(
    model: KafkaModelUnderTest, registry: RegistryUnderTest, client: SchemaRegistryClient, form: str
) -> None:
    """The answers are those that JSON would have got, rejections too; JSON that says so is answered beside them."""
    asker = _CLIENTS[form](model, client)
    model.serve(_config(model, registry, form))
    rows = _rows(60)
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
    model.serve(_config(model, registry, "avro"))
    own = _Avro(model, client)
    grown = avro_query(model.plan)
    grown["fields"].insert(1, {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []})
    later = _Avro(model, client, grown)
    other = registry.register("other", {"type": "record", "name": "O", "fields": [{"name": "a", "type": "double"}]})
    row = {"id": "x", "a": 0.5, "b": 0.5}
    model.ask([own.body(row), struct.pack(">BId", 0, other, 0.5), later.body({**row, "tags": ["t"]})])
    first, unfit, third = _told(model, own, 3)
    assert (first["label"], first["round"]) == (third["label"], third["round"] - 1)
    bound = "a field for a number"
    assert unfit == {"model": "tiny", "error": "unfit-schema", "field": "b", "bound": bound}


def test_what_was_unknown_stays_so_when_the_log_is_read_again(
    model: KafkaModelUnderTest, registry: RegistryUnderTest, client: SchemaRegistryClient
) -> None:
    """A killed daemon comes to the same state, though the schema is there by now; later messages of it are queries."""
    asker = _Avro(model, client)
    config = _config(model, registry, "avro")
    daemon = model.serve(config)
    first = asker.body({"id": "first", "a": 0.5, "b": 0.5})
    model.ask([first])
    model.wait_for_answers(1)
    coming = registry.register("newest", {"type": "record", "name": "N", "fields": [{"name": "z", "type": "int"}]}) + 1
    early = struct.pack(">BI", 0, coming) + first[5:]
    model.ask([early, *map(asker.body, _rows(20))])
    assert _told(model, asker, 22)[1]["error"] == "unknown-schema"
    daemon.kill()
    daemon.wait()
    schema = avro_query(model.plan)
    schema["fields"].append({"name": "new", "type": "int", "default": 0})
    assert registry.register("of somebody", {**schema, "name": "Late"}) == coming
    model.serve(config, "again.log")
    model.ask([early + b"\2", *map(asker.body, _rows(3))])
    told = _told(model, asker, 26)
    assert told[1]["error"] == "unknown-schema"
    assert [one.get("round") for one in told] == [0, None, *range(1, 25)]
    assert told[22]["id"] == "first"
    assert "log diverged" not in (model.folder / "again.log").read_text()


def test_while_the_registry_does_not_answer_a_message_waits(
    model: KafkaModelUnderTest, registry: RegistryUnderTest, client: SchemaRegistryClient
) -> None:
    """Those before it are answered, it is not rejected, and the daemon says what it waits for and goes on."""
    asker = _Avro(model, client)
    schema = avro_query(model.plan)
    schema["fields"].append({"name": "more", "type": "int", "default": 0})
    later = _Avro(model, client, schema)
    body = later.body({"id": "late", "a": 0.5, "b": 0.5, "more": 1})
    model.serve(_config(model, registry, "avro"))
    model.ask([asker.body(row) for row in _rows(5)])
    model.wait_for_answers(5)
    with registry.paused():
        model.ask([body])
        eventually(lambda: any("kafka.registry" in str(line) for line in model.log()), what=lambda: model.log()[-3:])
        assert model.count() == 5
    assert _told(model, asker, 6)[5]["id"] == "late"
