"""Which partitions are ours: membership in the consumer group, and nothing else. Records are read by `KafkaSource`."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from connectors.kafka.client import admin, make_member, started, still_answered
from connectors.kafka.group import foreign_members, remove
from connectors.kafka.internals import connections, is_replaced, membership_of
from connectors.kafka.metadata import READ, look
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.topics import other_partitions
from connectors.retry import Backoff, retry
from oracle.errors import BusError, RefusedError

__all__ = ["KafkaMembership", "Names"]

_POLL_MS = 500
_LOOK_SECONDS = 15.0

Assigned = Callable[[frozenset[int]], None]
Revoked = Callable[[frozenset[int]], Awaitable[None]]
Counted = Callable[[int], None]


class Names(Protocol):
    """What processes are called in the group, kept beyond their ends."""

    def ended(self) -> list[str]:
        """Return the members whose processes have ended; called in a thread."""

    def forget(self) -> None:
        """Forget those that were returned last, which the group has no more; called in a thread."""

    def keep(self, member: str) -> None:
        """Keep what this process is called from now on; called in a thread."""


def _to_nobody(_partitions: frozenset[int]) -> None:
    """Take partitions for a topic that nobody serves now."""


async def _of_nobody(_partitions: frozenset[int]) -> None:
    """Give up partitions of a topic that nobody serves now."""


def _to_no_counter(_partitions: int) -> None:
    """Count the partitions of a topic that nobody serves now."""


@dataclass(slots=True)
class _Topic:
    """A topic that we are in the group for.

    Attributes:
        shards: How many partitions it may have.
        ended: Fails where it has more; None while nobody serves it.
        ours: Its partitions that the group has given us.
        given: Whether it has said so, if only that there are none, since we joined it.
    """

    settings: KafkaSettings
    shards: int
    assigned: Assigned = _to_nobody
    revoked: Revoked = _of_nobody
    counted: Counted = _to_no_counter
    ended: asyncio.Future[None] | None = None
    ours: frozenset[int] = field(default_factory=frozenset)
    given: bool = False

    def give(self, partitions: frozenset[int]) -> None:
        """Take note of what is ours, and pass it on."""
        self.ours, self.given = partitions, True
        self.assigned(partitions)

    async def take(self, partitions: frozenset[int]) -> None:
        """Take note of what is not ours any more, and pass it on."""
        self.ours -= partitions
        await self.revoked(partitions)

    def fail(self, text: str) -> None:
        """End the service of it, unless that has ended."""
        if self.ended is not None and not self.ended.done():
            self.ended.set_exception(RefusedError(text))


class KafkaMembership:
    """Takes part in the group, for the topics of one model or of many, until it is stopped.

    A topic that was held stays subscribed to, so that a model that fails, and is tried again, costs no rebalance.

    Formal guarantees:
        * `revoked` was awaited before the group gives the partitions to somebody else, unless it took longer than
          `rebalance_seconds`, or the process was silent for longer than `session_seconds`, or the rebalance is our own:
          for one more topic, during which all go on. (Then the new owner's producer fences ours.)

    Args:
        settings: Of the cluster and the group; the topic is any of them.
        awaited: Topics that are held, or passed over, before the group is joined: all at once is one rebalance.
        on_strangers: Told now and then who else is in the group, in words; None where nobody is.
        names: By which the group is told of members that were killed, so that it does not wait for their sessions;
            None where it does. A member that is taken for dead and is not joins again, and what it commits is fenced
            as in any other rebalance.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        awaited: Iterable[str] = (),
        on_strangers: Callable[[str | None], None] = lambda _text: None,
        names: Names | None = None,
    ) -> None:
        self._on_strangers = on_strangers
        self._names = names
        self._name = self._kept = ""
        self._keeping = False
        self._settings = settings
        self._topics: dict[str, _Topic] = {}
        self._awaited = set(awaited)
        self._ready = asyncio.Event()

    async def hold(
        self,
        settings: KafkaSettings,
        shards: int,
        assigned: Assigned,
        revoked: Revoked,
        counted: Counted = _to_no_counter,
    ) -> None:
        """Have the partitions of a topic given to us too, until cancelled.

        Args:
            settings: Those of its model.
            shards: How many partitions it may have; shards beyond those that it has wait until it grows.
            assigned: Called with the partitions that are ours from now on; it must not wait.
            revoked: Awaited with the partitions that are ours no more.
            counted: Called now and then with how many partitions it has.

        Raises:
            RefusedError: It has more partitions.
        """
        held = self._topics.setdefault(settings.topic, _Topic(settings, shards))
        held.settings, held.shards, held.assigned, held.revoked = settings, shards, assigned, revoked
        held.counted = counted
        held.ended = asyncio.get_running_loop().create_future()
        self.pass_over(settings.topic)
        if held.given:
            held.assigned(held.ours)
        try:
            await held.ended
        finally:
            held.assigned, held.revoked, held.counted, held.ended = _to_nobody, _of_nobody, _to_no_counter, None

    def pass_over(self, topic: str) -> None:
        """Join the group without waiting for a topic any longer."""
        self._awaited.discard(topic)
        if self._topics and not self._awaited:
            self._ready.set()

    async def run(self, on_trouble: Callable[[BusError], None]) -> None:
        """Be a member until cancelled; tell `on_trouble` of trouble with the brokers, and join again.

        A topic that we may not read any more ends its own service only: the group is joined again without it.

        Raises:
            RefusedError: The brokers do not let us.
        """

        async def join() -> None:
            try:
                await self._join(on_trouble)
            except BusError as exc:
                on_trouble(exc)
                await self._take_all()
                raise

        while True:
            await self._ready.wait()
            try:
                await retry(join, BusError, backoff=Backoff(0.5, 2.0))
            except RefusedError as exc:
                if not await self._denied(str(exc)):
                    raise
                await self._take_all()

    async def _take_all(self) -> None:
        """Say that nothing is ours.

        Who joins again is somebody new, and is never told that what the old one had is not ours any more.
        """
        for topic in self._topics.values():
            topic.given = False
        await self._take({name: topic.ours for name, topic in self._topics.items()})

    async def _denied(self, text: str) -> bool:
        """Give up the topics that we may not read; return False if there are none, so that it is something else."""
        try:
            async with admin(self._settings, f"group {self._settings.group}") as client:
                found = await look(connections(client), sorted(self._topics))
        except (BusError, RefusedError):
            return False
        denied = [name for name in self._topics if found[name].there and not found[name].allows(READ)]
        for name in denied:
            self._topics.pop(name).fail(text)
        if not self._topics:
            self._ready.clear()
        return bool(denied)

    async def _join(self, on_trouble: Callable[[BusError], None]) -> None:
        consumer = make_member(self._settings)
        listener = _Listener(consumer, self._give, self._take, self._settings.instance)
        async with started(consumer, self._settings, f"group {self._settings.group}"):
            clock = asyncio.get_running_loop().time
            looked, answered = clock(), True
            await self._remove_ended(consumer)
            subscribed: list[str] = []
            while True:
                if subscribed != sorted(self._topics):
                    listener.ours = bool(subscribed)
                    subscribed = sorted(self._topics)
                    consumer.subscribe(subscribed, listener=listener)
                await self._poll(consumer, listener.replaced)
                self._check_partitions(consumer)
                if clock() - looked >= _LOOK_SECONDS:
                    before, answered = answered, await still_answered(consumer, self._settings)
                    if not answered:
                        on_trouble(BusError(f"group {self._settings.group}: no broker answers"))
                    elif not before:
                        for topic in self._topics.values():
                            topic.assigned(topic.ours)  # what is ours still is told again: we are counted in
                    if answered:
                        await self._look_for_strangers(consumer)
                    looked = clock()

    async def _remove_ended(self, consumer: AIOKafkaConsumer) -> None:
        """Take out of the group whoever was killed; where that does not work soon, their sessions will end."""
        if self._names is None:
            return
        try:
            async with asyncio.timeout(self._settings.session_seconds / 2):
                ended = await asyncio.to_thread(self._names.ended)
                if ended:
                    await remove(connections(consumer), self._settings, ended)
                await asyncio.to_thread(self._names.forget)
        except Exception:  # noqa: BLE001 -- the group is joined all the same
            return

    async def _keep_name(self, names: Names) -> None:
        """Have the newest name kept, by one thread at a time: a disk that hangs takes no more of them."""
        if self._keeping:
            return
        self._keeping = True
        try:
            while self._kept != self._name:
                self._kept = self._name
                await asyncio.to_thread(names.keep, self._kept)
        except RuntimeError:  # no thread is to be had
            self._kept = ""
        finally:
            self._keeping = False

    async def _look_for_strangers(self, consumer: AIOKafkaConsumer) -> None:
        with contextlib.suppress(KafkaError):  # the next look will tell
            self._on_strangers(await foreign_members(connections(consumer), self._settings))

    def _give(self, consumer: AIOKafkaConsumer, parts: dict[str, frozenset[int]]) -> None:
        """Pass on what is ours, topic by topic; one with partitions that we have no shard for is passed over.

        What was ours, and was not taken before, as the rebalance was our own, is taken now.
        """
        if self._names is not None:
            self._name, _ = membership_of(consumer)
            _in_background(self._keep_name(self._names))
        for name, topic in self._topics.items():
            if self._partitions(consumer, name) > topic.shards:
                continue
            now = parts.get(name, frozenset())
            if topic.ours - now:
                _in_background(topic.take(topic.ours - now))
            topic.give(now)

    async def _take(self, parts: dict[str, frozenset[int]]) -> None:
        """Pass on what is not ours any more; all topics at once, and each takes as long as it takes."""
        taken = (self._topics[name].take(found) for name, found in parts.items() if name in self._topics)
        await asyncio.gather(*taken)

    @staticmethod
    def _partitions(consumer: AIOKafkaConsumer, topic: str) -> int:
        """Return how many partitions a topic has, by what we were told of it and by what we were given of it."""
        known = consumer.partitions_for_topic(topic)
        if not known:
            return 0
        return max(len(known), *(part.partition + 1 for part in consumer.assignment() if part.topic == topic), 0)

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
        for name, topic in self._topics.items():
            partitions = self._partitions(consumer, name)
            if partitions > topic.shards:
                topic.fail(other_partitions(topic.settings, partitions, topic.shards))
            elif partitions:
                topic.counted(partitions)


