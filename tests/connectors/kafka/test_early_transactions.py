"""Transactions that are begun before there is anything to commit: they are used, or ended, and hold nobody up."""

import asyncio
import itertools
import math
from dataclasses import replace

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced, TopicAuthorizationFailedError
from aiokafka.producer.transaction_manager import TransactionState

from connectors.kafka import joint, transactions
from connectors.kafka.client import close_quietly, make_writer
from connectors.kafka.internals import EarlyTransactions, close
from connectors.kafka.sink import KafkaSink
from connectors.retry import retry
from oracle.errors import BusError, FencedError
from tests.connectors.kafka.writers import answers, beside, in_all, numbered, processes, settings_of
from tests.support.waiting import until


@pytest.fixture
def settings(broker, topic, group):
    """Of a model with two partitions, and topics of its own."""
    return settings_of(broker, topic, group)


@pytest.fixture
def _early(monkeypatch):
    """Whatever the machine's speed: each commit but the first counts as a quick one, and nothing is given up."""
    for name in ("_QUICK_SECONDS", "_UNUSED_SECONDS", "_UNUSED_SHARE"):
        monkeypatch.setattr(joint, name, math.inf)


@pytest.fixture
def told(monkeypatch):
    """Note each that is begun early, and each that is ended unused."""
    told, begin, end = [], EarlyTransactions.begin, EarlyTransactions.end

    def begun(early, parts, group):
        told.append("begun")
        begin(early, parts, group)

    async def ended(early):
        await end(early)
        told.append("ended")

    monkeypatch.setattr(EarlyTransactions, "begin", begun)
    monkeypatch.setattr(EarlyTransactions, "end", ended)
    return told


def _places(settings):
    return {TopicPartition(topic, number) for topic in (settings.answers, settings.marks) for number in range(2)}


def _manager(process):
    return process.producer._txn_manager


async def _begun(process):
    """Wait until the brokers know of the next transaction."""
    manager = _manager(process)
    await until(lambda: manager._txn_consumer_group is not None and not manager.partitions_to_add())
    return manager


async def _commit_quickly(process, times=3):
    for _ in range(times):
        await process.commit()


@pytest.mark.usefixtures("_early")
async def test_commits_that_follow_one_another_find_their_transaction_begun(settings, monkeypatch):
    """With all that the last one wrote to, and the group; it keeps nobody from reading what is there."""
    async with processes(settings, 1) as (process,):
        await process.open(0, 1)
        await _commit_quickly(process)
        manager = await _begun(process)
        assert manager.state is TransactionState.IN_TRANSACTION
        assert manager.txn_partitions == _places(settings)
        other = AIOKafkaProducer(bootstrap_servers=settings.servers, transactional_id=settings.group)
        await other.start()
        async with other.transaction():
            await other.send(settings.answers, b"behind it", partition=0)
        await other.stop()
        assert await answers(settings, 0) == [*in_all(0, 3), b"behind it"]
        steps, commit, add = [], AIOKafkaProducer.commit_transaction, manager.partition_added

        async def noted(producer):
            steps.append("commit")
            await commit(producer)

        def added(place):
            steps.append("add")
            add(place)

        monkeypatch.setattr(AIOKafkaProducer, "commit_transaction", noted)
        monkeypatch.setattr(manager, "partition_added", added)
        await process.commit()
        assert steps[0] == "commit"
    assert await answers(settings, 1) == in_all(1, 4)


async def test_what_nothing_comes_for_is_ended(settings, monkeypatch, told):
    """And what comes later is committed as ever."""
    monkeypatch.setattr(joint, "_QUICK_SECONDS", math.inf)
    monkeypatch.setattr(joint, "_UNUSED_SECONDS", 0.05)
    async with processes(settings, 1) as (process,):
        await process.open(0, 1)
        await _commit_quickly(process)
        producer = process.producer
        for _ in range(2):
            told.clear()
            await until(lambda: "ended" in told)
            assert _manager(process).state is TransactionState.READY
            await process.commit()
        assert process.producer is producer
    for partition in range(2):
        assert await answers(settings, partition) == in_all(partition, 5)


