"""`python -m tests.experiments.separations`: why online and adaptive questions cost more, and where two attacks stop.

The three separations of Bun, Steinke and Ullman (2017), theory beside what was seen, and the same attacks on Perpetua's
own predictors at growing epsilon. Writes build/separations.
"""

import argparse
import hashlib
from pathlib import Path
from typing import Final

from rich.console import Console

from oracle.cli.progress import Progress
from tests.experiments.separations.copying import Own, copied, medians, vectors
from tests.experiments.separations.median import Search
from tests.experiments.separations.plot import draw_medians, draw_prefix, draw_vectors
from tests.experiments.separations.prefix import Asked
from tests.experiments.separations.report import first_lines, median_lines, prefix_lines, stop_lines, vector_lines
from tests.experiments.separations.tracing import games, offline, online, stops, toys
from tests.experiments.separations.vectors import Correlated

_FOLDER: Final = Path("build/separations")
_EPSILONS: Final = (2.0, 4.0, 8.0, 16.0, 32.0)
"""Of exchanging a row."""

LARGE: Final = Asked(rows=200, questions=280_000, epsilon=1.0)
SMALL: Final = Asked(rows=40, questions=16_000, epsilon=1.0)


def main() -> None:
    """Run, print, write the files."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.separations", description=__doc__)
    parser.add_argument("--seed", type=int, default=2017)
    parser.add_argument("--only", nargs="*", choices=["prefix", "vectors", "medians"])
    chosen = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    runs = {"prefix": _prefix, "vectors": _vectors, "medians": _medians}
    with Progress("separating", len(runs), "experiments") as progress:
        made = first_lines()
        for number, (name, run) in enumerate(runs.items(), 1):
            if not chosen.only or name in chosen.only:
                made += run(chosen.seed)
            progress.at(number)
    text, path = "\n".join(made), _FOLDER / "separations.md"
    path.write_text(text, encoding="utf-8")
    console.print(text, markup=False)
    console.print(f"Report: {path}, with its plots beside it")


def _prefix(seed: int) -> list[str]:
    found, sums = online(LARGE, seed)
    played = [games(name, SMALL, 240, seed) for name in ("exact", "Gaussian noise", "offline")]
    lines = prefix_lines(
        LARGE, found, offline(LARGE, seed), (SMALL, played), toys(20_000, 400, (20, 50, 100), LARGE.epsilon, seed)
    )
    traced = stops(1_000, 15_000, _EPSILONS, hashlib.md5(f"{seed}".encode(), usedforsecurity=False).digest())
    draw_prefix(LARGE, sums, traced, _FOLDER / "prefix.svg")
    return [*lines, *stop_lines(traced)]


def _vectors(seed: int) -> list[str]:
    found = vectors(525_000, Correlated(alpha=0.4, gamma=0.05), (1, 2, 5, 10, 22, 40), seed)
    again = copied(1_000, (1, 3, 31), _EPSILONS, seed)
    draw_vectors(found, again, _FOLDER / "vectors.svg")
    return vector_lines(found, again)


def _medians(seed: int) -> list[str]:
    own = Own(Search(1024), 2_000, 40, _EPSILONS[:-1])
    found = medians(Search(2**20), (150, 300, 600, 1200, 2397), 1_000, own, seed)
    draw_medians(found, _FOLDER / "medians.svg")
    return median_lines(found)


if __name__ == "__main__":
    main()
