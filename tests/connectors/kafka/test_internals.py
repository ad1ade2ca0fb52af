"""The contract with aiokafka: each private part of it that we use is as it was when we wrote what uses it."""

import asyncio
import importlib.metadata
import inspect

import aiokafka
import pytest
from aiokafka import conn
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.consumer import consumer, fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import Assignment, SubscriptionState, TopicPartitionState
from aiokafka.errors import ProducerFenced
from aiokafka.producer import sender
from aiokafka.producer.message_accumulator import BatchBuilder, MessageAccumulator, MessageBatch
from aiokafka.producer.sender import AddPartitionsToTxnHandler, BaseHandler, Sender
from aiokafka.producer.transaction_manager import TransactionManager
from aiokafka.protocol.transaction import AddPartitionsToTxnResponse_v0
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka.client import close_quietly, make_producer
from connectors.kafka.internals import BatchConsumer, fill
from connectors.kafka.marks import Claim
from connectors.kafka.record_batches import FetchedBatches
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.transactions import Part, transact
from oracle.errors import FencedError


def test_it_is_the_version_that_was_looked_at():
    """A newer one is looked at anew: here, and in `connectors/kafka/internals.py` and `record_batches.py`."""
    assert importlib.metadata.version("aiokafka").rsplit(".", 1)[0] == "0.14"


@pytest.mark.parametrize(
    ("function", "uses"),
    [
        (fetcher.Fetcher._proc_fetch_request, {"MemoryRecords", "PartitionRecords", "has_next", "size_in_bytes"}),
        (consumer.AIOKafkaConsumer.start, {"Fetcher", "_fetcher", "_coordinator"}),
        (fetcher.Fetcher.__init__, {"_fetch_task", "_pending_tasks", "_records", "_prefetch_backoff"}),
        (fetcher.Fetcher.__init__, {"_fetch_max_wait_ms", "_loop"}),
        (fetcher.Fetcher._fetch_requests_routine, {"_get_actions_per_node", "_proc_fetch_request", "_pending_tasks"}),
        (fetcher.Fetcher._get_actions_per_node, {"tps", "state_value", "_select_read_replica", "_fetch_max_wait_ms"}),
        (
            fetcher.Fetcher._proc_fetch_request,
            {"state_value", "has_valid_position", "position", "timestamp", "_records"},
        ),
        (fetcher.FetchRequest.__init__, {"_max_bytes", "_topics"}),
        (fetcher.Fetcher.seek_to, {"seek", "_records", "_wait_consume_future"}),
        (SubscriptionState.assign_from_user, {"ManualSubscription"}),
        (Assignment.__init__, {"_topic_partitions", "_tp_state", "TopicPartitionState"}),
        (AIOKafkaAdminClient.__init__, {"_client"}),
        (aiokafka.AIOKafkaProducer.__init__, {"client", "_txn_manager", "_message_accumulator", "_sender"}),
        (Sender._maybe_do_transactional_request, {"partitions_to_add", "_do_add_partitions_to_txn"}),
        (Sender._maybe_do_transactional_request, {"consumer_group_to_add", "_do_add_offsets_to_txn"}),
        (TransactionManager.consumer_group_to_add, {"_txn_consumer_group", "_pending_txn_offsets"}),
        (TransactionManager.begin_transaction, {"_transition_to", "IN_TRANSACTION", "_transaction_waiter"}),
        (TransactionManager.maybe_add_partition_to_txn, {"_pending_txn_partitions", "notify_task_waiter"}),
        (aiokafka.AIOKafkaProducer.begin_transaction, {"_txn_manager", "wait_for_pid", "begin_transaction"}),
        (Sender._do_add_partitions_to_txn, {"AddPartitionsToTxnHandler", "do"}),
        (AddPartitionsToTxnHandler.handle_response, {"errors", "ConcurrentTransactions", "BACKOFF_OVERRIDE"}),
        (BaseHandler.do, {"handle_response", "sleep"}),
        (MessageAccumulator._append_batch, {"_batch_ttl", "MessageBatch"}),
        (MessageBatch.expired, {"_ttl"}),
        (TransactionManager.__init__, {"_pid_and_epoch"}),
        (TransactionManager.fatal_error, {"FATAL_ERROR", "_transaction_waiter", "set_exception"}),
        (GroupCoordinator.__init__, {"group_id", "generation", "member_id"}),
        (GroupCoordinator._send_req, {"send", "coordinator_id"}),
        (BatchBuilder.__init__, {"batch_size", "compression_type", "is_transactional", "_builder"}),
        (BatchBuilder.append, {"_closed", "_serialize", "_builder", "append", "_relative_offset", "close"}),
        (BatchBuilder.record_count, {"_relative_offset"}),
        (AIOKafkaClient.bootstrap, {"create_conn"}),
        (AIOKafkaClient._get_conn, {"create_conn"}),
        (conn.create_conn, {"AIOKafkaConnection", "connect"}),
        (conn.AIOKafkaConnection._do_sasl_handshake, {"authenticator_oauth", "step", "sasl_auth_bytes"}),
        (conn.AIOKafkaConnection.__init__, {"_sasl_oauth_token_provider"}),
        (
            fetcher.PartitionRecords._unpack_records,
            {"next_batch", "validate_crc", "producer_id", "base_offset", "is_control_batch", "is_transactional"}
            | {"next_offset", "_consumer_record", "offset"},
        ),
    ],
)
def test_the_clients_functions_use_these_names(function, uses):
    """What we put in the place of one, or read from another, is still what they use or set."""
    assert uses <= {*function.__code__.co_names, *function.__code__.co_varnames}


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (fetcher.PartitionRecords._consumer_record, ["self", "tp", "record"]),
        (fetcher.Fetcher._proc_fetch_request, ["self", "assignment", "node_id", "request"]),
        (fetcher.Fetcher._get_actions_per_node, ["self", "assignment"]),
        (fetcher.Fetcher._select_read_replica, ["self", "tp"]),
        (TopicPartitionState.__init__, ["self", "assignment"]),
        (AIOKafkaClient.set_topics, ["self", "topics"]),
        (AddPartitionsToTxnHandler.__init__, ["self", "sender", "topic_partitions"]),
        (AddPartitionsToTxnHandler.handle_response, ["self", "resp"]),
        (Sender._do_add_partitions_to_txn, ["self", "tps"]),
        (AIOKafkaClient.force_metadata_update, ["self"]),
        (AIOKafkaClient.get_random_node, ["self"]),
        (AIOKafkaClient.close, ["self"]),
        (AIOKafkaClient.bootstrap, ["self"]),
        (conn.AIOKafkaConnection.authenticator_oauth, ["self"]),
        (conn.OAuthAuthenticator.step, ["self", "payload"]),
    ],
)
def test_the_clients_functions_take_these_arguments(function, names):
    """We override them, or call them."""
    assert list(inspect.signature(function).parameters) == names


