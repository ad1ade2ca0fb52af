"""Many partitions read by one consumer: what one reader does, or meets, loses and repeats no other's record."""

import asyncio
import itertools
import math
from dataclasses import dataclass, field, replace

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import ConsumerStoppedError
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.kafka import internals
from connectors.kafka.consumers import SharedConsumer
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.source import KafkaSource
from oracle.errors import BusError, LogCutError, SourceError
from tests.support.waiting import TIMEOUT, until

_WAIT = 0.05
_PARTITIONS = 3


def settings_of(broker, topic, **more):
    """Return the settings of a model whose query topic this is."""
    return KafkaSettings(servers=(broker.servers,), topic=topic, answers="answers", group="g", model="m", **more)


class Asker:
    """Sends numbered records to partitions.

    Attributes:
        sent: By topic and partition, the values.
    """

    def __init__(self, broker):
        self._producer = Producer({"bootstrap.servers": broker.servers})
        self._numbers = itertools.count()
        self.sent = {}

    def send(self, topic, count=1, partition=0):
        """Send so many records, in one batch or a few, and wait until they are there."""
        self.put(topic, *(b"%d" % number for number in itertools.islice(self._numbers, count)), partition=partition)

    def put(self, topic, *values, partition=0):
        """Send these."""
        for value in values:
            self._producer.produce(topic, value, partition=partition)
        assert self._producer.flush(TIMEOUT) == 0
        self.sent[topic, partition] = [*self.sent.get((topic, partition), []), *values]


@dataclass
class Reader:
    """A partition's source, opened and closed at will, always where it was.

    Attributes:
        found: The bodies of all that it was given.
    """

    source: KafkaSource
    position: int = 0
    is_open: bool = False
    found: list[bytes | None] = field(default_factory=list)

    async def open(self):
        """Open it, again if it is open."""
        await self.source.open(self.position)
        self.is_open = True

    async def fetch(self, limit=100, wait=_WAIT):
        """Take what is there."""
        if self.is_open:
            deliveries = await self.source.fetch(limit, wait)
            self.found += deliveries.bodies
            self.position = deliveries.positions[-1] if deliveries.positions else self.position

    async def fetch_until(self, count):
        """Fetch until so much was found in all."""
        async with asyncio.timeout(TIMEOUT):
            while len(self.found) < count:
                await self.fetch()

    async def fetch_and_be_cancelled(self):
        """Wait for what may be there, and be cut off."""
        if self.is_open:
            task = asyncio.create_task(self.fetch(2, TIMEOUT))
            await asyncio.sleep(0.002)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self):
        """Close it."""
        self.is_open = False
        await self.source.close()


def readers_of(shared, model, partitions=_PARTITIONS):
    """Return a reader of each partition, all by one consumer."""
    return [Reader(KafkaSource(model, number, consumer=shared)) for number in range(partitions)]


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.integers(0, _PARTITIONS - 1)),
        st.tuples(st.just("close"), st.integers(0, _PARTITIONS - 1)),
        st.tuples(st.just("fetch"), st.integers(0, _PARTITIONS - 1), st.integers(1, 5)),
        st.tuples(st.just("send"), st.integers(0, _PARTITIONS - 1), st.integers(1, 4)),
        st.tuples(st.just("cancel"), st.integers(0, _PARTITIONS - 1)),
    ),
    max_size=12,
)


async def step(asker, topic, reader, kind, number, count=0):  # noqa: PLR0913, PLR0917 -- as they come
    """Do one thing with one partition."""
    match kind:
        case "open":
            await reader.open()
        case "close":
            await reader.close()
        case "fetch":
            await reader.fetch(count)
        case "cancel":
            await reader.fetch_and_be_cancelled()
        case "send":
            await asyncio.to_thread(asker.send, topic, count, number)


