"""Recovery: the state back from its file, and re-execution up to the last commit."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from oracle.planning.kinds import decode_plan
from oracle.planning.plan import BoxPlan
from oracle.runtime.shard import Shard
from oracle.state.folder import FolderStore
from tests.benchmarks.daemon import Bench
from tests.benchmarks.engine import alone
from tests.benchmarks.pairs import Floor, Measure, Row, Settings, paired
from tests.benchmarks.states import box_plan, snapshot_of
from tests.support.shards import MASTER_KEY

_RATE: Final = Floor("ratio", 0.8)
"""The engine's own rate is promised; a fifth is left for reading and decoding the log."""


def measure(settings: Settings) -> Iterator[Row]:
    """Measure both."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), box_plan(settings.narrow, settings.epsilon), "parquet", settings.parquet_rows)
        bench.serve()
        engine = alone(bench.plan, bench.rows)
        value, baseline = paired(settings, lambda: _again(bench), engine)
        name = "recovery, re-execution from Parquet, against the engine alone"
        yield Row(name, value, "rounds/s", baseline, _RATE)
    with tempfile.TemporaryDirectory() as folder:
        wide, narrow = (
            _restoring(Path(folder) / str(dimension), box_plan(dimension, settings.epsilon))
            for dimension in (settings.wide, settings.narrow)
        )
        value, baseline = paired(settings, wide, narrow)
        name = f"recovery, state of {2 * settings.wide} sides from its file, against {2 * settings.narrow} sides"
        yield Row(name, value, "s", baseline, Floor("value", 1.0, above=False))


def _again(bench: Bench) -> float:
    served = bench.serve(again=True)
    return served.recovered_rounds / served.recovered_seconds


def _restoring(folder: Path, plan: BoxPlan) -> Measure:
    """Return the seconds from an encrypted file to a shard that can answer."""
    with FolderStore.open(folder, MASTER_KEY) as store:
        store.write_plan(plan.encode())
        store.save(snapshot_of(plan))

    def work() -> float:
        started = time.perf_counter()
        with FolderStore.open(folder, MASTER_KEY) as store:
            data = store.read_plan()
            assert data is not None
            decoded = decode_plan(data)
            snapshot = store.load_latest(decoded.digest)
            assert snapshot is not None
            Shard(decoded, snapshot)
        return time.perf_counter() - started

    return work