def test_readers_of_ours_have_what_the_client_asks_of_its_own():
    """They stand for the client's in a fetch, and read the head of a batch by the client's own reader."""
    heads = {"base_offset", "last_offset_delta", "timestamp_type", "max_timestamp", "first_timestamp"}
    assert heads <= set(dir(_DefaultRecordBatchPy))
    assert {"has_next", "next_batch", "size_in_bytes"} <= set(dir(MemoryRecords)) & set(dir(FetchedBatches))


@pytest.mark.parametrize(
    "function",
    [
        fetcher.Fetcher._proc_fetch_request,
        consumer.AIOKafkaConsumer.start,
        Sender._do_add_partitions_to_txn,
        AIOKafkaClient.bootstrap,
        AIOKafkaClient._get_conn,
        conn.create_conn,
    ],
)
def test_what_we_give_other_globals_has_no_closure(function):
    """It would be lost with them."""
    assert function.__closure__ is None


def test_the_client_itself_is_not_changed():
    """Other users of aiokafka in the process have it as it comes."""
    assert fetcher.MemoryRecords is MemoryRecords
    assert fetcher.PartitionRecords.__module__ == "aiokafka.consumer.fetcher"
    assert consumer.Fetcher is fetcher.Fetcher
    assert BatchConsumer.start is not aiokafka.AIOKafkaConsumer.start
    assert inspect.iscoroutinefunction(BatchConsumer.start)
    assert sender.AddPartitionsToTxnHandler is AddPartitionsToTxnHandler
    assert AddPartitionsToTxnHandler.__module__ == "aiokafka.producer.sender"