async def test_commits_with_pauses_begin_none(settings, monkeypatch, told):
    """It would be ended unused, each time, with a marker on each topic."""
    monkeypatch.setattr(joint, "_QUICK_SECONDS", 0.0)
    async with processes(settings, 1) as (process,):
        await process.open(0)
        for _ in range(3):
            await process.commit()
            await asyncio.sleep(0.01)
    assert not told


@pytest.mark.usefixtures("_early")
async def test_whoever_takes_over_ends_it(settings):
    """The old process hears of it at its next commit; its other partition goes on."""
    async with processes(settings) as (old, new):
        await old.open(0, 1)
        await _commit_quickly(old)
        await _begun(old)
        assert await new.open(0) == [(3, b"mark 3")]
        with pytest.raises(FencedError):
            await old.commit(0)
        await old.commit(1)
        await new.commit()
    assert await answers(settings, 0) == in_all(0, 4)
    assert await answers(settings, 1) == in_all(1, 4)


@pytest.mark.usefixtures("_early")
async def test_one_that_the_brokers_have_ended_costs_a_producer_and_no_answer(settings, monkeypatch):
    """As behind a process that was held for longer than they keep it."""

    def impatient(*arguments):
        producer = make_writer(*arguments)
        producer._txn_manager.transaction_timeout_ms = 1000
        return producer

    monkeypatch.setattr(joint, "make_writer", impatient)
    async with processes(settings, 1) as (process,):
        await process.open(0, 1)
        await _commit_quickly(process)
        producer = process.producer
        while process.producer is producer:
            await _begun(process)
            await asyncio.sleep(2.0)
            await process.commit()  # fenced, it commits under each partition's own id
            await process.commit()
        last = process.reached[0]
    for partition in range(2):
        assert await answers(settings, partition) == in_all(partition, last)


@pytest.mark.usefixtures("_early")
async def test_a_topic_that_it_names_may_go(settings, topic, broker):
    """Others commit on."""
    other = beside(settings, topic)
    async with processes(replace(settings, shared=True), 1) as (process,):
        gone = KafkaSink(other, 0, writer=process.writer)
        await process.open(0)
        await gone.open()
        named: set[str] = set()
        for position in itertools.count(1):  # until both have a part in the same one
            await asyncio.gather(process.commit(), gone.commit(numbered(9, position)))
            if position > 2:
                named = {place.topic for place in (await _begun(process)).txn_partitions}
            if {settings.answers, other.answers} <= named:
                break
        producer = process.producer
        broker.delete_topic(other.answers)
        await process.commit()
        await process.commit()
        assert process.producer is producer
        await gone.close()
    assert await answers(settings, 0) == in_all(0, process.reached[0])


@pytest.mark.usefixtures("_early")
async def test_a_writer_that_is_closed_leaves_none(settings):
    """Nobody has to wait for it until the brokers give it up."""
    async with processes(settings, 1) as (process,):
        await process.open(0)
        await _commit_quickly(process)
        manager = await _begun(process)
        await process.writer.close()
        assert manager.state is TransactionState.READY


@pytest.mark.usefixtures("_early")
async def test_giving_the_last_partition_back_begins_none(settings, told):
    """Nothing is to come."""
    async with processes(settings, 1) as (process,):
        await process.open(0)
        await _commit_quickly(process)
        await _begun(process)
        told.clear()
        await process.sinks[0].close()
        await asyncio.sleep(0.01)
    assert not told


@pytest.fixture
async def early():
    """Lend a producer that was never started, but for its id, and what begins its transactions early."""
    producer = AIOKafkaProducer(bootstrap_servers="nowhere:9092", transactional_id="t")
    producer._txn_manager.set_pid_and_epoch(1, 0)
    yield producer, EarlyTransactions(producer)
    await close_quietly(producer)


@pytest.mark.parametrize("step", ["begin_transaction", "end"])
@pytest.mark.parametrize("fatal", [False, True])
async def test_whoever_takes_it_up_hears_what_has_ended_it(early, step, fatal):
    """Nothing is open any more."""
    producer, ahead = early
    ahead.begin([TopicPartition("t", 0)], "g")
    manager = producer._txn_manager
    error = ProducerFenced() if fatal else TopicAuthorizationFailedError()
    (manager.fatal_error if fatal else manager.error_transaction)(error)
    with pytest.raises(type(error)):
        await (producer.begin_transaction() if step == "begin_transaction" else ahead.end())
    assert not ahead.is_open


