"""`python -m tests.experiments.growth --rounds 1e9`: memory, snapshot and start-up over one shard's life."""

import argparse
import sys
import tempfile
from pathlib import Path

from oracle.cli.progress import Progress
from tests.benchmarks.states import box_plan
from tests.experiments.growth.report import broken, table
from tests.experiments.growth.run import grow


def main() -> int:
    """Run, print the table, and return 1 if a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.growth", description=__doc__)
    parser.add_argument("--rounds", type=float, default=1e7, help="how many rounds (default 1e7; 1e9 takes minutes)")
    parser.add_argument("--features", type=int, default=1, help="how many features, with one side each (default 1)")
    parser.add_argument("--epsilon", type=float, default=4.0, help="epsilon of the plan (default 4)")
    settings = parser.parse_args()
    last = int(settings.rounds)
    marks = [0, *(10**power for power in range(6, 13) if 10**power < last), last]
    plan = box_plan(settings.features, settings.epsilon, "lower")
    with tempfile.TemporaryDirectory() as folder, Progress("rounds", last, "answered") as progress:
        found = grow(plan, Path(folder) / "state", marks, progress.at)
    complaints = broken(found)
    lines = [
        f"one process, {len(plan.sides)} sides, epsilon {plan.epsilon:g}, {len(plan.phases)} phases planned",
        table(found),
        *(f"BROKEN: {sentence}" for sentence in complaints),
        *([] if complaints else ["memory within 5 %; every snapshot has the size that its plan and phase give"]),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
