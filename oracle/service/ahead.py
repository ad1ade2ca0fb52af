"""Fetching and decoding the next batch while the last one is being committed."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from connectors.base import Delivery, Source
from oracle.service.codec.batches import DecodedBatch
from oracle.service.shard import Shard

__all__ = ["Ahead"]


class Ahead:
    """Hands out decoded batches in order, at most one of them ahead. Decoding looks at no state, so no answer changes.

    What was fetched ahead and never handed out is simply read again by the next run.

    Args:
        source: Open.
        shard: Decodes.
        rows: Most deliveries of a batch.
        waiting: Deliveries that were fetched already.
    """

    def __init__(self, source: Source, shard: Shard, rows: int, waiting: Sequence[Delivery] = ()) -> None:
        self._source = source
        self._shard = shard
        self._rows = rows
        self._waiting = waiting
        self._task: asyncio.Task[DecodedBatch | None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # an error of what nobody waits for any more; the next run will meet it

    def begin(self) -> None:
        """Begin to fetch the next batch if there is something to fetch it from; do not wait for it."""
        if self._task is None:
            self._task = asyncio.create_task(self._fetch(0.0))

    async def next(self, wait: float) -> DecodedBatch | None:
        """Return the next batch, waiting so many seconds for its first delivery; None if there is none yet.

        Raises:
            PerpetuaError: See `Source.fetch`.
        """
        task, self._task = self._task, None
        batch = await task if task is not None else None
        return batch or await self._fetch(wait)

    async def _fetch(self, wait: float) -> DecodedBatch | None:
        if not self._waiting:
            self._waiting = await self._source.fetch(self._rows, wait)
        deliveries, self._waiting = self._waiting[: self._rows], self._waiting[self._rows :]
        return await asyncio.to_thread(self._shard.decode, deliveries) if deliveries else None
