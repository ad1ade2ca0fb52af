"""What was fetched is handed out in order, whole, whatever the batches are cut to."""

from types import SimpleNamespace
from typing import Any

from connectors.local.memory import MemoryLog, MemorySource
from oracle.runtime.prefetch import Prefetch
from tests.support.shards import bodies


async def test_what_a_batch_leaves_comes_next():
    """A batch may end before the rows that were asked for: no delivery is lost, and none comes twice."""
    log = MemoryLog()
    for body in bodies(7):
        log.append(body)
    source = MemorySource(log)
    await source.open(None)
    shard: Any = SimpleNamespace(decode_leading=lambda some: SimpleNamespace(deliveries=some[:2]))
    handed: list[int] = []
    async with Prefetch(source, shard, rows=3, wait=0.0) as prefetch:
        while (batch := await prefetch.next()) is not None:
            handed += [delivery.position for delivery in batch.deliveries]
    assert handed == [1, 2, 3, 4, 5, 6, 7]