@pytest.mark.slow
def test_every_record_is_read_once_however_partitions_come_and_go(broker, topic):
    """Openings, fetches, closings and cancelled fetches in any order, some of them at the same time."""
    name = topic(_PARTITIONS)
    model, asker = settings_of(broker, name), Asker(broker)

    async def run(before, steps):
        shared = SharedConsumer(model)
        readers = readers_of(shared, model)
        for reader, position in zip(readers, before, strict=True):
            reader.position = position
        for _, together in itertools.groupby(enumerate(steps), lambda one: one[0] // _PARTITIONS):
            by_partition = {one[1]: one for _, one in together}  # the last word of each partition
            await asyncio.gather(*(step(asker, name, readers[one[1]], *one) for one in by_partition.values()))
        for number, reader in enumerate(readers):
            await reader.open()
            await reader.fetch_until(len(asker.sent.get((name, number), [])) - before[number])
        await asyncio.gather(*(reader.close() for reader in readers))
        return readers

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(_STEPS)
    def check(steps):
        before = [len(asker.sent.get((name, number), [])) for number in range(_PARTITIONS)]
        for number, reader in enumerate(asyncio.run(run(before, steps))):
            assert reader.found == asker.sent.get((name, number), [])[before[number] :]

    check()


async def test_partitions_that_are_opened_under_load_take_nothing_from_others(broker, topic):
    """Twenty are opened in bursts, some of them again and again, while all are sent records: each comes once."""
    name, count = topic(20), 20
    model, asker = settings_of(broker, name), Asker(broker)
    shared = SharedConsumer(model)
    readers, ended = readers_of(shared, model, count), asyncio.Event()

    async def load():
        for number in range(400):
            await asyncio.to_thread(asker.send, name, 3, number % count)
        ended.set()

    async def read(number, reader):
        await asyncio.sleep(number // 5 * 0.05)
        turn = 0
        while not ended.is_set() or len(reader.found) < len(asker.sent[name, number]):
            if turn % 7 == 0 and (number % 4 == 0 or not turn):
                await reader.open()
            await reader.fetch()
            turn += 1
        await reader.close()

    async with asyncio.timeout(TIMEOUT):
        await asyncio.gather(load(), *(read(*one) for one in enumerate(readers)))
    assert {number: reader.found for number, reader in enumerate(readers)} == {
        number: asker.sent[name, number] for number in range(count)
    }


async def test_a_topic_that_is_deleted_stops_its_own_reader_only(broker, topic):
    """While it is gone the other goes on; once it was made anew, its reader is told, in the words of any."""
    kept, lost = topic(word="kept"), topic(word="lost")
    model, asker = settings_of(broker, kept), Asker(broker)
    shared = SharedConsumer(model)
    (good,), (bad,) = readers_of(shared, model, 1), readers_of(shared, settings_of(broker, lost), 1)
    for name, reader in ((kept, good), (lost, bad)):
        asker.send(name, 5)
        await reader.open()
        await reader.fetch_until(5)
    broker.delete_topic(lost)
    for number in range(6, 10):
        asker.send(kept)
        await asyncio.gather(good.fetch_until(number), bad.fetch())
    broker.create_topic(lost)

    asker.send(lost)
    with pytest.raises(LogCutError, match=f"topic {lost}, partition 0: ends at offset .*, but was read up to 5"):
        await bad.fetch_until(math.inf)
    asker.send(kept, 3)
    await good.fetch_until(12)
    assert good.found == asker.sent[kept, 0]
    await asyncio.gather(good.close(), bad.close())


async def test_records_that_are_deleted_are_missed_by_their_reader_only(broker, topic):
    """Retention overtakes one of two."""
    name = topic(2)
    model, asker = settings_of(broker, name), Asker(broker)
    readers = readers_of(SharedConsumer(model), model, 2)
    for number, reader in enumerate(readers):
        asker.send(name, 5, number)
        await reader.open()
        await reader.fetch_until(5)
        await reader.close()
    await readers[0].open()
    await readers[1].open()
    (future,) = broker.admin.delete_records([Place(name, 1, 5)]).values()
    future.result()
    readers[1].source._consumer.seek(2)  # as if it were that far behind
    readers[1].source._next = 2
    with pytest.raises(SourceError, match=r"partition 1, offset 2: the next records were deleted \(retention\)"):
        await readers[1].fetch_until(math.inf)
    asker.send(name, 2)
    await readers[0].fetch_until(7)
    assert readers[0].found == asker.sent[name, 0]
    await asyncio.gather(*(reader.close() for reader in readers))


async def test_what_is_not_read_is_asked_for_once_and_holds_up_nobody(broker, topic, monkeypatch):
    """One reader takes nothing of what came: no further request names its partition, and the other's go on."""
    name = topic(2)
    model, asker = settings_of(broker, name), Asker(broker)
    idle, busy = readers_of(SharedConsumer(model), model, 2)
    await idle.open()
    await busy.open()
    asker.send(name, 5)
    consumer = idle.source._consumer
    await until(lambda: consumer.highwater)  # fewer, where the asker has sent them in several batches
    asked = []
    real = internals._Fetcher._proc_fetch_request

    async def noted(fetcher, assignment, node_id, request):
        asked.append({number for _, parts in request.topics for number, *_ in parts})
        return await real(fetcher, assignment, node_id, request)

    monkeypatch.setattr(internals._Fetcher, "_proc_fetch_request", noted)
    for count in range(1, 6):
        asker.send(name, partition=1)
        await busy.fetch_until(count)
    assert asked
    assert set().union(*asked) == {1}
    asker.send(name, 2)
    await idle.fetch_until(7)
    assert idle.found == asker.sent[name, 0]
    await asyncio.gather(idle.close(), busy.close())


@pytest.mark.parametrize(("partitions", "size", "is_awaited"), [(1, 0, True), (2, 40_000, True), (2, 60_000, False)])
async def test_no_more_is_asked_for_until_little_was_dealt_with(broker, topic, partitions, size, is_awaited):
    """What comes meanwhile stays with the broker. Where there is a backlog it is asked for at once."""
    name = topic(partitions)
    model, asker = replace(settings_of(broker, name), fetch_bytes=100_000), Asker(broker)
    waiting, dealt_with = asyncio.Event(), asyncio.Event()

    async def quiet():
        waiting.set()
        await dealt_with.wait()

    readers = readers_of(SharedConsumer(model, quiet), model, partitions)
    for reader in readers:
        await reader.open()
    await until(lambda: readers[0].source._consumer.highwater == 0)  # from now on all are asked for together
    asker.put(name, b"x" * size)
    await until(lambda: readers[0].source._consumer.highwater == 1)
    if is_awaited:
        await asyncio.wait_for(waiting.wait(), TIMEOUT)
    assert (await readers[0].source.fetch(10, TIMEOUT)).positions == [1]
    asker.put(name, b"y", partition=partitions - 1)
    fetching = asyncio.create_task(readers[-1].source.fetch(10, TIMEOUT))
    if is_awaited:
        await asyncio.sleep(0.5)
        assert not fetching.done()
        dealt_with.set()
    assert (await fetching).positions == [1 if partitions > 1 else 2]
    dealt_with.set()
    await asyncio.gather(*(reader.close() for reader in readers))


async def test_a_backlog_that_is_not_read_yet_counts_for_others(broker, topic):
    """Else one with little would keep one with much from being asked for again in time."""
    name = topic(2)
    model, asker, waited = replace(settings_of(broker, name), fetch_bytes=100_000), Asker(broker), asyncio.Event()

    async def quiet():
        waited.set()

    readers = readers_of(SharedConsumer(model, quiet), model, 2)
    for reader in readers:
        await reader.open()
    asker.put(name, b"x" * 60_000)
    await until(lambda: readers[0].source._consumer.highwater == 1)
    for position in (1, 2):
        asker.put(name, b"y", partition=1)
        assert (await readers[1].source.fetch(10, TIMEOUT)).positions == [position]
    assert not waited.is_set()
    assert (await readers[0].source.fetch(10, TIMEOUT)).positions == [1]
    asker.put(name, b"x")
    assert (await readers[0].source.fetch(10, TIMEOUT)).positions == [2]
    await asyncio.wait_for(waited.wait(), TIMEOUT)
    await asyncio.gather(*(reader.close() for reader in readers))


async def test_one_connection_serves_all_and_ends_with_the_last(broker, topic):
    """Whoever leaves takes none of it away from the others; the last one leaves nothing running."""
    name, count = topic(10), 10
    model, before = settings_of(broker, name), asyncio.all_tasks()
    shared = SharedConsumer(model)
    readers = readers_of(shared, model, count)
    await asyncio.gather(*(reader.open() for reader in readers))
    (consumer,) = {id(one.source._consumer._running): one.source._consumer._running for one in readers}.values()
    assert len(consumer.consumer._client._conns) == 1
    await asyncio.gather(*(reader.close() for reader in readers[1:]))
    Asker(broker).send(name, 2)
    await readers[0].fetch_until(2)
    await readers[0].close()
    assert shared._running is None
    await until(lambda: asyncio.all_tasks() == before)
    await readers[1].open()
    await readers[1].close()


async def test_a_second_reader_of_a_partition_takes_it_over(broker, topic):
    """The one before, cut off and not closed yet, gets no more, and cannot take it away by closing."""
    name = topic()
    model, asker = settings_of(broker, name), Asker(broker)
    shared = SharedConsumer(model)
    (former,), (later,) = readers_of(shared, model, 1), readers_of(shared, model, 1)
    asker.send(name, 3)
    await former.open()
    waiting = asyncio.create_task(former.fetch_until(math.inf))
    await until(lambda: len(former.found) == 3)
    await later.open()
    await later.fetch_until(3)
    with pytest.raises(BusError, match="ConsumerStopped"):
        await former.fetch()
    await former.close()
    asker.send(name, 1)
    await later.fetch_until(4)
    assert later.found == asker.sent[name, 0]
    await later.close()
    with pytest.raises((BusError, SourceError)):
        await waiting


async def test_a_consumer_that_has_died_is_replaced(broker, topic, monkeypatch):
    """A fault that nobody foresaw ends its work: every reader is told, and opens a new one."""
    name = topic(2)
    model, asker = settings_of(broker, name), Asker(broker)
    readers = readers_of(SharedConsumer(model), model, 2)
    await asyncio.gather(*(reader.open() for reader in readers))

    async def fail(*_):
        raise ValueError

    with monkeypatch.context() as patch:
        patch.setattr(internals._Fetcher, "_proc_fetch_request", fail)
        for reader in readers:
            with pytest.raises(BusError, match="ConsumerStopped"):
                await reader.fetch_until(1)
    for number, reader in enumerate(readers):
        await reader.open()
        asker.send(name, 2, number)
        await reader.fetch_until(2)
    assert [reader.found for reader in readers] == [asker.sent[name, number] for number in range(2)]
    await asyncio.gather(*(reader.close() for reader in readers))


async def test_a_partition_that_has_stopped_hands_out_nothing(broker, topic):
    """Neither before its start nor behind its end."""
    consumer = SharedConsumer(settings_of(broker, topic())).partition(TopicPartition("t", 0))
    assert (consumer.position, consumer.highwater) == (0, None)
    with pytest.raises(ConsumerStoppedError):
        consumer.seek(0)
    with pytest.raises(ConsumerStoppedError):
        await consumer.read(0.0)
    await consumer.stop()


async def test_whoever_opens_while_the_brokers_are_gone_is_told_and_the_rest_go_on_behind_it(own_broker):
    """The consumer that runs is not waited for; when they are back, whoever opens has a new one, the others the old."""
    name = own_broker.create_topic("queries", 2)
    model, asker = settings_of(own_broker, name, request_seconds=2.0), Asker(own_broker)
    first, second = readers_of(SharedConsumer(model), model, 2)
    await first.open()
    await asyncio.to_thread(own_broker.kill)
    with pytest.raises(BusError, match=r"no broker accepts the connection: .*; if they are up, check kafka.servers"):
        await second.open()
    await second.close()
    await asyncio.to_thread(own_broker.start)
    await second.open()
    for number, reader in enumerate((first, second)):
        await asyncio.to_thread(asker.send, name, 3, number)
        await reader.fetch_until(3)
    assert [first.found, second.found] == [asker.sent[name, number] for number in range(2)]
    await asyncio.gather(first.close(), second.close())
