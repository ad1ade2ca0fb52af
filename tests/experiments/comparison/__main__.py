"""`python -m tests.experiments.comparison`: the honest comparison on the demo's data, to build/comparison.md, .svg."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from oracle.cli.progress import Progress
from tests.experiments.comparison.methods import METHODS, compare
from tests.experiments.comparison.plot import draw
from tests.experiments.comparison.report import advice, markdown, notes
from tests.experiments.comparison.task import flights


def main() -> None:
    """Compare, print the table, write the files."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.comparison", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="runs of each method at each epsilon")
    parser.add_argument("--folder", type=Path, default=Path("build"), help="where the files go")
    arguments = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        task = flights(Path(folder))
    total = sum(len(method.epsilons) for method in METHODS)
    with Progress("comparing", total, "methods and epsilons") as progress:
        done = iter(range(1, total + 1))
        outcomes = compare(task, range(arguments.seeds), lambda _name: progress.at(next(done)))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    base = arguments.folder / "comparison"
    text = f"{markdown(outcomes)}\n{notes(task, outcomes, arguments.seeds)}\n\n{advice(task, outcomes)}\n"
    base.with_suffix(".md").write_text(text, encoding="utf-8")
    title = f"Error on {len(task.queries):,} queries after {len(task.rows):,} labelled rows"
    draw(outcomes, title, base.with_suffix(".svg"))
    sys.stdout.write(f"{text}\n{base}.md and .svg: written in {time.monotonic() - started:.0f} s\n")


if __name__ == "__main__":
    main()
