"""`python -m tests.experiments.bisection`: average error of OnlineBisection against T, both profiles.

Writes build/bisection.md.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console

from oracle.cli.progress import Progress
from tests.experiments.bisection.runs import Outcome, Profile, play, slope
from tests.experiments.bisection.streams import KINDS

_DIRECTIONS: Final = (1, 2, 4)
_FITTED: Final[dict[Profile, int]] = {"efficient": 10_000, "paper": 100_000}
"""From which T on the slope is fitted."""


def main() -> None:
    """Run, print the table, write the file."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.bisection", description=__doc__)
    parser.add_argument("--longest", type=float, default=1e7, help="largest T of `paper`; `efficient` goes to a tenth")
    parser.add_argument("--seeds", type=int, default=4, help="runs of `efficient` at each T")
    parser.add_argument("--folder", type=Path, default=Path("build"), help="where the file goes")
    arguments = parser.parse_args()
    started = time.process_time()
    horizons = [round(10**power) for power in np.arange(3.0, np.log10(arguments.longest) + 0.01, 0.5)]
    plays = [
        (profile, kind, directions, rounds, seed)
        for kind in KINDS
        for directions in _DIRECTIONS
        for rounds in horizons
        for profile in _FITTED
        for seed in range(arguments.seeds if profile == "efficient" else 1)
        if profile == "paper" or rounds <= arguments.longest / 10
    ]
    outcomes: list[Outcome] = []
    with Progress("running", len(plays), "runs") as progress:
        for number, one in enumerate(plays, 1):
            outcomes.append(play(*one))
            progress.at(number)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    path = arguments.folder / "bisection.md"
    text = "\n".join(_lines(outcomes)) + "\n"
    path.write_text(text, encoding="utf-8")
    console = Console(highlight=False, soft_wrap=True)
    console.print(text, markup=False)
    console.print(f"{path}: written after {time.process_time() - started:.0f} s of CPU time")


def _lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "| profile | stream | d | T | average error | error of w_T | bits asked | Theorem 2.1's bound | slope |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|"
    for kind in KINDS:
        for directions in _DIRECTIONS:
            for profile, least in _FITTED.items():
                mine = [
                    each
                    for each in outcomes
                    if (each.profile, each.kind, each.directions) == (profile, kind, directions)
                ]
                longest = max(outcome.rounds for outcome in mine)
                last = [outcome for outcome in mine if outcome.rounds == longest]
                error, final, bits = (np.mean([pick(each) for each in last]) for pick in _PICKS)
                bound = f"{last[0].bound:.3g}" if profile == "paper" else ""
                yield (
                    f"| {profile} | {kind} | {directions} | {longest:,} | {error:.4g} | {final:.4g} | {bits:,.0f} "
                    f"| {bound} | {slope(mine, least):.3f} |"
                )


_PICKS: Final = (lambda each: each.error, lambda each: each.last, lambda each: each.bits)


if __name__ == "__main__":
    main()
