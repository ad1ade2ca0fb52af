"""One producer commits for many partitions: whoever takes one of them over, no answer is lost or given twice."""

import asyncio
import contextlib
import itertools
import math
import random
from dataclasses import replace

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced
from aiokafka.producer.transaction_manager import TransactionState
from aiokafka.structs import OffsetAndMetadata

from connectors.base import Commit, Replies, Reply
from connectors.kafka import joint, writer
from connectors.kafka.client import close_quietly, make_producer, start
from connectors.kafka.marks import Claim
from connectors.kafka.offset_metadata import OffsetMetadata
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.sink import KafkaSink
from connectors.kafka.writer import Writer
from connectors.retry import retry
from oracle.errors import BusError, FencedError, StateError
from tests.connectors.kafka.writers import (
    POINTS,
    Halt,
    Process,
    answers,
    beside,
    in_all,
    marks,
    numbered,
    processes,
    settings_of,
)
from tests.support.waiting import TIMEOUT, until


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Partitions are given back, however long that takes: a busy machine may need more than a process waits for."""
    monkeypatch.setattr(writer, "_RELEASE_SECONDS", TIMEOUT)


@pytest.fixture
def settings(broker, topic, group):
    """Of a model with two partitions, and topics of its own."""
    return settings_of(broker, topic, group)


@pytest.fixture
def four(broker, topic, group):
    """Of a model with four partitions."""
    return settings_of(broker, topic, group, 4)


async def test_what_waits_is_committed_in_one_transaction(four, monkeypatch):
    """Behind each partition's first commit, which is its own; all of one producer, and all of it there."""
    ends = []
    end = AIOKafkaProducer.commit_transaction

    async def counted(producer):
        ends.append(producer)
        await end(producer)

    async with processes(four, 1) as (process,):
        await process.open(*range(4))
        await process.commit()
        monkeypatch.setattr(AIOKafkaProducer, "commit_transaction", counted)
        for _ in range(5):
            await process.commit()
        assert len(ends) <= 5 * 2
        assert set(ends) == {process.producer}
    for partition in range(4):
        assert await answers(four, partition) == in_all(partition, 6)
        *before, last = await marks(four, partition)
        assert len({tuple(mark["producer"]) for mark in before[1:]}) == 1
        assert OffsetMetadata.unpack(before[-1]["metadata"]).writer is not None
        assert OffsetMetadata.unpack(last["metadata"]).writer is None  # given back


async def test_who_has_more_when_a_commit_ends_has_a_part_in_the_next(four, monkeypatch):
    """So that partitions which came while others were committed do not take turns with them."""
    ends = []
    end = AIOKafkaProducer.commit_transaction

    async def counted(producer):
        ends.append(producer)
        await end(producer)

    async def commits(process, partition):
        for position in range(2, 12):
            await process.sinks[partition].commit(numbered(partition, position))

    async with processes(four, 1) as (process,):
        await process.open(*range(4))
        await process.commit()
        halt = Halt(process.producer, "send_offsets_to_transaction")
        monkeypatch.setattr(AIOKafkaProducer, "commit_transaction", counted)
        async with asyncio.TaskGroup() as group:
            for partition in (0, 1):
                group.create_task(commits(process, partition))
            await halt.reached.wait()
            for partition in (2, 3):
                group.create_task(commits(process, partition))
            await asyncio.sleep(0)
            halt.let_go.set()
    assert len(ends) < 15  # 21, where two and two take turns
    for partition in range(4):
        assert await answers(four, partition) == in_all(partition, 11)


