"""Questions over Kafka, and their answers: what any asker does."""

import asyncio
from dataclasses import replace
from typing import Final

from aiokafka import AIOKafkaProducer, TopicPartition

from connectors.asking import Answered, Failed
from connectors.base import JSON
from connectors.kafka.client import close_quietly, make_consumer, make_sender, start
from connectors.kafka.errors import translated
from connectors.kafka.internals import BatchConsumer, sends_for_ever
from connectors.kafka.reply_headers import REPLY_TOPIC
from connectors.kafka.settings import KafkaSettings
from connectors.retry import retry
from oracle.errors import BusError, InputError, PerpetuaError, RefusedError

__all__ = ["KafkaAsker"]

_CORRELATION: Final = "correlation-id"
_POLL_MS: Final = 500
_BATCH_BYTES: Final = 16_384
"""As other clients have it: where a topic takes no batch of many small questions, each of them would be refused."""


class KafkaAsker:
    """See `Asker`. An idempotent producer writes, and all partitions of the replies are read, without a group.

    Args:
        replies: The topic that the answers are to go to; where the daemon does not allow it, they go to its own.
        partition: Of the questions; None for any.
    """

    def __init__(self, settings: KafkaSettings, replies: str, partition: int | None = None) -> None:
        self._settings = replace(settings, answers=replies, batch_bytes=_BATCH_BYTES)
        self._partition = partition
        self._producer: AIOKafkaProducer | None = None
        self._consumer: BatchConsumer | None = None
        self._reading: asyncio.Task[None] | None = None
        self._renewing = asyncio.Lock()

    async def open(self, answered: Answered, failed: Failed) -> None:
        """See `Asker.open`."""
        settings = self._settings
        self._producer = await self._started()
        asked = await self._partitions(self._producer, settings.topic)
        if self._partition is not None and self._partition not in asked:
            raise InputError("partition", self._partition, f"must be below {len(asked)}, those of {settings.topic}")
        parts = [
            TopicPartition(settings.answers, one) for one in await self._partitions(self._producer, settings.answers)
        ]
        self._consumer = make_consumer(settings)
        what = f"topic {settings.answers}"
        await start(self._consumer, settings, what)
        with translated(what):
            self._consumer.assign(parts)
            for part, end in (await self._consumer.end_offsets(parts)).items():  # what comes from here on
                self._consumer.seek(part, end)
        self._reading = asyncio.create_task(self._read(self._consumer, answered, failed))

    async def send(self, correlation: bytes, body: bytes) -> bool:
        """See `Asker.send`. A batch that may have been written is sent again as the same, which the broker knows."""
        topic, replies = self._settings.topic, self._settings.answers.encode()
        headers = [("content-type", JSON.encode()), (_CORRELATION, correlation), (REPLY_TOPIC, replies)]

        async def put() -> tuple[AIOKafkaProducer, asyncio.Future[object]]:
            """Put it into the producer's next batch; where that fails, it is in none."""
            producer = self._producer
            if producer is None:
                raise RefusedError("the client is closed")
            with translated(f"topic {topic}"):
                return producer, await producer.send(topic, body, partition=self._partition, headers=headers)

        producer, written = await retry(put, BusError)
        try:
            with translated(f"topic {topic}"):
                await written
        except BusError:
            await self._renew(producer)
            return False
        except PerpetuaError:  # the broker has not taken it
            await self._renew(producer)
            raise
        return True

    async def close(self) -> None:
        """See `Asker.close`."""
        reading, producer, consumer = self._reading, self._producer, self._consumer
        self._reading = self._producer = self._consumer = None
        if reading is not None:
            reading.cancel()
            await asyncio.wait({reading})
        for client in (producer, consumer):
            if client is not None:
                await close_quietly(client)

    async def _started(self) -> AIOKafkaProducer:
        producer = sends_for_ever(make_sender(self._settings))
        try:
            await start(producer, self._settings, f"topic {self._settings.topic}")
        except BaseException:
            await close_quietly(producer)
            raise
        return producer

    async def _partitions(self, producer: AIOKafkaProducer, topic: str) -> list[int]:
        with translated(f"topic {topic}"):
            return sorted(await producer.partitions_for(topic))

    async def _renew(self, producer: AIOKafkaProducer) -> None:
        """Go on with a producer of another id: where a batch was not written, its successors' numbers leave a gap."""
        async with self._renewing:
            if self._producer is producer:
                self._producer = await retry(self._started, BusError)
                await close_quietly(producer)

    async def _read(self, consumer: BatchConsumer, answered: Answered, failed: Failed) -> None:
        try:
            with translated(f"topic {self._settings.answers}"):
                while True:
                    for batches in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
                        for record in (record for batch in batches for record in batch.records):
                            correlation = dict(record.headers).get(_CORRELATION)
                            if correlation is not None:
                                answered(correlation, record.value or b"")
        except PerpetuaError as exc:
            failed(exc)
        except Exception as exc:  # noqa: BLE001 -- the client's; an asker that is dead in silence waits for ever
            failed(BusError(f"topic {self._settings.answers}: the client failed: {type(exc).__name__}"))
