"""`python -m tests.benchmarks.kafka_echo`: a transactional echo that decides nothing, as a process of its own.

For each record of partition 0 it writes one with its key and of an answer's size, in transactions of what one fetch
brings (at most 16,384 records), with the offset in the transaction, by a client that is set up as the daemon's own.
"""

import argparse
import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from connectors.kafka.client import make_producer
from connectors.kafka.settings import KafkaSettings

_ROWS: Final = 16_384
_SECONDS: Final = 30.0
_ANSWER: Final = b'{"id":"q12345","label":0   ,"model":"box","round":123456,"phase":1}'
_HEADERS: Final[list[tuple[str, str | bytes | None]]] = [("content-type", b"application/json")]
"""What a daemon would write: only the deciding is missing."""


async def _send(producer: AIOKafkaProducer, topic: str, records: Sequence[Any]) -> None:
    for record in records:
        await producer.send(topic, _ANSWER, key=record.key, partition=0, headers=_HEADERS)


async def _send_batches(producer: AIOKafkaProducer, topic: str, records: Sequence[Any]) -> None:
    builder = producer.create_batch()
    for record in records:
        if builder.append(timestamp=None, key=record.key, value=_ANSWER, headers=_HEADERS) is None:
            await producer.send_batch(builder, topic, partition=0)
            builder = producer.create_batch()
            builder.append(timestamp=None, key=record.key, value=_ANSWER, headers=_HEADERS)
    await producer.send_batch(builder, topic, partition=0)


async def _aiokafka(settings: KafkaSettings, write: Any) -> None:
    part, producer = TopicPartition(settings.topic, 0), make_producer(settings, 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=list(settings.servers),
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_partition_fetch_bytes=settings.fetch_bytes,
        retry_backoff_ms=20,
    )
    await producer.start()
    await consumer.start()
    consumer.assign([part])
    consumer.seek(part, 0)
    while True:
        records = (await consumer.getmany(part, timeout_ms=200, max_records=_ROWS)).get(part)
        if records:
            async with producer.transaction():
                await write(producer, settings.answers, records)
                await producer.send_offsets_to_transaction({part: records[-1].offset + 1}, settings.group)


async def _many(settings: KafkaSettings) -> None:
    """Echo many topics, whose names are parted by commas: what all of them have goes into one transaction."""
    answers = dict(zip(settings.topic.split(","), settings.answers.split(","), strict=True))
    parts, producer = [TopicPartition(topic, 0) for topic in answers], make_producer(settings, 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=list(settings.servers),
        enable_auto_commit=False,
        isolation_level="read_committed",
        retry_backoff_ms=20,
    )
    await producer.start()
    await consumer.start()
    consumer.assign(parts)
    for part in parts:
        consumer.seek(part, 0)
    while True:
        found = await consumer.getmany(timeout_ms=200)
        if found:
            async with producer.transaction():
                for part, records in found.items():
                    await _send_batches(producer, answers[part.topic], records)
                offsets = {part: records[-1].offset + 1 for part, records in found.items()}
                await producer.send_offsets_to_transaction(offsets, settings.group)


def _confluent(settings: KafkaSettings) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": ",".join(settings.servers),
            "group.id": settings.group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": settings.fetch_bytes,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": ",".join(settings.servers),
            "transactional.id": f"{settings.group}-0",
            "batch.size": settings.batch_bytes,
        }
    )
    producer.init_transactions(_SECONDS)
    consumer.assign([ConfluentPartition(settings.topic, 0, 0)])
    while True:
        messages = consumer.consume(_ROWS, 0.005)
        if messages:
            producer.begin_transaction()
            for message in messages:
                while True:
                    try:
                        producer.produce(settings.answers, _ANSWER, message.key(), partition=0, headers=_HEADERS)
                        break
                    except BufferError:
                        producer.poll(0.001)
            end = ConfluentPartition(settings.topic, 0, (messages[-1].offset() or 0) + 1)
            producer.send_offsets_to_transaction([end], consumer.consumer_group_metadata(), _SECONDS)
            producer.commit_transaction(_SECONDS)


ECHOES: Final[dict[str, Callable[[KafkaSettings], object]]] = {
    "send": lambda settings: asyncio.run(_aiokafka(settings, _send)),
    "batches": lambda settings: asyncio.run(_aiokafka(settings, _send_batches)),
    "many": lambda settings: asyncio.run(_many(settings)),
    "confluent": _confluent,
}
"""Echo until killed, by kind: `send()` for each record, batch builders, these of many topics, confluent-kafka's plain
loop.
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.kafka_echo", description=__doc__)
    parser.add_argument("kind", choices=ECHOES)
    for name in ("servers", "topic", "answers", "group"):
        parser.add_argument(name)
    chosen = parser.parse_args()
    settings = KafkaSettings(
        servers=(chosen.servers,), topic=chosen.topic, answers=chosen.answers, group=chosen.group, model="echo"
    )
    ECHOES[chosen.kind](settings)
