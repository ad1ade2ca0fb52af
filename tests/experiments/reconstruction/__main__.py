"""`python -m tests.experiments.reconstruction`: what is rebuilt of published numbers, by noise, and of real tables.

Writes build/reconstruction; with --page also docs/how-to/reconstruct.md and the plot beside this file.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from oracle.cli.progress import Progress
from tests.experiments.reconstruction.tables import CASES, lines_of, run
from tests.experiments.reconstruction.thresholds import ceilings, draw, thresholds

PAGE: Final = Path("docs/how-to/reconstruct.md")
_BEGIN: Final = "<!-- from here `make reconstruct` -->"
_END: Final = "<!-- to here `make reconstruct` -->"
_FOLDER: Final = Path("build/reconstruction")
_PLOT: Final = Path(__file__).with_name("thresholds.svg")
_SIZES: Final = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)
_EPSILONS: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_ROWS: Final = (200, 400)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print, write the files."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.reconstruction", description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="secrets for each size of noise")
    parser.add_argument("--page", action="store_true", help="write docs/how-to/reconstruct.md and its plot")
    chosen = parser.parse_args(arguments)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    noise = thresholds(_ROWS[0], _SIZES, chosen.times, 2013)
    claims = ceilings(_ROWS[1], 40, _EPSILONS, 2013)
    draw(noise, claims, _ROWS, _PLOT if chosen.page else _FOLDER / _PLOT.name)
    lines = [
        "| noise over sqrt(n) | least squares, % right | linear program | theory |",
        "|---:|---:|---:|---:|",
        *(f"| {one.size:g} | {' | '.join(f'{100 * share:.1f}' for share in one[1:])} |" for one in noise),
        "",
        "| noise | epsilon | % right | allowed | epsilon proved |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {one.release} | {one.epsilon:g} | {100 * one.right:.1f} | {100 * one.allowed:.1f} | {one.proved:.2f} |"
            for one in claims
        ),
        "",
        "| table | release | error | % right | % rebuilt | rows exposed | % of coins right | allowed |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    with Progress("attacking", len(CASES), "tables") as progress:
        for number, case in enumerate(CASES, 1):
            lines += lines_of(case, run(case, _FOLDER))
            progress.at(number)
    made = "\n".join(lines)
    (_FOLDER / "reconstruction.md").write_text(made + "\n", encoding="utf-8")
    Console(highlight=False, soft_wrap=True).print(made, markup=False)
    if chosen.page:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
        PAGE.write_text(f"{before}{_BEGIN}\n{made}\n{_END}{rest.partition(_END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
