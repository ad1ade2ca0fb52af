"""Avro and Protobuf with a Schema Registry, written and read by Confluent's own serializers over a real broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from oracle.codec.registered.avro_schemas import avro_query
from tests.support.kafka import KafkaModelUnderTest
from tests.support.registry import RegistryUnderTest
from tests.support.shards import bodies


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryUnderTest]:
    """A registry for the tests of this file."""
    with RegistryUnderTest(tmp_path_factory.mktemp("registry")) as running:
        yield running


def _config(model: KafkaModelUnderTest, registry: RegistryUnderTest, form: str, more: str = "") -> Path:
    table = f'[kafka.registry]\nurl = "{registry.url}"\nrequest_seconds = 2\n{more}'
    return model.config(source=f'session_seconds = 2\nformat = "{form}"', extra=table)


def _rows(count: int) -> list[dict[str, Any]]:
    return [{"id": f"q{number}", "a": number / 8, "b": -number / 4} for number in range(count)]


class _Avro:
    """What a client does that speaks Avro."""

    def __init__(self, model: KafkaModelUnderTest, registry: RegistryUnderTest, schema: Any = None) -> None:
        import json

        client = SchemaRegistryClient({"url": registry.url})
        self._write = AvroSerializer(client, json.dumps(schema or avro_query(model.plan)))
        self._read = AvroDeserializer(client)
        self._asked = SerializationContext(model.queries, MessageField.VALUE)
        self._answered = SerializationContext(model.answers, MessageField.VALUE)

    def body(self, row: dict[str, Any]) -> bytes:
        written = self._write(row, self._asked)
        assert written is not None
        return written

    def answer(self, body: bytes) -> Any:
        return self._read(body, self._answered)


def test_confluent_clients_ask_and_are_answered_in_avro(
    model: KafkaModelUnderTest, registry: RegistryUnderTest
) -> None:
    """Queries without a content type are Avro; so are their answers, whose schema is under the topic's subject."""
    client = _Avro(model, registry)
    model.serve(_config(model, registry, "avro"))
    rows = _rows(40)
    model.ask([client.body(row) for row in rows])
    answers = [client.answer(answer.value) for answer in model.wait_for_answers(40)]
    print(answers[:2], model.read()[0].headers)
    print(model.read()[0].value)
    print(registry.ask("/subjects"))
    assert [answer["id"] for answer in answers] == [row["id"] for row in rows]
