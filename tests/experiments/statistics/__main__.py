"""`python -m tests.experiments.statistics`: a hundred thousand questions about two tables, beside other methods.

Writes build/statistics/NAME.md; with --page, docs/evidence.md.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console

from oracle.planning.statistics.counts import gaussian_deviation
from oracle.planning.statistics.model import StatisticsPlan
from tests.experiments.promises.report import PAGE
from tests.experiments.statistics.counts import opendp_scale
from tests.experiments.statistics.methods import Outcome, aim, counts, mwem_of, one_way, ours, turbo_of, uniform
from tests.experiments.statistics.ours import DELTA, EPSILON, planned
from tests.experiments.statistics.questions import Questions, draw
from tests.experiments.statistics.report import BEGIN, END, crossings, markdown
from tests.experiments.statistics.tables import TABLES, Table
from tests.experiments.statistics.turbo import CHEAPEST, FORMS

_SEED: Final = 2026
"""Of the questions; the start and its constants were chosen with those of seed 777."""

_FOLDER: Final = Path("build/statistics")


def main() -> None:
    """Run, print the tables, write the files."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.statistics", description=__doc__)
    parser.add_argument("--only", choices=list(TABLES), help="this table alone")
    parser.add_argument("--questions", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=5, help="runs of Perpetua")
    parser.add_argument("--starts", action="store_true", help="run Perpetua from other starts too (many minutes)")
    parser.add_argument("--rounds", type=int, nargs="*", default=[50, 100], help="of MWEM; none leaves it out")
    parser.add_argument("--turbo", nargs="*", default=list(FORMS), choices=list(FORMS), help="forms of Turbo")
    parser.add_argument("--megabytes", type=float, default=80.0, help="of AIM's model; 0 leaves it out")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds that AIM may take")
    parser.add_argument("--page", action="store_true", help="write docs/evidence.md")
    chosen = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    for name in TABLES if chosen.only is None else [chosen.only]:
        table = TABLES[name]()
        made = _section(table, draw(table.attributes, chosen.questions, _SEED), chosen)
        (_FOLDER / f"{name}.md").write_text(made, encoding="utf-8")
        console.print(made, markup=False)
    if chosen.page:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        made = "\n".join((_FOLDER / f"{name}.md").read_text(encoding="utf-8") for name in TABLES)
        PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def _section(table: Table, questions: Questions, chosen: argparse.Namespace) -> str:
    plan = planned(table)
    outcomes = list(_outcomes(plan, table, questions, chosen))
    first = outcomes[0]
    scales = {
        "OpenDP's accounting": opendp_scale(EPSILON, DELTA),
        "the least noise there is": gaussian_deviation(EPSILON, DELTA),
    }
    return f"{markdown(table, plan, outcomes)}\n" + "\n".join(crossings(plan, first, scales)) + "\n"


def _outcomes(
    plan: StatisticsPlan, table: Table, questions: Questions, chosen: argparse.Namespace
) -> Iterator[Outcome]:
    scale = opendp_scale(EPSILON, DELTA)
    yield from ours(plan, table, questions, range(chosen.keys))
    if chosen.starts:
        yield from ours(one_way(plan), table, questions, [0], "Perpetua, from one-way marginals")
        yield from ours(uniform(plan), table, questions, [0], "Perpetua, from a uniform start")
    yield counts(table, questions, scale)
    for rounds in chosen.rounds:
        yield mwem_of(table, questions, scale, rounds)
    for form in chosen.turbo:
        yield turbo_of(table, questions, plan.alpha, form, beyond=form == CHEAPEST)
    found = aim(table, questions, (chosen.megabytes, chosen.limit), _FOLDER) if chosen.megabytes else None
    if found is not None:
        yield found


if __name__ == "__main__":
    main()
