"""Makes aiokafka's consumers, producers and admins, all from one `KafkaSettings`; starts and closes them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from connectors.kafka.errors import NotLetInError, translated
from connectors.kafka.internals import (
    BatchConsumer,
    Client,
    IncrementalConsumer,
    Quiet,
    begins_soon,
    close,
    connect,
    connections,
    proves_anew,
)
from connectors.kafka.record_batches import RecordBatch
from connectors.kafka.settings import KafkaSettings
from oracle.errors import BusError, FencedError, RefusedError

__all__ = [
    "CLIENT_ID",
    "admin",
    "batches_between",
    "close_quietly",
    "make_consumer",
    "make_incremental",
    "make_member",
    "make_producer",
    "make_sender",
    "make_writer",
    "start",
    "started",
    "still_answered",
    "transactional_id",
    "transactional_ids",
    "writer_id",
]

_Client = TypeVar("_Client", bound=Client)

CLIENT_ID = "perpetua"
"""What we call ourselves towards the brokers; how we know each other in the group."""

_RETRY_MS = 20
"""Pause before a request is tried again; the client's own default of 100 would be felt in every transaction."""

_CLOSE_SECONDS = 5.0

_FETCHED_PARTS = 4
"""Partitions that one answer can hold as much of as may be asked for: the answer is in memory twice as it comes."""

_PROBE_MS = 5000
_POLL_MS = 200

_closing: set[asyncio.Task[None]] = set()


def transactional_id(settings: KafkaSettings, partition: int) -> str:
    """Return the id under which one owner at a time writes a partition's answers; it begins with the group's name.

    No other group has it: a topic's name has no slash.
    """
    return f"{settings.group}-/{settings.topic}/{partition}" if settings.shared else f"{settings.group}-{partition}"


def transactional_ids(settings: KafkaSettings, partition: int) -> tuple[str, str]:
    """Return a partition's id, and that which it has where the group is shared, or is not: both must be fenced.

    Its own first: of two that open it at once, each under the other's second, one at most is left.
    """
    other = replace(settings, shared=not settings.shared)
    return transactional_id(settings, partition), transactional_id(other, partition)


def writer_id(settings: KafkaSettings, name: str) -> str:
    """Return the transactional id of a writer of the group."""
    return f"{settings.group}-writer-{name}"


def make_consumer(settings: KafkaSettings) -> BatchConsumer:
    """Return a consumer of `RecordBatch`es without a group, for one partition; aborted transactions are left out."""
    return _proves_anew(BatchConsumer(**_reading(settings)), settings)


def make_incremental(settings: KafkaSettings, quiet: Quiet) -> IncrementalConsumer:
    """Return the same for partitions that come and go; see `SharedConsumer` for `quiet`."""
    consumer = IncrementalConsumer(quiet, **_reading(settings), fetch_max_bytes=_FETCHED_PARTS * settings.fetch_bytes)
    return _proves_anew(consumer, settings)


def make_member(settings: KafkaSettings) -> AIOKafkaConsumer:
    """Return a consumer that is a member of the group, and is never asked for a record."""
    consumer = AIOKafkaConsumer(
        **_common(settings, max(settings.request_seconds, settings.rebalance_seconds + 5.0)),
        group_id=settings.group,
        group_instance_id=settings.instance,
        enable_auto_commit=False,
        auto_offset_reset="latest",  # it decides nothing: what this consumer would fetch is not looked at
        session_timeout_ms=_milliseconds(settings.session_seconds),
        heartbeat_interval_ms=_milliseconds(settings.session_seconds / 4),
        rebalance_timeout_ms=_milliseconds(settings.rebalance_seconds),
        metadata_max_age_ms=_milliseconds(settings.metadata_seconds),
    )
    return _proves_anew(consumer, settings)


def make_producer(settings: KafkaSettings, partition: int) -> AIOKafkaProducer:
    """Return the producer of one partition's answers; starting it fences every earlier one."""
    return _transactional(settings, transactional_id(settings, partition))


def make_writer(settings: KafkaSettings, name: str) -> AIOKafkaProducer:
    """Return the producer of a writer; it must be started once, and before anybody is told its name."""
    return _transactional(settings, writer_id(settings, name))


def _transactional(settings: KafkaSettings, identifier: str) -> AIOKafkaProducer:
    producer = AIOKafkaProducer(
        **_common(settings),
        transactional_id=identifier,
        transaction_timeout_ms=_milliseconds(settings.transaction_seconds),
        enable_idempotence=True,
        max_batch_size=settings.batch_bytes,
        compression_type=_compression(settings),
        max_request_size=1 << 30,  # the topic's own limit is what counts
        retry_backoff_ms=_RETRY_MS,
    )
    return begins_soon(_proves_anew(producer, settings))


def make_sender(settings: KafkaSettings) -> AIOKafkaProducer:
    """Return a producer without transactions, as an asker has one."""
    producer = AIOKafkaProducer(
        **_common(settings),
        enable_idempotence=True,
        max_batch_size=settings.batch_bytes,
        compression_type=_compression(settings),
    )
    return _proves_anew(producer, settings)


