"""`python -m tests.storms.kafka`: kill daemons on Kafka, restart the broker, under load.

Two daemons share four partitions. In one storm they share a state folder too, in another each has a copy of its own;
both are of boxes. Each other predictor has a storm as well, in one of these ways.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from oracle.cli.progress import Progress
from tests.storms.kafka.daemons import MUTANTS
from tests.storms.kafka.storm import Row, Settings, storm
from tests.support.broker import Broker

_STORMS: Final = {
    "shared": ("rectangles", False),
    "own": ("rectangles", True),
    "stumps": ("stumps", True),
    "bisection": ("bisection", False),
    "classical": ("classical", True),
    "statistics": ("statistics", False),
    "sparse-vector": ("sparse-vector", True),
    "distribution": ("distribution", False),
    "ensemble": ("ensemble", False),
}
"""What answers, and whether each daemon has a state folder of its own."""

_FOLDERS: Final = {False: "one state folder", True: "a folder for each"}


def main(arguments: list[str] | None = None) -> int:
    """Run the storms, print a table, and return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.kafka", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="daemons to kill, in all (default %(default)s)")
    parser.add_argument(
        "--restarts", type=int, default=10, help="broker restarts, every second by SIGKILL (%(default)s)"
    )
    parser.add_argument("--rate", type=float, default=250.0, help="messages a second, about (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the messages, moments and choices")
    parser.add_argument("--only", choices=_STORMS, help="this storm only")
    parser.add_argument("--mutant", choices=MUTANTS, help="break the daemons on purpose: this must find it")
    options = parser.parse_args(arguments)
    rows = _run(options)
    _print(rows)
    if any(row.stopped or row.verdict.broken for row in rows):
        for row in rows:
            told = [*row.trouble, *row.verdict.examples][:10]
            sys.stdout.write("".join(f"\nBROKEN PROMISE: {row.name}: {line}\n" for line in told))
        sys.stdout.write("\nBROKEN PROMISES: see the table.\n")
        return 1
    sys.stdout.write("\nEvery query has one answer, the one that an uninterrupted run gives; no daemon gave up.\n")
    return 0


def _run(options: argparse.Namespace) -> list[Row]:
    names = [options.only] if options.only else list(_STORMS)
    rows: list[Row] = []
    done = 0
    with (
        tempfile.TemporaryDirectory(prefix="chaos-kafka-") as folder,
        Broker(Path(folder) / "broker") as broker,
        Progress("chaos on Kafka", options.kills + options.restarts, "blows") as progress,
    ):

        def on_blow() -> None:
            nonlocal done
            done += 1
            progress.at(done)

        for number, name in enumerate(names):
            own = Path(folder) / name
            own.mkdir()
            predictor, own_folders = _STORMS[name]
            settings = Settings(
                name=name,
                kills=_part(options.kills, number, len(names)),
                restarts=_part(options.restarts, number, len(names)),
                rate=options.rate,
                seed=options.seed,
                own_folders=own_folders,
                mutant=options.mutant,
                predictor=predictor,
            )
            rows.append(storm(broker, own, settings, on_blow))
    return rows


def _part(total: int, number: int, parts: int) -> int:
    return total // parts + (number < total % parts)


def _print(rows: list[Row]) -> None:
    heads = (
        "state",
        "kills",
        "serving",
        "restarts",
        "by force",
        "queries",
        "phases",
        "lost",
        "duplicated",
        "re-noised",
    )
    lines: list[tuple[str, ...]] = [(*heads, "out of order", "ledger", "gave up", "seconds")]
    figures = []
    for row in rows:
        verdict = row.verdict
        blows = (row.kills, row.serving, row.restarts, row.broker_kills, row.queries, verdict.phases)
        wrong = (verdict.lost, verdict.duplicated, verdict.renoised, verdict.disordered, verdict.ledger, row.stopped)
        figures.append((*blows, *wrong, round(row.seconds)))
        predictor, own = _STORMS[row.name]
        lines.append((f"{predictor}, {_FOLDERS[own]}", *(f"{figure:,}" for figure in figures[-1])))
    if len(rows) > 1:
        lines.append(("all", *(f"{sum(column):,}" for column in zip(*figures, strict=True))))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        cells = [
            line[0].ljust(widths[0]),
            *(text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True)),
        ]
        sys.stdout.write("  ".join(cells) + "\n")


if __name__ == "__main__":
    sys.exit(main())
