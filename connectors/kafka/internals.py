"""Every private part of aiokafka that we use.

Its version is pinned; `tests/connectors/kafka/test_internals.py` fails where a later one differs in any of them.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeAlias

from aiokafka import AIOKafkaClient, AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.consumer.fetcher import Fetcher, PartitionRecords
from aiokafka.errors import KafkaError
from aiokafka.protocol.group import SyncGroupRequest

from connectors.kafka.record_batches import FetchedBatches

__all__ = [
    "BatchConsumer",
    "Client",
    "close",
    "connections",
    "is_replaced",
    "membership_of",
    "producer_of",
    "sends_for_ever",
]

Client: TypeAlias = AIOKafkaConsumer | AIOKafkaProducer | AIOKafkaAdminClient

_FENCED_INSTANCE_ID: Final = 82


def _rebound(function: Callable[..., Any], **names: object) -> Any:  # noqa: ANN401 -- a method of the same type
    """Return a function of the client's with other globals of these names, so that the client itself stays as it is."""
    made = FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


class _PartitionRecords(PartitionRecords):
    """One answer to a fetch, without what was aborted: items are handed over as they were read."""

    def _consumer_record(self, part: object, record: object) -> object:  # noqa: ARG002 -- the client's
        return record


class _Fetcher(Fetcher):
    _proc_fetch_request = _rebound(
        Fetcher._proc_fetch_request,  # noqa: SLF001
        MemoryRecords=FetchedBatches,
        PartitionRecords=_PartitionRecords,
    )


class BatchConsumer(AIOKafkaConsumer):
    """A consumer that hands over `RecordBatch`es, not records: an object for each takes longer than all else."""

    start = _rebound(AIOKafkaConsumer.start, Fetcher=_Fetcher)


def connections(client: Client) -> AIOKafkaClient:
    """Return what sends requests for a consumer, a producer or an admin client."""
    return client.client if isinstance(client, AIOKafkaProducer) else client._client  # noqa: SLF001


def producer_of(producer: AIOKafkaProducer) -> tuple[int, int]:
    """Return the id and the epoch of a transactional producer that was started."""
    manager = producer._txn_manager  # noqa: SLF001
    return manager.producer_id, manager.producer_epoch


def sends_for_ever(producer: AIOKafkaProducer) -> AIOKafkaProducer:
    """Return a producer, not yet started, that gives up no record because of the time: it may have been written."""
    producer._message_accumulator._batch_ttl = math.inf  # noqa: SLF001
    return producer


def membership_of(consumer: AIOKafkaConsumer) -> tuple[str, int]:
    """Return the member's id and the group's generation, as the coordinator gave them."""
    coordinator = consumer._coordinator  # noqa: SLF001
    return coordinator.member_id, coordinator.generation


async def is_replaced(consumer: AIOKafkaConsumer, instance: str, membership: tuple[str, int]) -> bool:
    """Return whether another process has joined under our own `group.instance.id` (KIP-345).

    The client's heartbeats do not name the instance, so all that they hear is that the member is gone.

    `membership` is its `membership_of` when it was given its partitions.

    Returns:
        False too where the member is as it was, was forgotten after a silence, or the coordinator does not answer.
    """
    member, generation = membership
    if membership_of(consumer)[0] == member:
        return False
    coordinator = consumer._coordinator  # noqa: SLF001
    try:
        said = await coordinator._send_req(  # noqa: SLF001
            SyncGroupRequest(coordinator.group_id, generation, member, instance, [])
        )
    except KafkaError:
        return False
    return bool(said.error_code == _FENCED_INSTANCE_ID)


async def close(client: Client) -> None:
    """Close it, and what it is made of: during an outage its own way ends with the first of its parts that fails.

    A consumer's fetcher awaits tasks that it has cancelled itself, and so ends its `stop` with their `CancelledError`.
    """
    below, fetcher = connections(client), getattr(client, "_fetcher", None)
    with contextlib.suppress(Exception, asyncio.CancelledError):
        await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())
    if fetcher is not None:
        for task in (fetcher._fetch_task, *fetcher._pending_tasks):  # noqa: SLF001
            task.cancel()
    with contextlib.suppress(Exception):
        await below.close()
