"""The file bus from end to end: the daemon on files, against the engine alone and against a JSON parser alone."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from tests.benchmarks.daemon import Bench
from tests.benchmarks.engine import alone
from tests.benchmarks.pairs import Floor, Row, Settings, paired, wall_rate
from tests.benchmarks.states import box_plan

_UNIT: Final = "queries/s"


def measure(settings: Settings) -> Iterator[Row]:
    """Measure queries a second, from the daemon's first log line to its last, all files closed."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), box_plan(settings.narrow, settings.epsilon), "parquet", settings.parquet_rows)
        engine = alone(bench.plan, bench.rows)
        value, baseline = paired(settings, lambda: bench.rows / bench.serve().seconds, engine)
        name = "bus, Parquet in and out, against the engine alone"
        yield Row(name, value, _UNIT, baseline, Floor("ratio", 0.5))
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), box_plan(settings.narrow, settings.epsilon), "jsonl", settings.jsonl_rows)
        lines, decode = bench.lines(), msgspec.json.decode
        parser = wall_rate(len(lines), lambda: [decode(line) for line in lines])
        value, baseline = paired(settings, lambda: bench.rows / bench.serve().seconds, parser)
        name = "bus, JSONL in and out, against parsing its lines alone"
        yield Row(name, value, _UNIT, baseline, Floor("value", 150_000.0))
