"""Stumps, classical and bisection from end to end: the daemon on Parquet files, against each one's engine alone."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.daemon import Bench
from tests.benchmarks.engine import alone
from tests.benchmarks.pairs import Row, Settings, paired
from tests.benchmarks.states import bisection_plan, classical_plan, stumps_plan

_PART = 8
"""Bisection, which takes longer, is asked one in so many of the queries, all of which it learns from."""


def measure(settings: Settings) -> Iterator[Row]:
    """Measure queries a second, from the daemon's first log line to its last, all files closed."""
    rows, narrow, epsilon = settings.parquet_rows, settings.narrow, settings.epsilon
    for plan, count, lines in (
        (stumps_plan(narrow, epsilon), rows, ""),
        (classical_plan(narrow, epsilon), rows, ""),
        (bisection_plan(narrow, epsilon, rows // _PART), rows // _PART, f"rounds = {rows // _PART}"),
    ):
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Path(folder), plan, "parquet", count, settings=lines)
            engine = alone(bench.plan, bench.rows)
            value, baseline = paired(settings, lambda: bench.rows / bench.serve().seconds, engine)  # noqa: B023 -- here
        name = f"files, {plan.predictor}, Parquet in and out, against its engine alone"
        yield Row(name, value, "queries/s", baseline)
