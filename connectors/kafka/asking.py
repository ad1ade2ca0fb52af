"""One query over Kafka, and its answer: what any asker does."""

import secrets
from typing import Final

from aiokafka import TopicPartition

from connectors.base import JSON
from connectors.kafka.client import make_consumer, make_sender, started
from connectors.kafka.internals import BatchConsumer
from connectors.kafka.reply_headers import REPLY_TOPIC
from connectors.kafka.settings import KafkaSettings

__all__ = ["ask"]

_CORRELATION: Final = "correlation-id"
_POLL_MS: Final = 500


async def ask(settings: KafkaSettings, body: bytes, replies: str, partition: int | None = None) -> bytes:
    """Write one JSON query, to any partition or one, and return its committed answer; it waits without an end.

    Raises:
        BusError: The brokers do not answer.
        RefusedError: They do not let us.
    """
    correlation = secrets.token_hex(16).encode()
    headers = [("content-type", JSON.encode()), (_CORRELATION, correlation), (REPLY_TOPIC, replies.encode())]
    what = f"topics {settings.topic} and {replies}"
    async with started(make_sender(settings), settings, what) as producer:
        parts = [TopicPartition(replies, number) for number in sorted(await producer.partitions_for(replies))]
        async with started(make_consumer(settings), settings, what) as consumer:
            consumer.assign(parts)
            for part, end in (await consumer.end_offsets(parts)).items():  # what comes from here on
                consumer.seek(part, end)
            await producer.send_and_wait(settings.topic, body, partition=partition, headers=headers)
            return await _answer(consumer, correlation)


async def _answer(consumer: BatchConsumer, correlation: bytes) -> bytes:
    while True:
        for batches in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
            for record in (record for batch in batches for record in batch.records):
                if (_CORRELATION, correlation) in record.headers:
                    return record.value or b""
