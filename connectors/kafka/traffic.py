"""Plain writing and reading of a topic, for demonstrations and replays; no group, no transaction of ours."""

import hashlib
from collections.abc import AsyncIterator, Iterable, Sequence

from aiokafka import TopicPartition

from connectors.base import JSON
from connectors.kafka.client import make_consumer, make_sender, started
from connectors.kafka.settings import KafkaSettings

__all__ = ["committed_values", "first_and_last", "send", "send_event"]

_BATCHES = 1024


async def send(settings: KafkaSettings, values: Iterable[bytes], partition: int = 0) -> None:
    """Write values to one partition of the query topic, in order, and wait until the brokers have them.

    Raises:
        BusError: The brokers do not answer.
        RefusedError: They do not let us.
    """
    what = f"topic {settings.topic}"
    async with started(make_sender(settings), settings, what) as producer:
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


async def committed_values(
    settings: KafkaSettings, topic: str, partition: int = 0, *, seconds: float
) -> AsyncIterator[Sequence[bytes]]:
    """Yield the committed values of a partition from its beginning, some at a time; end when none came for so long.

    Raises:
        BusError: The brokers do not answer.
        RefusedError: They do not let us.
    """
    what = f"topic {topic}"
    part = TopicPartition(topic, partition)
    async with started(make_consumer(settings), settings, what) as consumer:
        consumer.assign([part])
        begin = (await consumer.beginning_offsets([part]))[part]
        consumer.seek(part, begin)
        while found := await consumer.getmany(part, timeout_ms=int(seconds * 1000), max_records=_BATCHES):
            records = (record for batch in found[part] for record in batch.records)
            yield [record.value or b"" for record in records if record.offset >= begin]


async def first_and_last(settings: KafkaSettings, partition: int) -> tuple[int, int]:
    """Return the offsets of the query topic's first record and behind its last committed one.

    Raises:
        BusError: The brokers do not answer.
    """
    what = f"topic {settings.topic}, partition {partition}"
    part = TopicPartition(settings.topic, partition)
    async with started(make_consumer(settings), settings, what) as consumer:
        first = await consumer.beginning_offsets([part])
        last = await consumer.end_offsets([part])
    return first[part], last[part]


async def send_event(settings: KafkaSettings, partition: int, event: bytes) -> None:
    """Put one ledger event on the ledger topic, outside of any shard's transactions.

    Raises:
        BusError: The brokers do not answer.
    """
    if settings.ledger is None:
        return
    key = f"{settings.topic}/{partition}/{hashlib.sha256(event).hexdigest()[:32]}".encode()
    about = [("content-type", JSON.encode()), ("model", settings.model.encode()), ("partition", b"%d" % partition)]
    what = f"topic {settings.ledger}"
    async with started(make_sender(settings), settings, what) as producer:
        await producer.send_and_wait(settings.ledger, event, key=key, headers=about)