async def test_none_is_begun_where_none_can_be(early):
    """Neither beside another nor by a producer that has ended."""
    producer, ahead = early
    await producer.begin_transaction()
    ahead.begin([TopicPartition("t", 0)], "g")
    assert not ahead.is_open
    assert producer._txn_manager.consumer_group_to_add() is None
    producer._txn_manager.fatal_error(ProducerFenced())
    ahead.begin([TopicPartition("t", 0)], "g")
    assert not ahead.is_open
    producer._txn_manager.wait_for_transaction_end().exception()


async def test_the_group_is_added_once_and_whoever_takes_it_up_adds_their_own(early):
    """As long as nobody has asked for the transaction, the expected one; then what is asked for."""
    producer, ahead = early
    ahead.begin([TopicPartition("t", 0)], "g")
    manager = producer._txn_manager
    assert manager.consumer_group_to_add() == "g"
    manager.consumer_group_added("g")
    assert manager.consumer_group_to_add() is None
    manager._txn_consumer_group = None
    await producer.begin_transaction()
    assert manager.consumer_group_to_add() is None
    waiting = asyncio.ensure_future(producer.send_offsets_to_transaction({TopicPartition("q", 0): 1}, "h"))
    await asyncio.sleep(0)
    assert manager.consumer_group_to_add() == "h"
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


@pytest.mark.usefixtures("_early")
async def test_a_transaction_waits_for_what_the_one_before_it_named_and_no_longer(settings, topic, monkeypatch):
    """The brokers must have ended that one, so whether what others wrote to has a leader is looked at too."""
    other, looked, real = beside(settings, topic), [], transactions.unless_lacking

    async def noted(work, client, topics, led):
        looked.append((frozenset(topics), frozenset(led)))
        await real(work, client, topics, led)

    monkeypatch.setattr(joint, "unless_lacking", noted)
    monkeypatch.setattr(joint, "_QUICK_SECONDS", 0.0)
    async with processes(replace(settings, shared=True), 1) as (process,):
        beside_it = KafkaSink(other, 0, writer=process.writer)
        await process.open(0)
        await retry(beside_it.open, BusError, seconds=20.0)
        await asyncio.gather(process.commit(), beside_it.commit(numbered(9, 1)))  # each under an id of its own
        own, theirs = (frozenset({*one.own, str(one.marks)}) for one in (settings, other))
        nothing = own - own
        await beside_it.commit(numbered(9, 2))
        assert looked == [(theirs, nothing)]
        looked.clear()
        await process.commit()
        await process.commit()
        assert looked == [(own, theirs - own), (own, nothing)]
        monkeypatch.setattr(joint, "_QUICK_SECONDS", math.inf)
        await beside_it.commit(numbered(9, 3))
        await _begun(process)
        looked.clear()
        await process.commit()  # takes up what was begun for theirs
        await process.commit()
        assert looked == [(own, theirs - own)] * 2
        await beside_it.close()


@pytest.mark.parametrize("how", [{"enable_idempotence": True}, {"transactional_id": "t"}])
async def test_a_producer_that_dies_before_its_first_transaction_is_closed(how, monkeypatch):
    """It has none whose end could be looked at."""
    producer = AIOKafkaProducer(bootstrap_servers="nowhere:9092", **how)
    producer._txn_manager.state = TransactionState.FATAL_ERROR
    stopped, stop = [], producer.stop

    async def noted():
        await stop()
        stopped.append(producer)

    monkeypatch.setattr(producer, "stop", noted)
    await close(producer)
    assert stopped == [producer]


async def test_how_the_last_transaction_of_a_closed_producer_ended_is_no_complaint(early):
    """Whoever used it was told."""
    producer, _ = early
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about))
    await producer.begin_transaction()
    producer._txn_manager.fatal_error(ProducerFenced())
    await close(producer)
    producer._txn_manager._transaction_waiter = None  # asyncio complains when nobody holds it any more, which is now
    assert not complaints
