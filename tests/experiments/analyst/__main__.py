"""`python -m tests.experiments.analyst`: 20,000 questions about real flights, each chosen by the answers before.

The oracle is planned and trained by its own commands and serves over a Kafka broker (--kafka), or over its standard
streams. An analyst drills down, always into the group that differs most from what was expected of it. Written are
FOLDER/statistics.png, the errors and what was paid for over time, and FOLDER/page.png, the status page on the way.
"""

import argparse
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from oracle.planning.kinds import decode_plan
from oracle.planning.statistics.model import StatisticsPlan
from oracle.state.folder import read_plan
from tests.experiments.analyst.analyst import Asked, drill_down
from tests.experiments.analyst.counting import epsilon_for, error_of, first_lost
from tests.experiments.analyst.plot import Run, draw
from tests.experiments.analyst.serving import Daemon, run
from tests.experiments.analyst.table import FLIGHTS, Counts, flights, model_text, write_rows

_ALPHA, _PAID = 0.0075, 50
"""About what as many Gaussian counts err by at most."""

_WIDTH = 110
"""Columns where standard output is no terminal."""


def main() -> None:
    """Run, print what came of it, write the files."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.analyst", description=__doc__)
    parser.add_argument("--kafka", metavar="HOST:PORT", help="serve over this broker")
    parser.add_argument("--questions", type=int, default=20_000, help="how many are asked")
    parser.add_argument("--folder", type=Path, default=Path("build/demo-statistics"), help="made anew each time")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=_WIDTH)
    folder: Path = arguments.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    table = flights()
    counts = Counts.of(FLIGHTS, table)
    write_rows(table, folder / "flights.parquet")
    (folder / "model.toml").write_text(model_text(FLIGHTS, table.num_rows, alpha=_ALPHA, paid=_PAID))
    console.print(f"{table.num_rows:,} flights in a table of {counts.cube.size:,} cells")
    run("init", folder / "model.toml", "--data", folder / "flights.parquet", "--state", folder / "state")
    found = read_plan(folder / "state")
    assert found is not None
    plan = decode_plan(found)
    assert isinstance(plan, StatisticsPlan)
    asked, seconds = _ask(plan, Daemon(folder, arguments.kafka), arguments.questions, folder, console)
    errors = np.array([abs(one.value - counts.share(one.where)) for one in asked])
    paid = np.array([one.paid for one in asked])
    measured = Run(errors, paid, plan.alpha, plan.paid, error_of(plan, len(asked)))
    draw(
        measured,
        f"{len(asked):,} questions about {table.num_rows:,} flights, epsilon {plan.epsilon:g}",
        folder / "statistics.png",
    )
    console.print(_summary(plan, measured, asked, seconds))
    console.print(f"{folder / 'statistics.png'}: the errors, and what was paid for, over time")


def _ask(
    plan: StatisticsPlan, daemon: Daemon, questions: int, folder: Path, console: Console
) -> tuple[list[Asked], float]:
    """Ask, and look at the page on the way; return the answers, and the seconds they took."""
    asked: list[Asked] = []
    with daemon.serving() as ask:
        console.print(f"serving; the status page is {daemon.page}")
        started, looked = time.monotonic(), 0.0
        for one in drill_down(plan.attributes, ask, questions):
            asked.append(one)
            if len(asked) % (questions // 4) == 0:
                begun = time.monotonic()
                console.print(_line(len(asked), daemon.status()))
                if len(asked) == questions // 2 and daemon.picture(folder / "page.png"):
                    console.print(f"{folder / 'page.png'}: the status page now")
                looked += time.monotonic() - begun
        return asked, time.monotonic() - started - looked


def _line(count: int, status: Mapping[str, Any]) -> str:
    """Return what the page says of the budget."""
    left = status["paid_limit"] - status["shards"][0]["paid"]
    return (
        f"  {count:,} answers; the page says: epsilon = {status['epsilon']:g}, delta = {status['delta_limit']:g}, "
        f"paid answers left {left:,} of {status['paid_limit']:,}, error at most {status['promise']['bound']:.2%}"
    )


def _summary(plan: StatisticsPlan, measured: Run, asked: list[Asked], seconds: float) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    errors = measured.errors
    several = sum(len(one.where) > 1 for one in asked)
    rows = [
        ("questions", f"{len(asked):,} different ones, {several:,} of two attributes or more"),
        ("privacy", f"epsilon = {plan.epsilon:g}, delta = {plan.delta:g} of each flight, for all of them together"),
        ("paid for", f"{measured.paid[-1]:,} of {plan.paid:,}"),
        ("error", f"largest {errors.max():.2%}, mean {errors.mean():.3%}; promised {plan.alpha:.2%}"),
        ("verified", f"{sum(one.verified for one in asked):,}"),
        ("speed", f"{len(asked) / seconds:,.0f} questions a second, one group's parts at a time"),
        ("a Gaussian count each", f"errs by {measured.counts_error:.2%} at most, at the same epsilon, delta and beta"),
        ("", f"to err by {errors.max():.2%} it costs epsilon = {epsilon_for(plan, len(asked), errors.max()):.2g}"),
        (
            "",
            f"errs by more than {plan.alpha:.2%} from {first_lost(plan):,} questions on; here no question is the last",
        ),
    ]
    for row in rows:
        table.add_row(*row)
    return table


if __name__ == "__main__":
    main()
