"""Sources that a command reads by itself, from end to end."""

import contextlib
from collections.abc import AsyncIterator
from typing import Final

from connectors.base import Deliveries, Source
from oracle.errors import SourceError

__all__ = ["MESSAGES", "deliveries", "doubt_of", "opened"]

MESSAGES: Final = 16_384
"""Most messages read at once."""


def doubt_of(source: Source) -> str:
    """Return in words why a log may have meant something else when it was answered; empty if it cannot.

    So it may if schemas of its messages are not kept, and the registry was asked what they mean.
    """
    doubt: str = getattr(source, "doubt", "")
    return doubt


@contextlib.asynccontextmanager
async def opened(source: Source, position: int | None = None) -> AsyncIterator[Source]:
    """Open a source behind a position (None: at its beginning), and close it in the end."""
    try:
        await source.open(position)
        yield source
    finally:
        await source.close()


async def deliveries(source: Source, name: str) -> AsyncIterator[Deliveries]:
    """Yield what an open source has, in its order, up to its end.

    Raises:
        SourceError: It cannot be read to its end.
    """
    while fetched := await source.fetch(MESSAGES, 1.0):
        yield fetched
    if not source.exhausted:
        raise SourceError(f"{name}: cannot be read to its end")
