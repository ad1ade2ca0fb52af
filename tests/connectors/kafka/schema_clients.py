"""Clients of a Schema Registry, by Confluent's own serializers, and a model that they ask."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
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

__all__ = ["CLIENTS", "AvroClient", "Client", "answers_of", "query_rows", "registry_config"]


class Client(Protocol):
    """What a client does that speaks one of the formats: a row to a body, a body to an answer."""

    def body(self, row: dict[str, Any]) -> bytes:
        """Write a query."""

    def answer(self, body: bytes) -> dict[str, Any]:
        """Read an answer, without its padding and what is not there."""


class AvroClient:
    """Avro, by Confluent's serializers; they register the schema of queries themselves."""

    def __init__(self, model: KafkaModelUnderTest, client: SchemaRegistryClient, schema: Any = None) -> None:
        self._write = AvroSerializer(client, json.dumps(schema or avro_query(model.plan)))
        self._read = AvroDeserializer(client)
        self._asked = SerializationContext(model.queries, MessageField.VALUE)
        self._answered = SerializationContext(model.answers, MessageField.VALUE)

    def body(self, row: dict[str, Any]) -> bytes:
        """See `Client`."""
        written = self._write(row, self._asked)
        assert isinstance(written, bytes)
        return written

    def answer(self, body: bytes) -> dict[str, Any]:
        """See `Client`."""
        read = self._read(body, self._answered)
        assert isinstance(read, dict)
        return {name: value for name, value in read.items() if value is not None and name != "padding"}


class ProtobufClient:
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
        """See `Client`."""
        written = self._write(self._query(**row), self._asked)
        assert isinstance(written, bytes)
        return written

    def answer(self, body: bytes) -> dict[str, Any]:
        """See `Client`."""
        read = self._read(body, self._answered)
        return {field.name: value for field, value in read.ListFields() if field.name != "padding"}


CLIENTS = {"avro": AvroClient, "protobuf": ProtobufClient}


def registry_config(model: KafkaModelUnderTest, registry: RegistryUnderTest, form: str, more: str = "") -> Path:
    """Write a configuration of a model whose queries are in a format; no snapshot is written in between."""
    table = f'[kafka.registry]\nurl = "{registry.url}"\nrequest_seconds = 2\n{more}'
    path = model.config(source=f'session_seconds = 2\nformat = "{form}"', extra=table)
    rarely = "snapshot_rounds = 1000000\nsnapshot_seconds = 86400"  # so that a restart reads the log again
    path.write_text(path.read_text().replace("snapshot_rounds = 500", rarely))
    return path


def query_rows(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return the queries of `bodies` as rows."""
    asked = [msgspec.json.decode(body) for body in bodies(count, seed)]
    return [{"id": one["id"], "a": one["x"][0], "b": one["x"][1]} for one in asked]


def answers_of(model: KafkaModelUnderTest, client: Client, count: int) -> Sequence[dict[str, Any]]:
    """Return the first answers, once there are so many."""
    return [client.answer(one.value) for one in model.wait_for_answers(count)]
