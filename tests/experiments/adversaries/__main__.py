"""Run every adversary and print a table; exit 1 if a bound broke."""

import argparse
import json
import sys
import time
from pathlib import Path

from tests.experiments.adversaries.matrix import DIMENSIONS, EPSILONS, PREDICTORS, Cell, cells, run_all, table


def _wanted(settings: argparse.Namespace) -> list[Cell]:
    if settings.quick:
        return cells((1, 2), (4.0,), settings.predictors)
    return cells(settings.dimensions, settings.epsilons, settings.predictors, long=settings.long)


def main() -> int:
    """Run the matrix."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.adversaries", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="epsilon 4 and d at most 2 only")
    parser.add_argument("--dimensions", type=int, nargs="+", default=DIMENSIONS, choices=DIMENSIONS)
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS, choices=EPSILONS)
    parser.add_argument("--predictors", nargs="+", default=PREDICTORS, choices=PREDICTORS, help="default: both")
    parser.add_argument("--long", action="store_true", help="also the one run that takes the better part of an hour")
    parser.add_argument("--json", type=Path, help="also write every figure there")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    settings = parser.parse_args()
    started = time.monotonic()
    rows = run_all(_wanted(settings), settings.workers)
    broken = sum(bool(row.broken) for row in rows)
    took = time.monotonic() - started
    total = (
        f"{len(rows)} runs, {sum(row.rounds for row in rows):.2e} rounds, {broken} with a broken bound; {took:.0f} s"
    )
    sys.stdout.write(f"{table(rows)}\n{total}\n")
    if settings.json:
        settings.json.write_text(json.dumps([row.as_dict() for row in rows], indent=1) + "\n", encoding="utf-8")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
