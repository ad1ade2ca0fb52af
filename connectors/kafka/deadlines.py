"""Asks again while the brokers still make or load what they keep groups and transactions in."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from aiokafka import errors

__all__ = ["until_there"]

_Answer = TypeVar("_Answer")

_PAUSE: Final = 0.2
_NOT_YET: Final = (
    errors.GroupCoordinatorNotAvailableError,
    errors.GroupLoadInProgressError,
    errors.NotCoordinatorForGroupError,
)


async def until_there(ask: Callable[[], Awaitable[_Answer]], seconds: float) -> _Answer:
    """Ask until there is a coordinator that answers: a new cluster makes its own topics when it is first asked.

    Args:
        ask: Asks once.
        seconds: How long to try.

    Raises:
        KafkaError: Any error of the client's; one that would pass only after that time.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return await ask()
        except _NOT_YET:
            if time.monotonic() > end:
                raise
        await asyncio.sleep(_PAUSE)
