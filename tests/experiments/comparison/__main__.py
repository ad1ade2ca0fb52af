"""`python -m tests.experiments.comparison`: the honest comparison with other learners.

On the demo's data (minutes), to build/comparison.md and .svg; and of ensembles on five real tables (hours): each result
of these is kept in build/compare, and not run again.
"""

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
from tests.experiments.peers.page import compare_real
from tests.experiments.peers.sets import SETS

_DEMO = "demo"


def main() -> None:
    """Compare, print the tables, write the files."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.comparison", description=__doc__)
    parser.add_argument("--seeds", type=int, help="runs of each method at each epsilon (20; 3 on real tables)")
    parser.add_argument("--only", choices=[_DEMO, *SETS], help="these data alone")
    parser.add_argument("--methods", nargs="+", default=[], help='these alone on real tables, as "ensemble tree"')
    parser.add_argument("--page", action="store_true", help="write docs/evidence.md from what is known of real tables")
    parser.add_argument("--folder", type=Path, default=Path("build"), help="where the files go")
    arguments = parser.parse_args()
    if arguments.only in {None, _DEMO} and not arguments.page:
        _compare_demo(20 if arguments.seeds is None else arguments.seeds, arguments.folder)
    if arguments.only != _DEMO:
        seeds = 3 if arguments.seeds is None else arguments.seeds
        names = list(SETS) if arguments.only is None else [arguments.only]
        runs, folder = 0 if arguments.page else seeds, arguments.folder / "compare"
        made = compare_real(names, runs, folder, page=arguments.page, methods=arguments.methods)
        sys.stdout.write(made)


def _compare_demo(seeds: int, folder: Path) -> None:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as made:
        task = flights(Path(made))
    total = sum(len(method.epsilons) for method in METHODS)
    with Progress("comparing", total, "methods and epsilons") as progress:
        done = iter(range(1, total + 1))
        outcomes = compare(task, range(seeds), lambda _name: progress.at(next(done)))
    folder.mkdir(parents=True, exist_ok=True)
    base = folder / "comparison"
    text = f"{markdown(outcomes)}\n{notes(task, outcomes, seeds)}\n\n{advice(task, outcomes)}\n"
    base.with_suffix(".md").write_text(text, encoding="utf-8")
    title = f"Error on {len(task.queries):,} queries after {len(task.rows):,} labelled rows"
    draw(outcomes, title, base.with_suffix(".svg"))
    sys.stdout.write(f"{text}\n{base}.md and .svg: written in {time.monotonic() - started:.0f} s\n")


if __name__ == "__main__":
    main()
