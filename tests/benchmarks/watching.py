"""What it costs to be monitored: one rendering of the metrics, and the daemon's rate with a scrape a second."""

import contextlib
import http.client
import io
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from connectors.base import Lag
from oracle.predictors.base import PublicFacts
from oracle.telemetry.log import PublicLog
from oracle.telemetry.metrics import Format, Metrics, encode
from oracle.telemetry.records import Work
from oracle.telemetry.registry import Registry
from tests.benchmarks.daemon import Bench
from tests.benchmarks.pairs import Floor, Measure, Row, Settings, paired
from tests.benchmarks.states import box_plan
from tests.support.ports import free_port

_SHARDS: Final = 64
_SCRAPE: Final = Floor("value", 60.0, above=False)
_COST: Final = Floor("ratio", 0.98)


def measure_scrape(settings: Settings) -> Iterator[Row]:
    """Measure the CPU time of collecting and encoding every metric of 64 shards."""
    metrics = _metrics_of_shards(settings)
    collected: Any = SimpleNamespace(collect=list(metrics.collector().collect()).__iter__)
    whole = _milliseconds(lambda: encode(metrics.collector(), Format.TEXT))
    value, baseline = paired(settings, whole, _milliseconds(lambda: encode(collected, Format.TEXT)))
    name = f"scrape, metrics of {_SHARDS} shards, against encoding them only"
    yield Row(name, value, "ms", baseline, _SCRAPE)


def _metrics_of_shards(settings: Settings) -> Metrics:
    """Return the metrics of a process whose shards have all that can be told of one."""
    plan = box_plan(settings.narrow, settings.epsilon)
    registry = Registry(plan, PublicLog(io.StringIO()), version="bench")
    metrics = Metrics(registry, unready=frozenset, now=time.time)
    facts = PublicFacts(round=20, phase=1, phase_round=20, phase_rounds=plan.phases[0].rounds, rearms=0)
    for shard in range(_SHARDS):
        reporter = registry.shard(shard)
        reporter.restoring(lambda: Lag(3, 1.5))
        reporter.snapshot_read(facts, time.time(), 84_000)
        reporter.restored(facts, 3, 0.2)
        reporter.serving()
        reporter.committed(facts, [], phase_ended=False)
        for work in Work:
            reporter.took(work, 0.01)
    return metrics


def _milliseconds(work: Callable[[], object]) -> Measure:
    def measure() -> float:
        started = time.process_time()
        work()
        return 1e3 * (time.process_time() - started)

    return measure


def measure_cost(settings: Settings) -> Iterator[Row]:
    """Measure queries a second, from the first to the last, with a web server that is scraped, and without one."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        bench = Bench(
            Path(folder), box_plan(settings.narrow, settings.epsilon), "parquet", settings.parquet_rows, web_port=port
        )

        def monitored() -> float:
            with _scraped(port):
                return bench.rows / bench.serve(monitored=True).serving_seconds

        value, baseline = paired(settings, monitored, lambda: bench.rows / bench.serve().serving_seconds)
        name = "watching, Parquet in and out with a scrape a second, against no web server"
        yield Row(name, value, "queries/s", baseline, _COST)


@contextlib.contextmanager
def _scraped(port: int) -> Iterator[None]:
    """Ask a daemon for its metrics once a second, whenever it is there."""
    over = threading.Event()

    def scrape() -> None:
        while not over.wait(1.0):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            with contextlib.suppress(OSError, http.client.HTTPException):  # it is not there yet, or no more
                connection.request("GET", "/metrics")
                connection.getresponse().read()
            connection.close()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
