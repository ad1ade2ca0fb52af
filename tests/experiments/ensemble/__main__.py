"""`python -m tests.experiments.ensemble`: ensembles over ten phases, on real data.

The predictor is the one that is served, trained on the declared rows; queries are other rows, drawn again and again.
Phases grow threefold in a plan; here those that would be longer than --longest are cut short.
Writes build/ensemble/NAME.md, .npz and .svg.
"""

import argparse
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console

from oracle.cli.progress import Progress
from tests.experiments.ensemble.plot import draw
from tests.experiments.ensemble.report import markdown
from tests.experiments.ensemble.runs import Phases, Setting, cut, planned, play
from tests.experiments.ensemble.tasks import TASKS

_FOLDER: Final = Path("build/ensemble")

SETTINGS: Final = {
    "flights": ("flights", Setting(examples=30_000)),
    "census": ("census", Setting(examples=100_000, contested=0.1, parameters={"max_depth": 4})),
    "delays": ("delays", Setting(examples=60_000, contested=0.08, parameters={"max_depth": 3})),
    "linear": (
        "flights",
        Setting(
            examples=30_000,
            contested=0.1,
            learner="sklearn.linear_model.RidgeClassifier",
            parameters={},
        ),
    ),
}
"""By name: the data, and what the model declares."""


def main() -> None:
    """Run, print the tables, write the files."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.ensemble", description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(SETTINGS), default=["flights", "census"])
    parser.add_argument("--phases", type=int, default=10)
    parser.add_argument("--longest", type=float, default=324_000, help="rounds of a phase at most")
    parser.add_argument("--keys", type=int, default=3, help="runs of each, under keys of their own")
    chosen = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    for name in chosen.only:
        data, setting = SETTINGS[name]
        task = TASKS[data]()
        plan = cut(planned(task, setting), round(chosen.longest))
        rounds = sum(phase.rounds for phase in plan.phases[: chosen.phases])
        runs: list[Phases] = []
        for key in range(chosen.keys):
            with Progress(f"{name}, key {key + 1}", rounds, "rounds") as progress:
                runs.append(play(plan, task, chosen.phases, key, progress.at))
        made = markdown(task, plan, runs)
        (_FOLDER / f"{name}.md").write_text(made, encoding="utf-8")
        np.savez(_FOLDER / f"{name}.npz", said=[run.said for run in runs], thresholds=[run.thresholds for run in runs])
        console.print(made, markup=False)
        draw(task.title, runs, _FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
