"""A small model in memory: its plan, its first snapshot, its queries, and the deliveries that carry them.

The plan is one in form only (`tests.predictors.plans`): four phases of some 250 rounds, re-arms in between.
"""

import asyncio
import io
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from connectors.base import ARROW_STREAM, Commit, Deliveries, Delivery
from oracle.codec.guarded import Codec
from oracle.codec.kinds import codec_of
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.questions import QuestionPlan
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.base import StateArrays
from oracle.predictors.kinds import new_trainer, restore_predictor
from oracle.runtime.daemon import Daemon, DaemonSettings
from oracle.runtime.marks import CommitMark
from oracle.runtime.shard import Outcome, Restore, Shard
from oracle.runtime.together import Together
from oracle.state.format import Snapshot
from oracle.state.shard_id import ShardId
from oracle.telemetry.log import PublicLog
from oracle.telemetry.reporter import Reporter
from tests.predictors.plans import feature, tiny_plan
from tests.predictors.tables import drawn_messages, random_rows
from tests.predictors.texts import as_rows
from tests.support.memory_bus import Abort, MemoryLog, MemorySink, MemorySource
from tests.support.stores import MemoryStore
from tests.support.tables import table_cells
from tests.support.waiting import until

SECRET = bytes(range(32))
MASTER_KEY = bytes(range(32, 64))


@cache
def small_plan() -> BoxPlan:
    """Return the plan: features a and b, three phases."""
    return tiny_plan([feature("a"), feature("b")])


_PAIR: Final = ("a", "b")
"""The attributes of `paying_plan`, whose rows are its own."""


@cache
def first_snapshot(plan: Plan | None = None, secret: bytes = SECRET) -> Snapshot:
    """Return the snapshot that `perpetua init` would make of uniform rows, nine tenths of each axis positive.

    Of a distribution all are there. Of a table: of those that `tests.predictors.tables` draws, or of two attributes
    `tests.support.tables`.
    """
    plan = plan or small_plan()
    trainer = new_trainer(plan, secret)
    if isinstance(plan, TablePlan):  # what it pays for stands in snapshots that are bound to a shard only
        rows, there = random_rows(plan, 1)
        trainer.add(table_cells(plan) if len(plan.attributes) == len(_PAIR) else rows, there)
        return Snapshot.first(plan.digest, trainer.finish().export()).bound(ShardId(0, 1))
    rows = np.random.default_rng(1).random((plan.declared, len(plan.features)))
    labels = np.asarray(((rows > 0.05) & (rows < 0.95)).all(axis=1)) | isinstance(plan, DistributionPlan)
    trainer.add(as_rows(plan.features, rows), labels)
    return Snapshot.first(plan.digest, trainer.finish().export())


def new_shard(plan: Plan | None = None, secret: bytes = SECRET) -> Shard:
    """Return a shard at its beginning."""
    plan = plan or small_plan()
    return Shard(plan, first_snapshot(plan, secret))


def new_store(plan: Plan | None = None) -> MemoryStore:
    """Return a store that holds the first snapshot."""
    store = MemoryStore(MASTER_KEY)
    store.save(first_snapshot(plan or small_plan()))
    return store


def bodies(count: int, seed: int = 1, plan: Plan | None = None) -> list[bytes]:
    """Return JSON queries with ids q0, q1, ..., of which about a quarter lies near some side; or questions."""
    if isinstance(plan, QuestionPlan):
        return drawn_messages(plan, count, seed)
    rows = np.random.default_rng(seed).uniform(-0.1, 1.1, (count, 2)).tolist()
    return [json.dumps({"id": f"q{number}", "x": row}).encode() for number, row in enumerate(rows)]


def mixed_bodies(count: int, seed: int = 1, plan: Plan | None = None) -> list[bytes | None]:
    """Return queries with rejects and tombstones among them."""
    contents: list[bytes | None] = [*bodies(count, seed, plan)]
    contents[::9] = [None] * len(contents[::9])
    contents[4::25] = [b"?"] * len(contents[4::25])
    return contents


