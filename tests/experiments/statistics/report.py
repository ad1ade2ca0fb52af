"""The comparison as Markdown: one table for each set of rows, and what a reader has to know."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from oracle.planning.statistics.model import StatisticsPlan
from tests.experiments.statistics.counts import crossover, expected_largest, expected_mean
from tests.experiments.statistics.methods import Outcome
from tests.experiments.statistics.tables import Table

BEGIN: Final = "<!-- from here `make statistics` -->\n"
END: Final = "<!-- to here `make statistics` -->\n"

_HEADS: Final = ("method", "told first", "largest error, %", "mean, %", "paid answers", "within alpha", "seconds")


def markdown(table: Table, plan: StatisticsPlan, outcomes: Sequence[Outcome]) -> str:
    """Return the table of one set of rows; all outcomes are of the same number of questions."""
    count = len(outcomes[0].errors)
    layout = plan.layout
    title = (
        f"**{table.name}**: {len(table.cells):,} rows, {len(plan.attributes)} attributes, {layout.size:,} cells; "
        f"{count:,} random conjunctions of 1 to 3 attributes; ε = {plan.epsilon:g}, δ = {plan.delta:g}, "
        f"alpha = {100.0 * plan.alpha:g} %, K = {plan.paid}"
    )
    lines = [title, "", _line(_HEADS), _line(["---", "---", *["---:"] * 3, "---", "---:"])]
    lines += [_line(_cells(plan, name, [one for one in outcomes if one.name == name])) for name in _names(outcomes)]
    notes = [f"- {one.name}: {one.note}" for one in outcomes if one.note]
    return "\n".join([*lines, "", *notes] if notes else lines) + "\n"


def _names(outcomes: Sequence[Outcome]) -> list[str]:
    return list(dict.fromkeys(one.name for one in outcomes))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(plan: StatisticsPlan, name: str, runs: Sequence[Outcome]) -> list[str]:
    many = f" ({len(runs)} keys)" if len(runs) > 1 else ""
    kept = sum(one.largest <= plan.alpha for one in runs)
    paid = "-" if runs[0].paid is None else _span([float(one.paid or 0) for one in runs], "{:.0f}")
    return [
        f"{name}{many}",
        runs[0].told,
        _span([100.0 * one.largest for one in runs], "{:.2f}"),
        _span([100.0 * one.mean for one in runs], "{:.3f}"),
        paid,
        "yes" if kept == len(runs) else f"**no**: {kept} of {len(runs)}",
        f"{max(one.seconds for one in runs):.0f}",
    ]


def _span(values: Sequence[float], form: str) -> str:
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def crossings(plan: StatisticsPlan, run: Outcome, scales: dict[str, float]) -> Iterator[str]:
    """Yield from how many questions on a run errs less than as many Gaussian counts, to the end of the run.

    Args:
        plan: The plan.
        run: A run of Perpetua.
        scales: Standard deviation of one count, by whose it is.
    """
    numbers = np.arange(1, len(run.errors) + 1)
    largest, mean = np.maximum.accumulate(run.errors), np.cumsum(run.errors) / numbers
    for whose, scale in scales.items():
        at = [
            crossover(largest, expected_largest(scale, numbers, plan.declared)),
            crossover(mean, expected_mean(scale, numbers, plan.declared)),
        ]
        by_largest, by_mean = (f"from {one:,} questions on" if one else "not yet" for one in at)
        yield f"- Against counts by {whose}: by the largest error {by_largest}, by the mean error {by_mean}."
