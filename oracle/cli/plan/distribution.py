"""What `perpetua plan` shows of a plan of a distribution."""

from collections.abc import Iterator, Mapping
from typing import Final

from rich.table import Table

from oracle.cli.output import Row, figure_table
from oracle.cli.plan.page import mebibytes
from oracle.cli.plan.statistics import compare_questions, counts_figures, counts_rows
from oracle.planning.distribution.grid import grid_release
from oracle.planning.distribution.model import DistributionPlan, domain_of

__all__ = ["compare_distributions", "distribution_figures", "distribution_rows", "size_in_words", "values_table"]

_FULL: Final = 10**12
_MOST_DIGITS: Final = 300


def distribution_rows(plan: DistributionPlan) -> Iterator[Row]:
    """Yield what is said of a plan in one line each."""
    yield "", "questions and answers are public; what is protected is each training row"
    yield "answers", "the share of the rows at or below any value, and the value of any quantile"
    yield "questions", f"the error is promised for the first {plan.questions:,}; privacy holds for any number"
    if plan.partition:
        yield "paid", f"{plan.paid:,} answers at most: one for each chunk of {plan.partition.rows:,} rows"
    else:
        yield from _ladder_rows(plan)
        yield from _grid_rows(plan)
    yield from counts_rows(plan)
    yield "memory", f"{mebibytes(plan.memory_bytes)}; {mebibytes(plan.training_bytes)} for `init`"


def _ladder_rows(plan: DistributionPlan) -> Iterator[Row]:
    ladder = plan.thresholds
    yield "paid", f"{plan.paid:,} answers at most: one for each threshold, which retires; then all others are settled"
    yield "noise", f"logistic, inverse scale {ladder.slope:.4g} a row; keyed, exact to 128 bits"
    yield "zone", f"{ladder.gap:,} rows about a threshold, in which a count is paid for; noise adds {ladder.margin:,}"
    yield "", f"on each side; so every answer is the middle of {ladder.width:,} rows at most, {_share(plan):.3%}"


def _grid_rows(plan: DistributionPlan) -> Iterator[Row]:
    """Yield what releasing the distribution at once would take, and which of both to take."""
    grid, size = grid_release(plan), domain_of(plan.feature).size
    yield "at once", f"noisy quantiles or counts among all {size_in_words(size)} values take {grid.rows:,} rows,"
    if grid.better:
        yield "", f"and this plan {plan.examples:,}: if you can release them so, do: questions are free then"
        return
    few = f"{10**grid.values:.2g}" if 0 <= grid.values < _MOST_DIGITS else "2"
    told = f"; they win among {few} values at most" if grid.values > 0 else ""
    yield "", f"and this plan {plan.examples:,}, whatever the values{told}: take this plan"


def distribution_figures(plan: DistributionPlan) -> Mapping[str, object]:
    """Return for JSON what stands in the plan's place: counts, and a release at once."""
    if plan.partition:
        return counts_figures(plan)
    grid = grid_release(plan)
    return {**counts_figures(plan), "at_once": {"examples": grid.rows, "values": grid.values, "better": grid.better}}


def size_in_words(size: int) -> str:
    """Return how many values there are, in few characters.

    >>> size_in_words(3_652_059), size_in_words(2**64), size_in_words(2**2048)
    ('3,652,059', '1.8e+19', '2^2048')
    """
    if size < _FULL:
        return f"{size:,}"
    return f"{size:.2g}" if size < 10**_MOST_DIGITS else f"2^{size.bit_length() - 1}"


def _share(plan: DistributionPlan) -> float:
    return plan.thresholds.width / plan.declared


def values_table(plan: DistributionPlan) -> Table:
    """Return the table of the values that may be asked about, and of the comparisons that it takes at most."""
    table = figure_table("value", "type", "possible values", "comparisons at a value", "for a quantile", texts=2)
    feature = plan.features[0]
    size = domain_of(feature).size
    table.add_row(
        feature.name, feature.kind, size_in_words(size), f"{plan.paid.bit_length():,}", f"{size.bit_length():,}"
    )
    return table


def compare_distributions(tight: DistributionPlan, paper: DistributionPlan) -> Table:
    """Return both profiles' figures side by side, and how many times the paper's is."""
    mine, other = tight.thresholds.slope, paper.partition.slope if paper.partition else 0.0
    noise = "noise compared, rows", 1.0 / mine, 1.0 / other if other else 0.0
    return compare_questions(tight, paper, noise)
