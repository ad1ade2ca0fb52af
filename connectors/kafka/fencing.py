"""The end of a transactional id's producers: what they have pending is ended, and they commit nothing more."""

import asyncio
from typing import Final

from aiokafka import AIOKafkaClient, errors
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.transaction import InitProducerIdRequest

from connectors.kafka.settings import KafkaSettings
from connectors.retry import Backoff, retry

__all__ = ["fence"]

_TRANSACTION: Final = 1
"""The kind of coordinator that keeps transactions."""

_NOT_YET: Final = (
    errors.CoordinatorNotAvailableError,
    errors.NotCoordinatorError,
    errors.CoordinatorLoadInProgressError,
    errors.ConcurrentTransactions,  # what was pending has not ended yet
    errors.NodeNotReadyError,
    errors.RequestTimedOutError,
    errors.KafkaConnectionError,
)


async def fence(client: AIOKafkaClient, identifier: str, settings: KafkaSettings, seconds: float | None = None) -> None:
    """Fence whoever writes under a transactional id, and return once what they had pending has ended.

    Args:
        client: Asks the brokers.
        identifier: The transactional id.
        settings: How long transactions and requests may last.
        seconds: Most time for it; None for as long as both.

    Raises:
        KafkaError: An error of the client's.
        TimeoutError: What was pending has not ended, or nobody answers.
    """
    backoff = Backoff(0.02, 0.5)
    async with asyncio.timeout(settings.transaction_seconds + settings.request_seconds if seconds is None else seconds):
        await retry(lambda: _fence(client, identifier, settings), _NOT_YET, backoff=backoff)


async def _fence(client: AIOKafkaClient, identifier: str, settings: KafkaSettings) -> None:
    found = await client.send(client.get_random_node(), FindCoordinatorRequest(identifier, _TRANSACTION))
    _check(found.error_code)
    request = InitProducerIdRequest(identifier, max(round(settings.transaction_seconds * 1000), 1))
    _check((await client.send(found.coordinator_id, request)).error_code)


def _check(code: int) -> None:
    if code:
        raise errors.for_code(code)
