"""Which partitions are ours: membership in the consumer group, and nothing else. Records are read by `KafkaSource`."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from connectors.kafka.client import close_quietly, make_member
from connectors.kafka.errors import translated
from connectors.kafka.settings import KafkaSettings
from oracle.errors import BusError

__all__ = ["KafkaMembership"]

_POLL_MS = 500
_RETRY_SECONDS = 1.0

Assigned = Callable[[frozenset[int]], None]
Revoked = Callable[[frozenset[int]], Awaitable[None]]


class KafkaMembership:
    """Takes part in the group until it is stopped.

    Formal guarantees:
        * `revoked` was awaited before the group gives the partitions to somebody else, unless it took longer than
          `rebalance_seconds`, or the process was silent for longer than `session_seconds`. (Then the new owner's
          producer fences ours.)

    Args:
        settings: The cluster, the topic and the group.
        assigned: Called with the partitions that are ours from now on; it must not wait.
        revoked: Awaited with the partitions that are ours no more.
    """

    def __init__(self, settings: KafkaSettings, assigned: Assigned, revoked: Revoked) -> None:
        self._settings = settings
        self._assigned = assigned
        self._revoked = revoked

    async def run(self, on_trouble: Callable[[BusError], None]) -> None:
        """Be a member until cancelled; join again after trouble with the brokers.

        Args:
            on_trouble: Told of what will be tried again.

        Raises:
            RefusedError: The brokers do not let us.
        """
        while True:
            try:
                await self._join()
            except BusError as exc:
                on_trouble(exc)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _join(self) -> None:
        consumer = make_member(self._settings)
        try:
            with translated(f"group {self._settings.group}"):
                await consumer.start()
                consumer.subscribe([self._settings.topic], listener=_Listener(consumer, self._assigned, self._revoked))
                while True:
                    await consumer.getmany(timeout_ms=_POLL_MS)  # all are paused: it only shows that we are alive
        finally:
            await close_quietly(consumer.stop())


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the client has no types
    def __init__(self, consumer: AIOKafkaConsumer, assigned: Assigned, revoked: Revoked) -> None:
        self._consumer = consumer
        self._assigned = assigned
        self._revoked = revoked

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        await self._revoked(frozenset(part.partition for part in revoked))

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._consumer.pause(*assigned)
        self._assigned(frozenset(part.partition for part in assigned))