_background: Final[set["asyncio.Future[None]"]] = set()


def _in_background(work: Awaitable[None]) -> None:
    """Do something that the group need not wait for."""
    task = asyncio.ensure_future(work)
    _background.add(task)
    task.add_done_callback(_background.discard)


def _by_topic(parts: Collection[TopicPartition]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for part in parts:
        found[part.topic].add(part.partition)
    return {topic: frozenset(numbers) for topic, numbers in found.items()}


class _Listener(ConsumerRebalanceListener):
    """Passes on what the group says, but for a place that another process of our name has taken.

    The client would join again then, and take it back, and so would the other one, for ever.

    Attributes:
        ours: Whether the next rebalance is our own: for one more topic, so that nobody waits for what we have.
        replaced: Done where another process has taken our place.
    """

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        give: Callable[[AIOKafkaConsumer, dict[str, frozenset[int]]], None],
        take: Callable[[dict[str, frozenset[int]]], Awaitable[None]],
        instance: str | None,
    ) -> None:
        self._consumer = consumer
        self._give = give
        self._take = take
        self._instance = instance
        self._membership: tuple[str, int] | None = None
        self.ours = False
        self.replaced: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        if self._instance and self._membership and await is_replaced(self._consumer, self._instance, self._membership):
            self.replaced.set_result(None)
            await asyncio.Event().wait()  # until the consumer is stopped
        if not self.ours:
            await self._take(_by_topic(revoked))

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.ours = False
        self._membership = membership_of(self._consumer)
        self._consumer.pause(*assigned)
        self._give(self._consumer, _by_topic(assigned))
