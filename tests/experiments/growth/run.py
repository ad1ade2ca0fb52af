"""Runs a shard for many rounds, and measures what may not grow with them."""

import gc
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from connectors.base import ARROW_STREAM, Delivery
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.plan import BoxPlan
from oracle.predictors.rectangles import RectanglesPERP
from oracle.runtime.shard import Shard
from oracle.state.folder import FolderStore
from oracle.state.format import Snapshot, encode
from oracle.state.shard_id import ShardId
from tests.benchmarks.states import query_body, snapshot_of
from tests.support.shards import process

_BATCH: Final = 16_384
_KEY: Final = bytes(32)


@dataclass(frozen=True)
class Figures:
    """What was measured at one moment.

    Attributes:
        rounds: Rounds answered so far.
        phase: The phase they have come to.
        rearms: Sides armed afresh so far.
        resident: Memory of the process, bytes, after a garbage collection.
        planned: The plan's figure for the private arrays and noise tables of the phase, bytes.
        snapshot: Size of the snapshot's file, bytes.
        blank: Size of a snapshot of a state of this plan and phase that has never seen a record, bytes.
        write_seconds: Making the snapshot durable.
        start_seconds: From the file to a shard that can answer.
        seconds: Since the run's beginning.
    """

    rounds: int
    phase: int
    rearms: int
    resident: int
    planned: int
    snapshot: int
    blank: int
    write_seconds: float
    start_seconds: float
    seconds: float


def blank_snapshot_bytes(plan: BoxPlan, phase: int) -> int:
    """Return the size of the snapshot of a state in `phase` that holds no point at all."""
    predictor = RectanglesPERP(plan, PhaseKey(_KEY), phase=phase)
    points = plan.phases[phase - 1].start.points
    predictor.arm([np.full(points, np.inf) for _ in plan.sides])
    snapshot = Snapshot(
        plan_digest=plan.digest,
        generation=1,
        position=0,
        round=0,
        phase=phase,
        rearms=0,
        tag=bytes(16),
        arrays=predictor.export(),
    ).bound(ShardId(0, 1))
    return len(encode(snapshot, _KEY))


def grow(
    plan: BoxPlan, folder: Path, marks: Iterable[int], progress: Callable[[int], None] = lambda _rounds: None
) -> list[Figures]:
    """Answer uniform queries, always new ones, and measure at each mark; each time go on with the restored shard.

    Args:
        plan: The plan.
        folder: Where snapshots go.
        marks: Numbers of rounds, rising.
        progress: Called with the rounds answered.
    """
    generator = np.random.default_rng(3)
    started = time.perf_counter()
    found: list[Figures] = []
    with FolderStore.open(folder, _KEY) as store:
        store.write_plan(plan.encode())
        store.save(snapshot_of(plan))
        shard = _start(plan, store)
        for mark in marks:
            while (left := mark - shard.position) > 0:
                rows = generator.random((min(left, _BATCH), len(plan.features)))
                position = shard.position + len(rows)
                process(shard, [Delivery(position, query_body(rows), ARROW_STREAM)])
                shard.settle()
                progress(position)
            figures, shard = _measure(plan, shard, store, started)
            found.append(figures)
    return found


def _start(plan: BoxPlan, store: FolderStore) -> Shard:
    snapshot = store.load_latest(plan.digest)
    assert snapshot is not None
    return Shard(plan, snapshot)


def _measure(plan: BoxPlan, shard: Shard, store: FolderStore, started: float) -> tuple[Figures, Shard]:
    gc.collect()
    resident = psutil.Process().memory_info().rss
    facts, mark = shard.facts(), shard.mark
    snapshot = shard.snapshot()
    begun = time.perf_counter()
    store.save(snapshot)
    written = time.perf_counter()
    again = _start(plan, store)
    restored = time.perf_counter()
    assert again.mark == mark
    header = store.peek()
    figures = Figures(
        rounds=facts.round,
        phase=facts.phase,
        rearms=facts.rearms,
        resident=resident,
        planned=plan.phases[facts.phase - 1].memory_bytes,
        snapshot=0 if header is None else header.total_bytes,
        blank=blank_snapshot_bytes(plan, facts.phase),
        write_seconds=written - begun,
        start_seconds=restored - written,
        seconds=written - started,
    )
    return figures, again
