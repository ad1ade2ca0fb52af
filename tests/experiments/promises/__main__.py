"""`python -m tests.experiments.promises`: promised and seen on real data; writes the results and docs/evidence.md."""

import argparse
import os
import time
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from oracle.cli.progress import Progress
from tests.experiments.promises.recipes import RECIPES
from tests.experiments.promises.report import PAGE, put_into, table
from tests.experiments.promises.run import evaluate_all

RESULTS: Final = Path(__file__).with_name("results.json")


def main() -> None:
    """Evaluate every recipe, print the table, write the files."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.promises", description=__doc__)
    parser.add_argument("--keys", type=int, default=3, help="runs of each, under keys of their own")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--only", help="run this recipe alone, and write build/promises.md alone")
    arguments = parser.parse_args()
    chosen = [recipe for recipe in RECIPES if arguments.only in {None, recipe.name}]
    console, started = Console(highlight=False), time.monotonic()
    with Progress("evaluating", len(chosen), "models") as progress:
        done = iter(range(1, len(chosen) + 1))
        outcomes = evaluate_all(chosen, arguments.keys, arguments.workers, lambda _name: progress.at(next(done)))
    made = table(outcomes)
    Path("build/promises.md").write_text(made, encoding="utf-8")
    if arguments.only is None:
        RESULTS.write_bytes(b"[\n" + b",\n".join(map(msgspec.json.encode, outcomes)) + b"\n]\n")
        PAGE.write_text(put_into(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
    console.print(made, markup=False, soft_wrap=True)
    spent = os.times().children_user + os.times().children_system
    console.print(f"done in {time.monotonic() - started:.0f} s; {spent:.0f} s of processor time")


if __name__ == "__main__":
    main()
