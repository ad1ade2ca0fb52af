"""`python -m tests.storms.mqtt`: kill the daemon, restart and pause the broker under load; print what came of it.

Each predictor has a storm of its own.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from oracle.cli.progress import Progress
from oracle.planning.kinds import KINDS
from tests.storms.mqtt.daemons import MUTANTS
from tests.storms.mqtt.storm import StormOptions, StormResult, storm

_SHARED: Final = ("kills", "restarts", "pauses", "queries")
"""What the predictors' storms share out among them: faults, and queries."""


def main(arguments: list[str] | None = None) -> int:
    """Run a storm, print a table, and return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.mqtt", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="times to kill the daemon (default %(default)s)")
    parser.add_argument("--restarts", type=int, default=5, help="broker restarts (%(default)s)")
    parser.add_argument("--pauses", type=int, default=5, help="times to pause the broker (%(default)s)")
    parser.add_argument("--clients", type=int, default=50, help="clients that ask (%(default)s)")
    parser.add_argument("--queries", type=int, default=10_000, help="what they ask in all (%(default)s)")
    parser.add_argument("--rate", type=float, default=200.0, help="queries a second, about (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the queries, moments and choices")
    parser.add_argument("--mutant", choices=MUTANTS, help="break the daemon on purpose: this must find it")
    parser.add_argument(
        "--predictor",
        choices=KINDS,
        action="append",
        help="what answers (may be repeated; all of them share the faults)",
    )
    options = vars(parser.parse_args(arguments))
    predictors = options.pop("predictor") or list(KINDS)
    total, done = sum(options[name] for name in _SHARED[:3]), 0
    with (
        tempfile.TemporaryDirectory(prefix="chaos-mqtt-") as folder,
        Progress("chaos on MQTT", total, "faults") as progress,
    ):

        def on_fault() -> None:
            nonlocal done
            done += 1
            progress.at(done)

        rows = {}
        for number, predictor in enumerate(predictors):
            own = Path(folder) / predictor
            own.mkdir()
            parts = {name: _part(options[name], number, len(predictors)) for name in _SHARED}
            rows[predictor] = storm(own, StormOptions(**{**options, **parts, "predictor": predictor}), on_fault)
    _print(rows)
    if any(row.broken for row in rows.values()):
        for row in rows.values():
            sys.stdout.write("".join(f"\nBROKEN PROMISE: {line}" for line in row.trouble[:10]))
        sys.stdout.write("\n")
        return 1
    sys.stdout.write(
        "\nEvery query has one answer, the one that an uninterrupted run gives; repetitions are identical.\n"
    )
    return 0


def _part(total: int, number: int, parts: int) -> int:
    return total // parts + (number < total % parts)


def _print(rows: dict[str, StormResult]) -> None:
    figures = [row.figures() for row in rows.values()]
    lines = [("", *rows, "all")]
    for name in figures[0]:
        column = [figure[name] for figure in figures]
        lines.append((name, *(f"{figure:,}" for figure in (*column, sum(column)))))
    for name, *texts in lines:
        sys.stdout.write(f"{name:10}" + "".join(f" {text:>10}" for text in texts) + "\n")


if __name__ == "__main__":
    sys.exit(main())