_REFUSED, _UNAVAILABLE, _TAKEN = 51, 15, 0
"""What brokers answer: the transaction before is not over yet, no coordinator, all right."""


async def test_a_transaction_that_cannot_begin_yet_is_tried_again_soon_and_then_less_often(monkeypatch):
    """After 1 ms, 2, 4, up to the client's own 20; anything else makes the next one short again, or is as it was."""
    settings = KafkaSettings(servers=("127.0.0.1:1",), topic="q", answers="a", group="g", model="m")
    producer = make_producer(settings, 0)
    part, sending = aiokafka.TopicPartition("a", 0), producer._sender
    slept: list[float] = []
    sending._coordinators[CoordinationType.TRANSACTION] = 0
    codes = [*[_REFUSED] * 7, _TAKEN, _REFUSED, _REFUSED, _UNAVAILABLE, _REFUSED, _TAKEN]

    async def answered(*_: object, **__: object):
        return AddPartitionsToTxnResponse_v0(0, [("a", [(0, codes.pop(0))])])

    async def sleep(seconds):
        slept.append(seconds)

    async def add():
        producer._txn_manager._pending_txn_partitions.add(part)
        while not await sending._do_add_partitions_to_txn({part}):
            sending._coordinators[CoordinationType.TRANSACTION] = 0

    with monkeypatch.context() as patch:
        patch.setattr(producer.client, "send", answered)
        patch.setattr(asyncio, "sleep", sleep)
        await add()
        await add()
    assert not codes
    assert slept == [0.001, 0.002, 0.004, 0.008, 0.016, 0.02, 0.02, 0.001, 0.002, 0.02, 0.001]
    await close_quietly(producer)


@pytest.mark.parametrize("step", ["begin_transaction", "send_offsets", "commit_transaction"])
async def test_what_ended_a_producer_is_told_by_whatever_step_meets_it(step, monkeypatch):
    """It is fenced between two steps of a transaction: not an illegal operation, nor a failure of the client."""
    settings = KafkaSettings(servers=("127.0.0.1:1",), topic="q", answers="a", group="g", model="m")
    producer = make_producer(settings, 0)
    manager = producer._txn_manager
    manager.set_pid_and_epoch(1, 1)

    async def begun(*_: object):
        manager.begin_transaction()
        if step == "send_offsets":
            manager.fatal_error(ProducerFenced())

    async def sent(*_: object):
        manager.fatal_error(ProducerFenced())

    part = Part(aiokafka.TopicPartition("q", 0), Claim(1, "{}"), None, None, ("a",))
    if step == "begin_transaction":
        await begun()
        manager.fatal_error(ProducerFenced())
    else:
        monkeypatch.setattr(producer, "begin_transaction", begun)
    if step == "commit_transaction":
        monkeypatch.setattr(producer, "send_offsets_to_transaction", sent)
    with pytest.raises(FencedError, match="another process has taken over"):
        await transact(producer, "g", [part], {}, seconds=5.0, where="here")
    await close_quietly(producer)


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=40), st.binary(max_size=200)), max_size=40),
    st.integers(min_value=61, max_value=2_000),
    st.integers(min_value=0, max_value=20),
    st.sampled_from([[], [("content-type", b"application/json")]]),
)
def test_a_batch_is_filled_as_by_its_own_append(records, size, before, headers):
    """Byte for byte, also behind others, and where it becomes full."""
    ours, theirs = (BatchBuilder(size, 0, is_transactional=1) for _ in range(2))
    for part in (records[:before], records[before:]):
        count = 0
        for key, value in part:
            if theirs.append(timestamp=7, key=key, value=value, headers=headers) is None:
                break
            count += 1
        assert fill(ours, part, 7, headers) == count
        assert (ours.record_count(), ours.size(), ours.closed()) == (
            theirs.record_count(),
            theirs.size(),
            theirs.closed(),
        )
    for batch in (ours, theirs):
        batch._set_producer_state(1, 0, 0)
    assert bytes(ours._build()) == bytes(theirs._build())
