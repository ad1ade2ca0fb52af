"""Makes the client's consumers, producers and admins, all from one `KafkaSettings`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from connectors.kafka.access import refusal
from connectors.kafka.errors import translated
from connectors.kafka.record_batches import WHOLESALE
from connectors.kafka.record_batches import install as install_readers
from connectors.kafka.settings import KafkaSettings, Security
from connectors.tls import tls_context
from oracle.errors import BusError, FencedError, RefusedError

__all__ = [
    "CLIENT_ID",
    "admin",
    "close_quietly",
    "make_consumer",
    "make_member",
    "make_producer",
    "make_sender",
    "start",
    "still_answered",
    "transactional_id",
]

CLIENT_ID = "perpetua"
"""What we call ourselves towards the brokers; how we know each other in the group."""

_RETRY_MS = 20
"""Pause before a request is tried again; the client's own default of 100 would be felt in every transaction."""

_CLOSE_SECONDS = 5.0

_closing: set[asyncio.Task[None]] = set()

install_readers()


def transactional_id(settings: KafkaSettings, partition: int) -> str:
    """Return the id under which one owner at a time writes a partition's answers."""
    return f"{settings.group}-{partition}"


def make_consumer(settings: KafkaSettings, *, whole: bool = False) -> AIOKafkaConsumer:
    """Return a consumer without a group, for one partition of the query topic; aborted transactions are left out.

    Args:
        settings: The cluster.
        whole: Whether it returns each batch as one `RecordBatch`.
    """
    return AIOKafkaConsumer(
        value_deserializer=WHOLESALE if whole else None,
        **_common(settings),
        request_timeout_ms=_milliseconds(settings.request_seconds),
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        max_partition_fetch_bytes=settings.fetch_bytes,
        retry_backoff_ms=_RETRY_MS,
    )


def make_member(settings: KafkaSettings) -> AIOKafkaConsumer:
    """Return a consumer that is a member of the group, and is never asked for a record."""
    return AIOKafkaConsumer(
        **_common(settings),
        request_timeout_ms=_milliseconds(max(settings.request_seconds, settings.rebalance_seconds + 5.0)),
        group_id=settings.group,
        group_instance_id=settings.instance,
        enable_auto_commit=False,
        auto_offset_reset="latest",  # it decides nothing: what this consumer would fetch is not looked at
        session_timeout_ms=_milliseconds(settings.session_seconds),
        heartbeat_interval_ms=_milliseconds(settings.session_seconds / 4),
        rebalance_timeout_ms=_milliseconds(settings.rebalance_seconds),
        metadata_max_age_ms=_milliseconds(settings.metadata_seconds),
    )


def make_producer(settings: KafkaSettings, partition: int) -> AIOKafkaProducer:
    """Return the producer of one partition's answers; starting it fences every earlier one."""
    return AIOKafkaProducer(
        **_common(settings),
        request_timeout_ms=_milliseconds(settings.request_seconds),
        transactional_id=transactional_id(settings, partition),
        transaction_timeout_ms=_milliseconds(settings.transaction_seconds),
        enable_idempotence=True,
        max_batch_size=settings.batch_bytes,
        max_request_size=1 << 30,  # the topic's own limit is what counts
        retry_backoff_ms=_RETRY_MS,
    )


def make_sender(settings: KafkaSettings) -> AIOKafkaProducer:
    """Return a producer without transactions, as an asker has one."""
    return AIOKafkaProducer(
        **_common(settings),
        request_timeout_ms=_milliseconds(settings.request_seconds),
        enable_idempotence=True,
        max_batch_size=settings.batch_bytes,
    )


@contextlib.asynccontextmanager
async def admin(settings: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Lend an admin client.

    Raises:
        BusError: No broker answers.
        RefusedError: The brokers do not let us in.
    """
    client = AIOKafkaAdminClient(
        **_common(settings), request_timeout_ms=_milliseconds(settings.request_seconds), retry_backoff_ms=_RETRY_MS
    )
    try:
        await start(client, settings, "Kafka")
        yield client
    finally:
        await close_quietly(client)


async def start(client: Any, settings: KafkaSettings, what: str) -> None:  # noqa: ANN401 -- no types
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
    except BusError as exc:
        found = await refusal(settings.servers, _common(settings))
        if isinstance(found, RefusedError):
            raise found from exc
        hint = "if they are up, check whether kafka.servers, kafka.tls and kafka.sasl are what they expect"
        why = exc if found is None else f"{what}: {found}"
        raise BusError(f"{why}; {hint}") from exc


async def still_answered(consumer: AIOKafkaConsumer, settings: KafkaSettings) -> bool:
    """Return whether a running consumer can reach the brokers; alone it would try for ever, and tell nobody.

    Raises:
        RefusedError: They are there, and refuse us.
    """
    if await consumer._client.force_metadata_update():  # noqa: SLF001 -- it tells nobody else
        return True
    refused = await refusal(settings.servers, _common(settings))
    if isinstance(refused, RefusedError):
        raise refused
    return False


async def close_quietly(client: Any) -> None:  # noqa: ANN401 -- a consumer, a producer or an admin client
    """Close something of the client's without waiting for a broker that may be gone.

    What is not closed in time is left to finish by itself: it can do no harm, as whoever comes after it fences it.
    """
    task = asyncio.ensure_future(_close(client))
    _closing.add(task)
    task.add_done_callback(_closing.discard)
    await asyncio.wait({task}, timeout=_CLOSE_SECONDS)


async def _close(client: Any) -> None:  # noqa: ANN401 -- as `close_quietly`
    """Close it, and what it is made of: during an outage its own way ends with the first of its parts that fails.

    A consumer's fetcher awaits tasks that it has cancelled itself, and so ends its `stop` with their `CancelledError`.
    """
    connections = client.client if isinstance(client, AIOKafkaProducer) else client._client  # noqa: SLF001
    fetcher = getattr(client, "_fetcher", None)
    with contextlib.suppress(Exception, asyncio.CancelledError):
        await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())
    if fetcher is not None:
        for task in (fetcher._fetch_task, *fetcher._pending_tasks):  # noqa: SLF001
            task.cancel()
    with contextlib.suppress(Exception):
        await connections.close()


def _common(settings: KafkaSettings) -> dict[str, Any]:
    security = settings.security
    common: dict[str, Any] = {
        "bootstrap_servers": list(settings.servers),
        "client_id": CLIENT_ID,
        "security_protocol": security.protocol,
    }
    if security.tls:
        common["ssl_context"] = tls_context(security.tls, "kafka.tls")
    return common | _sasl(security)


def _sasl(security: Security) -> dict[str, Any]:
    if security.sasl is None:
        return {}
    return {
        "sasl_mechanism": security.sasl.mechanism,
        "sasl_plain_username": security.sasl.username,
        "sasl_plain_password": security.sasl.password,
    }


def _milliseconds(seconds: float) -> int:
    return max(round(seconds * 1000), 1)
