"""`python -m tests.storms.files`: kill the daemon hundreds of times, fill its disk, set files back."""

import argparse
import itertools
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from oracle.cli.progress import Progress
from oracle.planning.kinds import KINDS
from tests.predictors.tables import ASKED
from tests.storms.files import disks, inits, kills, setbacks
from tests.storms.files.arena import Arena, Grounds, Row
from tests.storms.files.processes import Launcher, Violation

Scenario = Callable[[Arena, int], Row | None]

SCENARIOS: Final[dict[str, tuple[float, Scenario]]] = {
    "jsonl": (0.27, lambda arena, count: kills.at_random(arena, "jsonl", count)),
    "parquet": (0.12, lambda arena, count: kills.at_random(arena, "parquet", count)),
    "arrow": (0.06, lambda arena, count: kills.at_random(arena, "arrow", count)),
    "phase-ends": (0.15, lambda arena, count: kills.at_phase_ends(arena, "jsonl", count)),
    "snapshots": (0.15, lambda arena, count: kills.in_snapshots(arena, "jsonl", count)),
    "calls-jsonl": (0.14, lambda arena, count: kills.at_system_calls(arena, "jsonl", count)),
    "calls-parquet": (0.08, lambda arena, count: kills.at_system_calls(arena, "parquet", count)),
    "signals": (0.15, lambda arena, count: kills.with_signals(arena, "jsonl", count)),
    "init": (0.12, inits.in_init),
    "disk": (0.05, lambda arena, count: disks.full_disk(arena, "everything", count)),
    "disk-state": (0.02, lambda arena, count: disks.full_disk(arena, "state", count)),
    "disk-ledger": (0.02, lambda arena, count: disks.full_disk(arena, "ledger", count)),
    "quota": (0.05, disks.quota),
    "state-back": (0.07, lambda arena, count: setbacks.state_set_back(arena, "jsonl", count)),
    "state-back-parquet": (0.04, lambda arena, count: setbacks.state_set_back(arena, "parquet", count)),
    "sink-back": (0.06, lambda arena, count: setbacks.sink_set_back(arena, "jsonl", count)),
    "sink-back-parquet": (0.06, lambda arena, count: setbacks.sink_set_back(arena, "parquet", count)),
}
"""What is done, and how often for each of `--kills`; in all it is a little more than that."""


_COLUMNS: Final = ("parquet", "arrow")
"""What names of scenarios have that write columns; questions about a table are JSON, and come in lines only."""


def main(arguments: list[str] | None = None) -> int:
    """Run the scenarios, print a table, and return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.files", description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="about how many kills there are in all")
    parser.add_argument("--messages", type=int, default=4_000, help="length of the logs, at most 4,000")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and choices")
    parser.add_argument("--only", choices=SCENARIOS, action="append", help="run this scenario only (may be repeated)")
    parser.add_argument(
        "--predictor",
        choices=KINDS,
        action="append",
        help="what answers (may be repeated; all of them share the kills)",
    )
    parser.add_argument("--mutant", help="break the daemon on purpose (launcher.py): this must find it")
    options = parser.parse_args(arguments)
    rows, broken = _run(options)
    _print(rows)
    if broken:
        sys.stdout.write("".join(f"\nBROKEN PROMISE: {violation}\n" for violation in broken))
        return 1
    sys.stdout.write("\nNo answer differed, no round had a second noise, every stop was clear.\n")
    return 0


def _run(options: argparse.Namespace) -> tuple[list[Row], list[Violation]]:
    rows: list[Row] = []
    broken: list[Violation] = []
    predictors = options.predictor or list(KINDS)
    names = options.only or list(SCENARIOS)
    shares = {name: max(1, round(options.kills * SCENARIOS[name][0] / len(predictors))) for name in names}
    total, done = len(predictors) * sum(shares.values()), 0
    grounds = {predictor: Grounds(options.messages, predictor) for predictor in predictors}
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as folder,
        Progress("chaos", total, "blows") as progress,
        Launcher(Path(folder), options.mutant) as launcher,
    ):
        for predictor, name in itertools.product(predictors, names):
            if predictor in ASKED and any(columns in name for columns in _COLUMNS):
                done += shares[name]
                continue
            own = Path(folder) / predictor / name
            own.mkdir(parents=True)

            def say(number: int, before: int = done, most: int = shares[name]) -> None:
                progress.at(before + min(number, most))

            rng = random.Random(f"{options.seed} {predictor} {name}")  # noqa: S311  # moments and choices, not noise
            arena = Arena(own, launcher, rng, grounds[predictor], say)
            try:
                row = SCENARIOS[name][1](arena, shares[name])
            except Violation as violation:
                row = Row(f"{name}: BROKEN PROMISE, see below")
                broken.append(violation)
            done += shares[name]
            progress.at(done)
            rows.append(row or Row(f"{name}: left out, nothing can be mounted here"))
            rows[-1].predictor = predictor
    return rows, broken


def _print(rows: list[Row]) -> None:
    heads = ("predictor", "scenario", "kills", "served", "other", "identical", "stops", "seconds", "of which")
    total = Row("all")
    for name in ("kills", "served", "tries", "identical", "stops", "seconds"):
        setattr(total, name, sum(getattr(row, name) for row in rows))
    lines: list[tuple[str, ...]] = [heads]
    lines += [
        (
            row.predictor,
            row.scenario,
            *(f"{number:,}" for number in (row.kills, row.served, row.tries, row.identical, row.stops)),
            f"{row.seconds:.0f}",
            row.note,
        )
        for row in [*rows, total]
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    for line in lines:
        cells = [text.rjust(width) for text, width in zip(line, widths, strict=True)]
        cells[:2], cells[-1] = [line[0].ljust(widths[0]), line[1].ljust(widths[1])], line[-1]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


if __name__ == "__main__":
    sys.exit(main())