@pytest.mark.parametrize("early", [0.0, math.inf], ids=["", "begun early"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_process_that_wakes_up_behind_a_takeover_commits_nothing_there(settings, point, early, monkeypatch):
    """Whatever it was about to do; its other partition, which nobody took, goes on by itself, each answer once."""
    for name, seconds in (("_QUICK_SECONDS", early), ("_UNUSED_SECONDS", math.inf), ("_UNUSED_SHARE", math.inf)):
        monkeypatch.setattr(joint, name, seconds)
    async with processes(settings) as (old, new):
        await old.open(0, 1)
        await old.commit()
        await old.commit()
        await old.commit()
        if early:
            await until(lambda: old.producer._txn_manager.state is TransactionState.IN_TRANSACTION)
        halt = Halt(old.producer, point)
        asleep = [asyncio.create_task(old.commit(partition)) for partition in (0, 1)]
        await halt.reached.wait()
        ((found),) = await new.open(0)
        assert found == (3, b"mark 3")
        halt.let_go.set()
        with pytest.raises(FencedError):
            await asleep[0]
        await asleep[1]
        await new.commit()
        await old.commit(1)
        with pytest.raises(FencedError):
            await old.commit(0)
        await new.commit()
    assert await answers(settings, 0) == in_all(0, 5)
    assert await answers(settings, 1) == in_all(1, 5)


@pytest.mark.parametrize("point", POINTS)
async def test_a_first_commit_that_comes_too_late_gives_the_writer_nothing(settings, point):
    """It would name one whom nobody has fenced; on a partition that has committed nothing, too."""
    async with processes(settings) as (old, new):
        assert await old.open(0) == [None]
        alone = old.sinks[0]._producer
        assert alone is not None
        halt = Halt(alone, point)
        asleep = asyncio.create_task(old.commit())
        await halt.reached.wait()
        assert await new.open(0) == [None]
        halt.let_go.set()
        with pytest.raises(BusError):
            await asleep
        await new.commit()
        await new.commit()
    assert await answers(settings, 0) == in_all(0, 2)


async def test_a_partition_that_is_handed_over_fences_nobody(settings):
    """Closed by its process, it is opened by another one, while all else of the first one goes on as before."""
    async with processes(settings) as (first, second):
        await first.open(0, 1)
        await first.commit()
        await first.commit()
        producer = first.producer
        await first.sinks.pop(0).close()
        assert await second.open(0) == [(2, b"mark 2")]
        await second.commit()
        await asyncio.gather(first.commit(1), second.commit(0))
        assert first.producer is producer
        assert not second.writer._fenced
    assert await answers(settings, 0) == in_all(0, 4)
    assert await answers(settings, 1) == in_all(1, 3)


async def test_a_partition_opened_again_by_its_process_fences_nobody(settings):
    """Also where the sink before was never closed, and had a commit under way: it counts, and is the last."""
    async with processes(settings, 1) as (process,):
        await process.open(0, 1)
        await process.commit()
        producer, older = process.producer, process.sinks[0]
        halt = Halt(producer, "commit_transaction")
        asleep = asyncio.create_task(process.commit(0))
        await halt.reached.wait()
        asleep.cancel()
        opening = asyncio.create_task(process.open(0))
        await asyncio.wait({opening}, timeout=0.5)
        assert not opening.done()
        halt.let_go.set()
        assert await opening == [(2, b"mark 2")]
        await process.commit()
        await process.commit()
        with pytest.raises(FencedError, match="opened anew meanwhile"):
            await older.commit(numbered(0, 5))
        assert process.producer is producer
    assert await answers(settings, 0) == in_all(0, 4)


async def test_of_two_openers_at_once_one_commits(settings):
    """However their requests come in between each other's."""
    for last in range(1, 6):
        async with processes(settings) as pair:
            await asyncio.gather(*(process.open(0) for process in pair), return_exceptions=True)
            opened = [process for process in pair if process.sinks]
            outcomes = await asyncio.gather(*(process.commit() for process in opened), return_exceptions=True)
            assert outcomes.count(None) == 1
            assert all(isinstance(outcome, BusError) for outcome in outcomes if outcome is not None)
        assert await answers(settings, 0) == in_all(0, last)


async def test_a_producer_of_a_version_before_writers_is_fenced_and_fences(settings):
    """It has the partition's own id and no writer: what it has open is undone; started later, it stops a commit."""
    older = make_producer(settings, 0)
    await start(older, settings, "the test")
    async with processes(settings, 1) as (process,):
        await older.begin_transaction()
        await (await older.send(settings.answers, b"never", partition=0))
        part = TopicPartition(settings.topic, 0)
        await older.send_offsets_to_transaction({part: OffsetAndMetadata(9, "perpetua1 -1 bWFyaw==")}, settings.group)
        assert await process.open(0) == [None]
        with pytest.raises(ProducerFenced):
            await older.commit_transaction()
        await close_quietly(older)
        newer = make_producer(settings, 0)
        await start(newer, settings, "the test")
        with pytest.raises(FencedError):
            await process.commit()
        await close_quietly(newer)
    assert await answers(settings, 0) == []


async def test_a_group_that_comes_to_be_shared_is_fenced_by_both_names(settings):
    """A model that moves into a configuration of many has another id there."""
    moved = replace(settings, shared=True)
    for old, new, last in ((settings, moved, 1), (moved, settings, 2)):
        first, second = Process(old), Process(new)
        await first.open(0)
        await second.open(0)
        with pytest.raises(FencedError):
            await first.commit()
        await second.commit()
        await first.close()
        await second.close()
        assert await answers(settings, 0) == in_all(0, last)


async def test_a_writer_is_found_by_its_mark_where_the_groups_offset_is_gone(settings, broker):
    """Anybody who may be in the group can take that away."""
    async with processes(settings) as (old, new):
        await old.open(0)
        await old.commit()
        await old.commit()
        (gone,) = broker.admin.delete_consumer_groups([settings.group]).values()
        await asyncio.to_thread(gone.result, 30)
        assert await new.open(0) == [(2, b"mark 2")]
        with pytest.raises(FencedError):
            await old.commit()
        await new.commit()
    assert await answers(settings, 0) == in_all(0, 3)


async def test_a_writer_is_found_by_the_groups_offset_where_no_marks_are_kept(settings):
    """A process that cannot read them, or keeps none, fences it all the same, and commits under the partition's id."""
    async with processes(settings, 1) as (old,):
        await old.open(0)
        await old.commit()
        await old.commit()
        without = Process(replace(settings, marks=None))
        assert await without.open(0) == [(2, b"mark 2")]
        with pytest.raises(FencedError):
            await old.commit()
        for _ in range(2):
            await without.commit()
        assert without.writer._joint is None
        await without.close()
    assert await answers(settings, 0) == in_all(0, 4)


async def test_an_operators_choice_fences_the_writer(settings):
    """As `perpetua offsets restore` sets it."""
    async with processes(settings, 1) as (old,):
        await old.open(0)
        await old.commit()
        await old.commit()
        sink = KafkaSink(settings, 0)
        await sink.put(Claim(1, OffsetMetadata(b"mark 1", -1).pack()))
        await sink.close()
        with pytest.raises(FencedError):
            await old.commit()
    assert await answers(settings, 0) == in_all(0, 2)
    assert (await marks(settings, 0))[-1]["position"] == 1


async def test_a_topic_that_is_gone_stops_its_own_model_only(four, topic, broker):
    """Three partitions of one model go on, at once from the second time on; the other one's says what is missing."""
    other = beside(four, topic)
    async with processes(replace(four, shared=True), 1) as (process,), contextlib.AsyncExitStack() as stack:
        broken = KafkaSink(other, 0, writer=process.writer)
        stack.push_async_callback(broken.close)
        await retry(broken.open, BusError, seconds=20.0)
        await broken.commit(numbered(9, 1))
        await process.open(0, 1, 2)
        await process.commit()
        await asyncio.gather(process.commit(), broken.commit(numbered(9, 2)))
        broker.delete_topic(other.answers)
        failing = asyncio.create_task(broken.commit(numbered(9, 3)))
        await process.commit()
        with pytest.raises(BusError, match=f"topic {other.answers}: does not exist"):
            await failing
        assert not process.writer.is_trusted(TopicPartition(other.topic, 0))
        assert process.writer.is_trusted(TopicPartition(four.topic, 0))
        await process.commit()  # each under its own id, then together again
        producer = process.producer
        for _ in range(3):
            with contextlib.suppress(BusError):
                await broken.open()
            await process.commit()
        assert process.producer is producer
        broker.create_topic(other.answers, 1)
    for partition in range(3):
        assert await answers(four, partition) == in_all(partition, 7)


@pytest.mark.parametrize(
    ("most", "noted"),
    [(500, False), (500, True), (70, False)],
    ids=["the message", "the message, which is noted", "the marker of the transaction's end too"],
)
async def test_a_message_that_the_broker_refuses_is_its_own_partitions_trouble(four, topic, broker, most, noted):
    """The transaction is undone for all; all others commit what they had in it, once: also where it never ends."""
    dead = topic(word="dead") if noted else None
    other, told = replace(beside(four, topic), dead_letter=dead), _Observer()
    async with processes(replace(four, shared=True), 1) as (process,), contextlib.AsyncExitStack() as stack:
        picky = KafkaSink(other, 0, observer=told, writer=process.writer)
        stack.push_async_callback(picky.close)
        await retry(picky.open, BusError, seconds=20.0)
        await picky.commit(numbered(9, 1))
        await process.open(0, 1)
        await process.commit()
        producer = process.producer
        broker.configure_topic(other.answers, {"max.message.bytes": str(most)})
        for position in itertools.count(2):  # the broker's log goes by its topic's settings a little later
            large = Commit(Replies.of([Reply(bytes(1000))]), [], position, b"mark %d" % position)
            await asyncio.gather(picky.commit(large), process.commit())
            if told.count:
                break
        await process.commit()
        assert process.producer is not producer
    for partition in range(2):
        assert await answers(four, partition) == in_all(partition, process.reached[partition])
    if noted:
        (note,) = await answers(replace(four, answers=dead), 0)
        assert b"undelivered" in note


class _Observer:
    """Counts answers that were given up."""

    def __init__(self):
        self.count = 0

    def disturbed(self, text):
        raise AssertionError(text)

    unmarked = disturbed

    def withheld(self, text):
        assert "max.message.bytes" in text

    def undelivered(self, count):
        self.count += count


async def test_a_transaction_takes_no_more_than_brokers_do(four, monkeypatch):
    """What does not fit into one waits for the next; nothing is left out, or waits for ever."""
    monkeypatch.setattr(joint, "_MOST_BYTES", 150)
    async with processes(four, 1) as (process,):
        await process.open(*range(4))
        for _ in range(4):
            await process.commit()
    for partition in range(4):
        assert await answers(four, partition) == in_all(partition, 4)


async def test_a_partition_that_spoils_commits_stays_alone_for_longer_each_time():
    """A minute, two, up to an hour; others are not touched."""
    nowhere = KafkaSettings(servers=("nowhere:9092",), topic="q", answers="a", group="g", model="m")
    writer, one, other = Writer(nowhere), TopicPartition("q", 0), TopicPartition("q", 1)
    assert writer.is_trusted(one)
    for seconds in (60, 120, 240, 480, 960, 1920, 3600, 3600):
        writer.doubt(one)
        assert writer._alone[one][1] == seconds
    assert not writer.is_trusted(one)
    assert writer.is_trusted(other)


class _Sleepy:
    """Processes that sleep at any point, open what others have, are forgotten without an end, and commit on."""

    def __init__(self, settings, seed):
        self.settings = settings
        self.random = random.Random(seed)  # noqa: S311 -- the seed is the test's
        self.committed = 0
        self.made: list[Process] = []

    def new(self):
        """Return a process whose producers sleep now and then, wherever they are."""
        process = Process(self.settings)
        self.made.append(process)
        return process

    def drowse(self, producer):
        for point in POINTS:
            real = getattr(producer, point)

            async def slow(*arguments, real=real, **named):
                if self.random.random() < 0.04:
                    await asyncio.sleep(self.random.random() * 2)
                return await real(*arguments, **named)

            setattr(producer, point, slow)

    async def live(self, commits):
        """Take partitions, commit to them, lose them, until there are so many commits of all."""
        process = self.new()
        while self.committed < commits:
            choice = self.random.random()
            if choice < 0.15:
                with contextlib.suppress(BusError, StateError):
                    await process.open(self.random.randrange(2))
            elif choice < 0.2 and process.sinks:
                await process.sinks.pop(self.random.choice(list(process.sinks))).close()
            elif choice < 0.23:
                process = self.new()  # the old one is a zombie that may still have something under way
            elif process.sinks:
                partition = self.random.choice(list(process.sinks))
                try:
                    await process.commit(partition)
                    self.committed += 1
                except BusError:
                    process.sinks.pop(partition, None)
            await asyncio.sleep(0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
async def test_whoever_sleeps_wherever_each_answer_is_there_once(settings, seed, monkeypatch):
    """Three lives at once over two partitions: the answers are numbered without a gap, and none comes twice."""
    monkeypatch.setattr(joint, "_QUICK_SECONDS", math.inf)  # all but the first are begun early, and may sleep then
    quick = replace(settings, request_seconds=10.0, transaction_seconds=10.0)
    sleepy = _Sleepy(quick, seed)
    begun = AIOKafkaProducer.start

    async def started(producer):
        await begun(producer)
        if producer._txn_manager is not None:
            sleepy.drowse(producer)

    monkeypatch.setattr(AIOKafkaProducer, "start", started)
    async with asyncio.timeout(TIMEOUT):
        await asyncio.gather(*(sleepy.live(40) for _ in range(3)))
    monkeypatch.undo()
    await asyncio.gather(*(process.close() for process in sleepy.made))
    last = Process(quick)
    reached = [0 if found is None else found.position for found in await last.open(0, 1)]
    await last.close()
    for partition in range(2):
        assert await answers(settings, partition) == in_all(partition, reached[partition])
    assert sum(reached) >= sleepy.committed
