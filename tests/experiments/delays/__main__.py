"""`python -m tests.experiments.delays`: does it arrive at least 15 minutes late? DecisionPERP on real flights.

For each epsilon the oracle is planned and trained by its own commands, serves the queries over files, is killed on the
way, and goes on. Beside it: the best stump, and a private logistic regression. Writes build/delays.svg.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from oracle.planning.kinds import decode_plan
from oracle.planning.stumps.model import StumpsPlan
from oracle.state.folder import read_plan
from tests.experiments.delays.data import Delays, delays
from tests.experiments.delays.learners import best_stump, logistic
from tests.experiments.delays.plot import Point, draw
from tests.experiments.delays.served import model_text, predicted, serve_killed, write_rows

ALPHAS: Final = {0.5: 0.26, 1.0: 0.1, 2.0: 0.05, 4.0: 0.03}
"""For each epsilon about the least alpha that nine months of flights are enough for."""

_CRASH_AT: Final = 0.4
"""Part of the answers after which the daemon is killed."""

_WIDTH: Final = 130
"""Columns where standard output is no terminal."""


def main() -> None:
    """Run, print the table, write the files."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.delays", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="runs of each method at each epsilon")
    parser.add_argument("--folder", type=Path, default=Path("build"), help="where the files go")
    arguments = parser.parse_args()
    started = time.monotonic()
    task = delays()
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH)
    console.print(f"{len(task.rows):,} labelled flights to learn from, {len(task.queries):,} queries to answer")
    feature, edge, answers = best_stump(task)
    best, constant = float(np.mean(answers != task.truth)), float(min(task.truth.mean(), 1.0 - task.truth.mean()))
    console.print(f"the best stump, not private: {feature} >= {edge:g}, wrong on {best:.2%}; always no: {constant:.2%}")
    points: list[Point] = []
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("epsilon", "alpha", "rows wanted", "served", "mean of runs", "beyond best", "logistic regression"):
        table.add_column(name, justify="right")
    with tempfile.TemporaryDirectory() as name:
        write_rows(task, Path(name))
        for epsilon, alpha in ALPHAS.items():
            row = _one(task, Path(name), epsilon, alpha, arguments.runs, points)
            table.add_row(*row, f"{points[-2].mean - best:+.2%}", f"{points[-1].mean:.2%}")
            console.print(f"  epsilon {epsilon:g}: served, killed, served to the end")
    console.print(table)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    levels = [("best stump, not private", best), ("always no", constant)]
    title = f"At least 15 minutes late? {len(task.queries):,} queries after {len(task.rows):,} labelled flights"
    draw(points, levels, title, arguments.folder / "delays.svg")
    console.print(f"{arguments.folder}/delays.svg: written in {time.monotonic() - started:.0f} s")


def _one(task: Delays, folder: Path, epsilon: float, alpha: float, runs: int, points: list[Point]) -> list[str]:  # noqa: PLR0913, PLR0917 -- one row of the table
    model = model_text(epsilon, alpha, len(task.rows))
    served = float(np.mean(serve_killed(folder, model, int(_CRASH_AT * len(task.queries))) != task.truth))
    data = read_plan(max(folder.glob("state-*[0-9]"), key=lambda path: path.stat().st_mtime))
    assert data is not None
    plan = decode_plan(data)
    assert isinstance(plan, StumpsPlan)
    again = [predicted(task, plan, bytes([number] * 32)) for number in range(runs - 1)]
    errors = (served, *(float(np.mean(labels != task.truth)) for labels in again))
    points.append(Point("perpetua", epsilon, errors, f"alpha {alpha:g}"))
    others = [logistic(task, epsilon, seed) for seed in range(runs)]
    points.append(Point("logistic", epsilon, tuple(float(np.mean(labels != task.truth)) for labels in others)))
    return [f"{epsilon:g}", f"{alpha:g}", f"{plan.examples:,}", f"{served:.2%}", f"{points[-2].mean:.2%}"]


if __name__ == "__main__":
    main()
