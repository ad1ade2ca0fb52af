"""`python -m tests.benchmarks`: measures what is promised about speed, and writes it to `build/benchmarks.json`.

A value and its baseline are measured in turns within one run, so compare ratios; the values are this machine's. Exits
with 0 whether or not a promise is kept: the table says which is not.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.benchmarks import bus, engine, noise, planner, recovery
from tests.benchmarks.pairs import Row, Settings
from tests.benchmarks.report import table, write

__all__ = ["TOPICS", "run"]

TOPICS: Final[Mapping[str, Callable[[Settings], Iterator[Row]]]] = {
    "noise": noise.measure,
    "engine": engine.measure,
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
        for row in TOPICS[name](settings):
            say(f"[{time.perf_counter() - started:5.0f} s]   {row.name}")
            rows.append(row)
    return rows


def main() -> None:
    """Measure, write the file, print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(TOPICS), help="a topic; may be given again")
    parser.add_argument("--seconds", type=float, default=Settings.seconds, help="for each pair (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks.json"), help="default %(default)s")
    chosen = parser.parse_args()
    settings = Settings(seconds=chosen.seconds)
    rows = run(chosen.only or list(TOPICS), settings, lambda line: sys.stderr.write(line + "\n"))
    write(chosen.out, rows)
    sys.stdout.write(f"{table(rows)}\n{chosen.out}\n")


if __name__ == "__main__":
    main()
