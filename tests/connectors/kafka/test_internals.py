"""The contract with aiokafka: each private part of it that we use is as it was when we wrote what uses it."""

import importlib.metadata
import inspect

import aiokafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer import consumer, fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.producer.message_accumulator import BatchBuilder, MessageAccumulator, MessageBatch
from aiokafka.producer.transaction_manager import TransactionManager
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

from connectors.kafka.internals import BatchConsumer
from connectors.kafka.record_batches import FetchedBatches


def test_it_is_the_version_that_was_looked_at():
    """A newer one is looked at anew: here, and in `connectors/kafka/internals.py` and `record_batches.py`."""
    assert importlib.metadata.version("aiokafka").rsplit(".", 1)[0] == "0.14"


@pytest.mark.parametrize(
    ("function", "uses"),
    [
        (fetcher.Fetcher._proc_fetch_request, {"MemoryRecords", "PartitionRecords", "has_next", "size_in_bytes"}),
        (consumer.AIOKafkaConsumer.start, {"Fetcher", "_fetcher", "_coordinator"}),
        (fetcher.Fetcher.__init__, {"_fetch_task", "_pending_tasks"}),
        (AIOKafkaAdminClient.__init__, {"_client"}),
        (aiokafka.AIOKafkaProducer.__init__, {"client", "_txn_manager", "_message_accumulator"}),
        (MessageAccumulator._append_batch, {"_batch_ttl", "MessageBatch"}),
        (MessageBatch.expired, {"_ttl"}),
        (TransactionManager.__init__, {"_pid_and_epoch"}),
        (GroupCoordinator.__init__, {"group_id", "generation", "member_id"}),
        (GroupCoordinator._send_req, {"send", "coordinator_id"}),
        (BatchBuilder.__init__, {"batch_size", "compression_type", "is_transactional"}),
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
        (AIOKafkaClient.force_metadata_update, ["self"]),
        (AIOKafkaClient.get_random_node, ["self"]),
        (AIOKafkaClient.close, ["self"]),
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


@pytest.mark.parametrize("function", [fetcher.Fetcher._proc_fetch_request, consumer.AIOKafkaConsumer.start])
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
