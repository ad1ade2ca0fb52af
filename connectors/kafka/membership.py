"""Which partitions are ours: membership in the consumer group, and nothing else. Records are read by `KafkaSource`."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from connectors.kafka.client import make_member, started, still_answered
from connectors.kafka.group import foreign_members
from connectors.kafka.internals import connections, is_replaced, membership_of
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.topics import other_partitions
from connectors.retry import Backoff, retry
from oracle.errors import BusError, RefusedError

__all__ = ["KafkaMembership"]

_POLL_MS = 500
_LOOK_SECONDS = 15.0

Assigned = Callable[[frozenset[int]], None]
Revoked = Callable[[frozenset[int]], Awaitable[None]]


class KafkaMembership:
    """Takes part in the group until it is stopped.

    Formal guarantees:
        * `revoked` was awaited before the group gives the partitions to somebody else, unless it took longer than
          `rebalance_seconds`, or the process was silent for longer than `session_seconds`. (Then the new owner's
          producer fences ours.)

    Args:
        assigned: Called with the partitions that are ours from now on; it must not wait.
        revoked: Awaited with the partitions that are ours no more.
        on_strangers: Told now and then who else is in the group, in words; None where nobody is.
        on_partitions: Told now and then how many partitions the topic has; shards beyond them wait until it grows.
    """

    def __init__(  # noqa: PLR0913, PLR0917 -- what it is told, and whom it tells
        self,
        settings: KafkaSettings,
        shards: int,
        assigned: Assigned,
        revoked: Revoked,
        on_strangers: Callable[[str | None], None] = lambda _text: None,
        on_partitions: Callable[[int], None] = lambda _count: None,
    ) -> None:
        self._on_partitions = on_partitions
        self._on_strangers = on_strangers
        self._settings = settings
        self._shards = shards
        self._assigned = assigned
        self._revoked = revoked
        self._ours: frozenset[int] = frozenset()

    async def run(self, on_trouble: Callable[[BusError], None]) -> None:
        """Be a member until cancelled; tell `on_trouble` of trouble with the brokers, and join again.

        Raises:
            RefusedError: The brokers do not let us, or the topic has more partitions than there are shards.
        """

        async def join() -> None:
            try:
                await self._join(on_trouble)
            except BusError as exc:
                on_trouble(exc)
                # Who joins again is somebody new, and is never told that what the old one had is not ours any more.
                await self._revoked(self._ours)
                raise

        await retry(join, BusError, backoff=Backoff(0.5, 2.0))

    async def _join(self, on_trouble: Callable[[BusError], None]) -> None:
        consumer = make_member(self._settings)
        listener = _Listener(consumer, self._assigned_of(consumer), self._revoked, self._settings.instance)
        async with started(consumer, self._settings, f"group {self._settings.group}"):
            consumer.subscribe([self._settings.topic], listener=listener)
            clock = asyncio.get_running_loop().time
            looked, answered = clock(), True
            while True:
                await self._poll(consumer, listener.replaced)
                self._check_partitions(consumer)
                if clock() - looked >= _LOOK_SECONDS:
                    before, answered = answered, await still_answered(consumer, self._settings)
                    if not answered:
                        on_trouble(BusError(f"group {self._settings.group}: no broker answers"))
                    elif not before:
                        self._assigned(self._ours)  # what is ours still is told again: we are counted in
                    if answered:
                        await self._look_for_strangers(consumer)
                    looked = clock()

    async def _look_for_strangers(self, consumer: AIOKafkaConsumer) -> None:
        with contextlib.suppress(KafkaError):  # the next look will tell
            self._on_strangers(await foreign_members(connections(consumer), self._settings))

    def _assigned_of(self, consumer: AIOKafkaConsumer) -> Assigned:
        """Return what is called at an assignment; one of partitions that we have no shard for is passed over."""

        def assigned(partitions: frozenset[int]) -> None:
            if self._partitions(consumer) <= self._shards:
                self._ours = partitions
                self._assigned(partitions)

        return assigned

    def _partitions(self, consumer: AIOKafkaConsumer) -> int:
        """Return how many partitions the topic has, by what we were told of it and by what we were given of it."""
        known = consumer.partitions_for_topic(self._settings.topic)
        if not known:
            return 0
        return max(len(known), *(part.partition + 1 for part in consumer.assignment()), 0)

    async def _poll(self, consumer: AIOKafkaConsumer, replaced: asyncio.Future[None]) -> None:
        """Show that we are alive, by a poll of partitions that are all paused.

        Within a rebalance the client's poll ends with the rebalance, which is never where our place is taken.
        """
        poll: asyncio.Future[Any] = asyncio.ensure_future(consumer.getmany(timeout_ms=_POLL_MS))
        try:
            await asyncio.wait([poll, replaced], return_when=asyncio.FIRST_COMPLETED)
            if not replaced.done():
                poll.result()
        finally:
            poll.cancel()
        if replaced.done():
            raise RefusedError(
                f"group {self._settings.group}: another process has joined as source.instance = "
                f"{self._settings.instance!r} and replaced this one; give each process an instance of its own, or none"
            )

    def _check_partitions(self, consumer: AIOKafkaConsumer) -> None:
        partitions = self._partitions(consumer)
        if partitions > self._shards:
            raise RefusedError(other_partitions(self._settings, partitions, self._shards))
        if partitions:
            self._on_partitions(partitions)


class _Listener(ConsumerRebalanceListener):
    """Passes on what the group says, but for a place that another process of our name has taken.

    The client would join again then, and take it back, and so would the other one, for ever.

    Attributes:
        replaced: Done where that is so.
    """

    def __init__(self, consumer: AIOKafkaConsumer, assigned: Assigned, revoked: Revoked, instance: str | None) -> None:
        self._consumer = consumer
        self._assigned = assigned
        self._revoked = revoked
        self._instance = instance
        self._membership: tuple[str, int] | None = None
        self.replaced: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        if self._instance and self._membership and await is_replaced(self._consumer, self._instance, self._membership):
            self.replaced.set_result(None)
            await asyncio.Event().wait()  # until the consumer is stopped
        await self._revoked(frozenset(part.partition for part in revoked))

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._membership = membership_of(self._consumer)
        self._consumer.pause(*assigned)
        self._assigned(frozenset(part.partition for part in assigned))