@contextlib.asynccontextmanager
async def admin(settings: KafkaSettings, what: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """Lend an admin client; `what` begins the message of whatever goes wrong with it.

    Raises:
        BusError: No broker answers.
        RefusedError: The brokers do not let us in.
    """
    client = _proves_anew(AIOKafkaAdminClient(**_common(settings), retry_backoff_ms=_RETRY_MS), settings)
    async with started(client, settings, "Kafka"):
        with translated(what):
            yield client


@contextlib.asynccontextmanager
async def started(client: _Client, settings: KafkaSettings, what: str) -> AsyncIterator[_Client]:
    """Start something of the client's, lend it, and close it; its errors are `translated`, as those of `start`."""
    try:
        await start(client, settings, what)
        with translated(what):
            yield client
    finally:
        await close_quietly(client)


class Startable(Protocol):
    """What can be started, as the client's own."""

    async def start(self) -> None:
        """Begin, or raise what the client raises."""


async def start(client: Startable, settings: KafkaSettings, what: str) -> None:
    """Start a consumer, a producer or an admin client; `what` begins the message of whatever goes wrong.

    Where it cannot begin, the client says so but not why; then each server is tried by itself.

    Raises:
        RefusedError: The brokers do not let us in, or are not who they should be.
        BusError: No broker answers.
    """
    try:
        with translated(what):
            await client.start()
    except FencedError:
        raise
    except NotLetInError as exc:
        raise _may_pass(settings, exc) from exc
    except BusError as exc:
        found = await _refusal(settings)
        if isinstance(found, RefusedError):
            raise _may_pass(settings, found) from exc
        hint = "if they are up, check kafka.servers, kafka.tls and kafka.sasl"
        why = exc if found is None else f"{what}: {found}"
        raise BusError(f"{why}; {hint}") from exc
    settings.security.entered = True


def _may_pass(settings: KafkaSettings, error: RefusedError) -> RefusedError | BusError:
    """Return a refusal as trouble that may pass, where we were let in before, and what we prove it by may change."""
    if isinstance(error, NotLetInError) and settings.security.may_pass(error.table):
        return BusError(f"{error}; the files of {error.table} are read again for each try")
    return error


async def still_answered(consumer: AIOKafkaConsumer, settings: KafkaSettings) -> bool:
    """Return whether a running consumer can reach the brokers; alone it would try for ever, and tell nobody.

    Raises:
        RefusedError: They are there, and refuse us.
    """
    if await connections(consumer).force_metadata_update():
        return True
    found = await _refusal(settings)
    if isinstance(found, RefusedError):
        refusal = _may_pass(settings, found)
        if isinstance(refusal, RefusedError):
            raise refusal
    return False


async def _refusal(settings: KafkaSettings) -> RefusedError | BusError | None:
    """Return why no server lets us in: what one that refuses us says, or else what became of each; None if one does."""
    how = settings.security.options() | {"client_id": CLIENT_ID, "request_timeout_ms": _PROBE_MS}
    outcomes = await asyncio.gather(*(_try(server, how) for server in settings.servers), return_exceptions=True)
    if None in outcomes:
        return None
    refused = next((outcome for outcome in outcomes if isinstance(outcome, RefusedError)), None)
    return refused or BusError(f"no broker accepts the connection: {'; '.join(map(str, outcomes))}")


async def _try(server: str, how: Mapping[str, Any]) -> None:
    host, _, port = server.rpartition(":")
    try:
        with translated(server):
            connection = await connect(host.strip("[]"), int(port), **how)
    except ValueError as exc:
        raise BusError(f"{server}: its certificate does not match") from exc
    connection.close()


async def batches_between(consumer: BatchConsumer, part: TopicPartition, begin: int, end: int) -> list[RecordBatch]:
    """Return the committed batches of some offsets; it asks at least once, so that the broker says how far it has more.

    It waits for the brokers without an end: set a timeout.
    """
    consumer.seek(part, begin)
    found: list[RecordBatch] = []
    while True:
        found += (await consumer.getmany(part, timeout_ms=_POLL_MS)).get(part, [])
        if await consumer.position(part) >= end and consumer.highwater(part) is not None:
            return found


async def close_quietly(client: Client) -> None:
    """Close something of the client's without waiting for a broker that may be gone.

    What is not closed in time is left to finish by itself: it can do no harm, as whoever comes after it fences it.
    """
    task = asyncio.ensure_future(close(client))
    _closing.add(task)
    task.add_done_callback(_closing.discard)
    await asyncio.wait({task}, timeout=_CLOSE_SECONDS)


def _common(settings: KafkaSettings, request_seconds: float | None = None) -> dict[str, Any]:
    return settings.security.options() | {
        "bootstrap_servers": list(settings.servers),
        "client_id": CLIENT_ID,
        "request_timeout_ms": _milliseconds(request_seconds or settings.request_seconds),
    }


def _compression(settings: KafkaSettings) -> str | None:
    return None if settings.compression == "none" else settings.compression


def _proves_anew(client: _Client, settings: KafkaSettings) -> _Client:
    """Return a client that proves who we are by what the files hold at each connection."""
    return proves_anew(client, settings.security.options)


def _reading(settings: KafkaSettings) -> dict[str, Any]:
    return _common(settings) | {
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "isolation_level": "read_committed",
        "max_partition_fetch_bytes": settings.fetch_bytes,
        "retry_backoff_ms": _RETRY_MS,
    }


def _milliseconds(seconds: float) -> int:
    return max(round(seconds * 1000), 1)