def arrow_body(table: pa.Table) -> bytes:
    """Return a table as an Arrow IPC stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def deliveries_of(contents: Sequence[bytes | None], content_type: str | None = None) -> list[Delivery]:
    """Return deliveries at positions 1, 2, ...; a body that is an Arrow stream is declared as one."""
    result = []
    for position, body in enumerate(contents, 1):
        kind = ARROW_STREAM if body is not None and body.startswith(b"\xff\xff\xff\xff") else "application/json"
        result.append(Delivery(position, body, content_type or kind))
    return result


@dataclass(frozen=True)
class Run:
    """All that a stretch of processing shows."""

    replies: list[bytes]
    ledger: list[bytes]
    mark: CommitMark
    position: int


def process(shard: Shard, deliveries: Iterable[Delivery]) -> Outcome:
    """Process deliveries as one batch."""
    return shard.process(shard.decode(Deliveries.of(deliveries)))


def process_in_batches(shard: Shard, deliveries: Sequence[Delivery], cuts: Sequence[int] = ()) -> Run:
    """Process deliveries cut into batches."""
    bounds = sorted({0, *cuts, len(deliveries)})
    commits: list[Commit] = []
    for start, stop in itertools.pairwise(bounds):
        commit = process(shard, deliveries[start:stop]).commit
        assert len(commit.replies) == stop - start
        commits.append(commit)
    return Run(
        [reply.body for commit in commits for reply in commit.replies.rows()],
        [event for commit in commits for event in commit.ledger],
        shard.mark,
        shard.position,
    )


def state_of(shard: Shard) -> StateArrays:
    """Return the predictor's whole state."""
    return shard._predictor.export()


def same_state(left: StateArrays, right: StateArrays) -> bool:
    """Compare two states bit by bit."""
    return left.keys() == right.keys() and all(
        (array.dtype, array.shape, array.tobytes()) == (right[name].dtype, right[name].shape, right[name].tobytes())
        for name, array in left.items()
    )


class CountingSource(MemorySource):
    """Counts how often it was asked, so that a test need not guess how long a daemon takes to look at its clock."""

    def __init__(self, log: MemoryLog | Sequence[Delivery | Abort]) -> None:
        super().__init__(log)
        self.fetches = 0

    async def fetch(self, limit: int, wait: float) -> Deliveries:
        """See `connectors.base.Source.fetch`."""
        self.fetches += 1
        return await super().fetch(limit, wait)

    async def asked_again(self, times: int = 3) -> None:
        """Wait until the daemon has asked so often more: it has then done all there was to do."""
        before = self.fetches
        await until(lambda: self.fetches >= before + times)


def daemon_over(  # noqa: PLR0913 -- each is one thing that tests vary
    log: MemoryLog | Sequence[Delivery | Abort],
    store: MemoryStore,
    sink: MemorySink,
    *,
    source: MemorySource | None = None,
    plan: Plan | None = None,
    batch_rows: int = 64,
    snapshot_rounds: int = 150,
    snapshot_seconds: float = 1e9,
    output: io.StringIO | None = None,
    clock: Callable[[], float] = time.monotonic,
    reporter: Reporter | None = None,
    restore: Restore = restore_predictor,
    codec: Callable[[Plan], Codec] = codec_of,
    paused: Callable[[], bool] = lambda: False,
    warm: Callable[[], Awaitable[Shard | None]] | None = None,
    together: Together | None = None,
) -> Daemon:
    """Return a daemon over memory connectors."""
    plan = plan or small_plan()
    return Daemon(
        plan=plan,
        store=store,
        source=source or MemorySource(log),
        sink=sink,
        reporter=reporter or Reporter(plan, PublicLog(output or io.StringIO(), "json", "tiny")),
        settings=DaemonSettings(
            batch_rows=batch_rows, snapshot_rounds=snapshot_rounds, snapshot_seconds=snapshot_seconds
        ),
        clock=clock,
        restore=restore,
        codec=codec,
        paused=paused,
        warm=warm,
        together=together,
    )


def run_daemon(daemon: Daemon) -> int:
    """Run a daemon to its end."""
    return asyncio.run(daemon.run())
