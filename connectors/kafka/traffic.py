"""Plain writing and reading of a topic, for demonstrations and replays; no group, no transaction of ours."""

from collections.abc import AsyncIterator, Iterable, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition

from connectors.kafka.client import close_quietly, make_consumer, make_sender
from connectors.kafka.errors import translated
from connectors.kafka.settings import KafkaSettings

__all__ = ["committed_values", "send"]

_ROWS = 16_384


async def send(settings: KafkaSettings, values: Iterable[bytes], partition: int = 0) -> None:
    """Write values to one partition of the query topic, in order, and wait until the brokers have them.

    Raises:
        BusError: The brokers do not answer.
        RefusedError: They do not let us.
    """
    producer = make_sender(settings)
    try:
        with translated(f"topic {settings.topic}"):
            await producer.start()
            sent = []
            batch = producer.create_batch()
            for value in values:
                if batch.append(timestamp=None, key=None, value=value) is None:
                    sent.append(await producer.send_batch(batch, settings.topic, partition=partition))
                    batch = producer.create_batch()
                    batch.append(timestamp=None, key=None, value=value)
            sent.append(await producer.send_batch(batch, settings.topic, partition=partition))
            for future in sent:
                await future
    finally:
        await close_quietly(producer.stop())


async def committed_values(
    settings: KafkaSettings, topic: str, partition: int = 0, *, seconds: float
) -> AsyncIterator[Sequence[bytes]]:
    """Yield the committed values of a partition from its beginning, some at a time; end when none came for so long."""
    consumer: AIOKafkaConsumer = make_consumer(settings)
    part = TopicPartition(topic, partition)
    try:
        with translated(f"topic {topic}"):
            await consumer.start()
            consumer.assign([part])
            consumer.seek(part, (await consumer.beginning_offsets([part]))[part])
        while True:
            with translated(f"topic {topic}"):
                found = await consumer.getmany(part, timeout_ms=int(seconds * 1000), max_records=_ROWS)
            if not found:
                return
            yield [record.value or b"" for record in found[part]]
    finally:
        await close_quietly(consumer.stop())
