"""`python -m tests.experiments.distributions`: shares and quantiles of real columns; --page writes docs/evidence.md."""

import argparse
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from oracle.planning.distribution.grid import grid_release
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.statistics.counts import counts_error
from tests.experiments.distributions.runs import EPSILON, Seen, planned, run
from tests.experiments.distributions.sets import SETS, Column
from tests.experiments.promises.report import PAGE

_BEGIN: Final = "<!-- from here `make distributions` -->"
_END: Final = "<!-- to here `make distributions` -->"
_HEAD: Final = (
    "| column | rows | promised | largest error seen | mean | of a quantile | thresholds | paid | all at once wants "
    "| counts err by | answers a second |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print the table, and write the page if that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.distributions", description=__doc__)
    parser.add_argument("--only", choices=list(SETS), action="append", help="this column alone; may be repeated")
    parser.add_argument("--questions", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=5, help="runs, each under another key")
    parser.add_argument("--page", action="store_true", help="write docs/evidence.md")
    chosen = parser.parse_args(arguments)
    lines = [_HEAD]
    for name in chosen.only or SETS:
        column = SETS[name]()
        plan = planned(column)
        lines.append(_line(column, plan, [run(column, plan, chosen.questions, key) for key in range(chosen.keys)]))
    made = "\n".join(lines)
    Console(highlight=False, soft_wrap=True).print(made, markup=False)
    if chosen.page:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
        PAGE.write_text(f"{before}{_BEGIN}\n{made}\n{_END}{rest.partition(_END)[2]}", encoding="utf-8")


def _line(column: Column, plan: DistributionPlan, seen: Sequence[Seen]) -> str:
    """Return a column's line: the worst of all keys, of what is paid the range, of speeds the median."""
    assert all(one.verified for one in seen)
    grid = grid_release(plan)
    counts = counts_error(plan.questions, plan.declared, EPSILON, plan.delta, plan.beta)
    paid = sorted(one.paid for one in seen)
    cells = (
        column.name,
        f"{plan.declared:,}",
        f"{plan.error:.2%}",
        f"{max(one.largest for one in seen):.2%}",
        f"{max(one.mean for one in seen):.2%}",
        f"{max(one.quantile for one in seen):.2%}",
        str(plan.paid),
        f"{paid[0]} to {paid[-1]}",
        f"{grid.rows:,}",
        f"{counts:.1%}",
        f"{sorted(one.rate for one in seen)[len(seen) // 2] / 1e6:.1f} M",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
