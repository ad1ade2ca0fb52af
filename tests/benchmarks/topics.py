"""The topics, each measured in a process of its own."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from tests.benchmarks import bus, engine, noise, planner, recovery
from tests.benchmarks.pairs import Row, Settings

__all__ = ["TOPICS", "run"]

TOPICS: Final[Mapping[str, Callable[[Settings], Iterator[Row]]]] = {
    "noise": noise.measure,
    "engine": engine.measure,
    "memory": engine.measure_as_the_daemon,
    "recovery": recovery.measure,
    "planner": planner.measure,
    "bus": bus.measure,
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
    for number, name in enumerate(names, 1):
        say(f"[{time.perf_counter() - started:5.0f} s] {name}: topic {number} of {len(names)}")
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:  # what one topic freed changes the next one's heap
            for row in alone.submit(_rows, name, settings).result():
                say(f"[{time.perf_counter() - started:5.0f} s]   {row.name}")
                rows.append(row)
    return rows


def _rows(name: str, settings: Settings) -> list[Row]:
    return list(TOPICS[name](settings))
