"""`python -m tests.experiments.learner`: will a flight be late, is an income high? Private trees answer over Kafka.

The oracle is planned and trained by its own commands and serves over a Kafka broker (--kafka), or over its standard
streams, through the ends of two phases: its teachers are then fitted anew, to what they have answered.
"""

import argparse
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from tests.experiments.analyst.serving import Daemon, run
from tests.experiments.learner import census, flights
from tests.experiments.learner.task import Task

_CHUNK: Final = 2_000
"""Queries that are asked before their answers are waited for."""

_WIDTH: Final = 110
"""Columns where standard output is no terminal."""


def main() -> None:
    """Run, print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.learner", description=__doc__)
    parser.add_argument("--kafka", metavar="HOST:PORT", help="serve over this broker")
    parser.add_argument("--data", choices=("flights", "census"), default="flights", help="who asks")
    parser.add_argument("--queries", type=int, help="how many are asked (80,000; of census income 199,000)")
    parser.add_argument("--in-time", action="store_true", help="flights ask in time order, October to December")
    parser.add_argument("--folder", type=Path, default=Path("build/demo-ensemble"), help="made anew each time")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=_WIDTH)
    folder: Path = arguments.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if arguments.data == "census":
        task = census.task(census.EXAMPLES, arguments.queries or 199_000)
    else:
        task = flights.task(flights.EXAMPLES, arguments.queries or 80_000, in_time=arguments.in_time)
    (folder / "model.toml").write_text(task.model)
    task.train.to_parquet(folder / "rows.parquet", index=False)
    run("init", folder / "model.toml", "--data", folder / "rows.parquet", "--state", folder / "state")
    console.print(f"{len(task.train):,} labelled rows, epsilon = 4 for each of them, and for each that asks")
    daemon = Daemon(folder, arguments.kafka)
    console.print(f"serving; the status page is {daemon.page}")
    console.print(summary(task, ask_all(daemon, task)))
    console.print(f"{folder}: the model file, the state, the log and what `perpetua status` reads")


def ask_all(daemon: Daemon, task: Task) -> list[Mapping[str, Any]]:
    """Serve, ask one row after another, and return the answers."""
    rows = task.asked.astype(object).where(task.asked.notna(), None).to_numpy().tolist()
    bodies = [msgspec.json.encode({"id": number, "x": row}) for number, row in enumerate(rows)]
    answers: list[Mapping[str, Any]] = []
    with daemon.serving() as ask:
        for start in range(0, len(bodies), _CHUNK):
            answers += ask(bodies[start : start + _CHUNK])
    return answers


def summary(task: Task, answers: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of how the answers were in each phase; those that rested count as none."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("phase", "answered", "resting", "wrong", f'said "{task.rare}"', f'were "{task.rare}"'):
        table.add_column(name, justify="right")
    phases = np.array([answer["phase"] for answer in answers])
    labels = np.array([answer.get("label", "").strip() for answer in answers])
    for phase in np.unique(phases):
        there = (phases == phase) & (labels != "")
        said, true = labels[there], task.truth[: len(labels)][there]
        table.add_row(
            str(phase),
            f"{there.sum():,}",
            f"{(phases == phase).sum() - there.sum():,}",
            f"{np.mean(said != true):.2%}",
            f"{np.mean(said == task.rare):.1%}",
            f"{np.mean(true == task.rare):.1%}",
        )
    return table


if __name__ == "__main__":
    main()
