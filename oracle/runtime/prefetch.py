"""Fetching and decoding the next batch while the last one is being answered, and others are being committed."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from connectors.base import Delivery, Source
from oracle.codec.batches import DecodedBatch
from oracle.runtime.shard import Shard

__all__ = ["Prefetch"]


class Prefetch:
    """Hands out decoded batches in order, at most one of them ahead. Decoding looks at no state, so no answer changes.

    What was fetched ahead and never handed out is simply read again by the next run.

    Args:
        source: Open.
        shard: Decodes.
        rows: Most deliveries of a batch.
        wait: Seconds to wait for a batch's first delivery.
        waiting: Deliveries that were fetched already.
        first: Most deliveries of the first batch; each may have twice as many as the last, up to `rows`.
    """

    def __init__(  # noqa: PLR0913, PLR0917 -- its parts
        self,
        source: Source,
        shard: Shard,
        rows: int,
        wait: float,
        waiting: Sequence[Delivery] = (),
        first: int | None = None,
    ) -> None:
        self._source = source
        self._shard = shard
        self._rows = rows
        self._now = first or rows
        self._wait = wait
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

    @property
    def careful(self) -> bool:
        """Whether each batch is to be durable before the next is answered, so that what a batch ends on can be found.

        That is so while batches are not as large yet as they may be, and where they are to have one message each.
        """
        return self._now < self._rows or self._rows == 1

    def begin(self) -> asyncio.Task[DecodedBatch | None]:
        """Begin to fetch the next batch, if that was not begun, and return the task that does."""
        if self._task is None:
            self._task = asyncio.create_task(self._fetch())
        return self._task

    async def next(self) -> DecodedBatch | None:
        """Return the next batch; None if there is none yet.

        Raises:
            PerpetuaError: See `Source.fetch`.
        """
        batch = await self.begin()
        self._task = None
        return batch

    async def _fetch(self) -> DecodedBatch | None:
        if not self._waiting:
            self._waiting = await self._source.fetch(self._rows, self._wait)
        if not self._waiting:
            return None
        rows, self._now = self._now, min(2 * self._now, self._rows)
        batch = await asyncio.to_thread(self._shard.decode_leading, self._waiting[:rows])
        self._waiting = self._waiting[len(batch.deliveries) :]
        return batch
