"""The topics, each measured in a process of its own."""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from tests.benchmarks import (
    bisection,
    bus,
    classical,
    distribution,
    engine,
    ensemble,
    files,
    kafka,
    kafka_models,
    kafka_peers,
    mqtt,
    noise,
    planner,
    recovery,
    statistics,
    stumps,
    watching,
)
from tests.benchmarks.pairs import Row, Settings
from tests.support.broker import Broker

TOPICS: Final[Mapping[str, Callable[[Settings], Iterator[Row]]]] = {
    "noise": noise.measure,
    "engine": engine.measure,
    "memory": engine.measure_as_the_daemon,
    "stumps": stumps.measure,
    "classical": classical.measure,
    "bisection": bisection.measure,
    "statistics": statistics.measure,
    "distribution": distribution.measure,
    "ensemble": ensemble.measure,
    "recovery": recovery.measure,
    "planner": planner.measure,
    "bus": bus.measure,
    "files": files.measure,
    "scrape": watching.measure_scrape,
    "watching": watching.measure_cost,
    "kafka-json": kafka.measure_json,
    "kafka-arrow": kafka.measure_arrow,
    "kafka-delay": kafka.measure_delays,
    "kafka-processes": kafka.measure_processes,
    "kafka-models": kafka_models.measure,
    "kafka-peers": kafka_peers.measure,
    "mqtt": mqtt.measure,
}
"""What can be measured, in the order in which it is."""


def run(names: list[str], settings: Settings, say: Callable[[str], object]) -> list[Row]:
    """Measure the topics that are named.

    Args:
        names: Some of `TOPICS`.
        settings: How much to measure.
        say: Called with a line when a topic begins and at each measurement.
    """
    started = time.perf_counter()
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        for number, name in enumerate(names, 1):
            say(f"[{time.perf_counter() - started:5.0f} s] {name}: topic {number} of {len(names)}")
            if name.startswith("kafka") and settings.broker is None:
                settings = replace(settings, broker=stack.enter_context(_broker()))
            with ProcessPoolExecutor(1, get_context("spawn")) as alone:  # what one topic freed changes the next's heap
                for row in alone.submit(_rows, name, settings).result():
                    say(f"[{time.perf_counter() - started:5.0f} s]   {row.name}")
                    rows.append(row)
    return rows


@contextlib.contextmanager
def _broker() -> Iterator[Path]:
    """Run a broker that is made for speed, and lend its folder."""
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder) / "broker")
        broker.quick = False
        with broker:
            yield broker.folder


def _rows(name: str, settings: Settings) -> list[Row]:
    return list(TOPICS[name](settings))
