"""What `perpetua plan` shows of a plan about a table."""

from collections.abc import Iterator, Mapping

from rich.table import Table

from oracle.cli.output import Row, figure_table
from oracle.cli.plan.page import mebibytes
from oracle.planning.attributes import Layout
from oracle.planning.questions import QuestionPlan
from oracle.planning.statistics.counts import counts_error, questions_to_win
from oracle.planning.statistics.model import SparseVectorPlan, StatisticsPlan, TablePlan

__all__ = [
    "attribute_table",
    "compare_questions",
    "compare_statistics",
    "counts_figures",
    "counts_rows",
    "sparse_rows",
    "statistics_rows",
]


def statistics_rows(plan: StatisticsPlan) -> Iterator[Row]:
    """Yield what is said of a plan in one line each."""
    yield from _table_rows(plan)
    if plan.paper:
        yield "paid", f"{plan.paid:,} answers at most: 4 ln X/a^2 of the lecture, a = alpha/3"
        yield "threshold", f"{plan.margin:,} rows, {plan.paper.threshold:.2%}: a larger error is paid for"
        return
    if plan.complete:
        yield "paid", f"{plan.paid:,} answers at most: the bound ln X/(2 gap^2), which no questions can pass"
    else:
        yield "paid", f"{plan.paid:,} answers, as declared; after them answers come from the hypothesis alone"
        pairs = "1 marginal" if len(plan.start) == 1 else f"{len(plan.start)} marginals"
        yield "start", f"noisy counts of {pairs}, which `init` releases; a row pays for them too"
    yield from _noise_rows(plan)
    if plan.complete:
        yield "gap", f"{plan.gap:.3%} of the rows: no answer is paid for that errs by less, but with probability beta/2"
    first = "" if plan.first_margin == plan.margin else f"{plan.first_margin:,} rows at first, and at last "
    yield "threshold", f"{first}{plan.margin:,} rows beyond what the hypothesis says: from there on an answer is paid"
    yield from counts_rows(plan)
    yield "memory", _memory(plan)


def sparse_rows(plan: SparseVectorPlan) -> Iterator[Row]:
    """Yield what is said of a plan in one line each."""
    yield from _table_rows(plan)
    yield "paid", f'"above" is said {plan.paid:,} times, with the noisy share; "below" costs nothing'
    yield from _noise_rows(plan)
    yield from counts_rows(plan)
    yield "memory", _memory(plan)


def _table_rows(plan: TablePlan) -> Iterator[Row]:
    yield "", "questions and answers are public; what is protected is each training row"
    shares = isinstance(plan, StatisticsPlan)
    yield "answers", "numbers: shares of the rows" if shares else '"above", with the share of the rows, or "below"'
    yield "table", f"{_cells(plan.layout)}; a question names cells of any attributes"
    yield "questions", f"the error is promised for the first {plan.questions:,}; privacy holds for any number"


def _cells(layout: Layout) -> str:
    shape = " x ".join(f"{cells:,}" for cells in layout.shape)
    return f"{layout.size:,} cells" if len(layout.shape) == 1 else f"{layout.size:,} cells, {shape}"


def _noise_rows(plan: TablePlan) -> Iterator[Row]:
    noise = plan.paid_noise
    once = f", {noise.threshold_slope:.4g} once on all thresholds" if noise.threshold_slope else ""
    yield "noise", f"{noise.law}, inverse scale {noise.slope:.4g} a row{once}; keyed, exact to 128 bits"
    share = noise.window / plan.declared
    yield "window", f"{noise.window:,} rows, {share:.3%}, may be answered either way: {noise.above:,} below a threshold"
    yield "", f"may be paid for, {noise.below:,} above it may be free"


def counts_rows(plan: QuestionPlan) -> Iterator[Row]:
    """Yield what a Gaussian count for each question would err, and from how many questions on more than the plan."""
    win = questions_to_win(plan.alpha, plan.declared, plan.epsilon, plan.phases[0].delta, plan.beta)
    all_of_them = counts_error(plan.questions, plan.declared, plan.epsilon, plan.phases[0].delta, plan.beta)
    yield "instead", f"a Gaussian count for each of {plan.questions:,} questions would err by {all_of_them:.4f}"
    yield "", f"as many counts, for the same epsilon, delta and beta, err by more than alpha from {win:,} questions on"


def counts_figures(plan: QuestionPlan) -> Mapping[str, object]:
    """Return the same as `counts_rows`, for JSON."""
    delta = plan.phases[0].delta
    return {
        "counts": {
            "error": counts_error(plan.questions, plan.declared, plan.epsilon, delta, plan.beta),
            "worse_from": questions_to_win(plan.alpha, plan.declared, plan.epsilon, delta, plan.beta),
        }
    }


def _memory(plan: TablePlan) -> str:
    cache = mebibytes(plan.cache_bytes)
    return f"{mebibytes(plan.memory_bytes)}, and {cache} of sums at most; {mebibytes(plan.training_bytes)} for `init`"


def attribute_table(plan: TablePlan) -> Table:
    """Return the table of the attributes."""
    table = figure_table("attribute", "values", "cells", "declared", texts=2)
    for attribute in plan.attributes:
        table.add_row(attribute.name, attribute.kind, f"{attribute.cells:,}", f"{attribute.declared:,}")
    return table


def compare_statistics(tight: StatisticsPlan, paper: StatisticsPlan) -> Table:
    """Return both profiles' figures side by side, and how many times the paper's is."""
    return compare_questions(
        tight,
        paper,
        ("largest noise compared, rows", 1.0 / tight.paid_noise.slope, 1.0 / paper.paper.slope if paper.paper else 0.0),
        ("least gap, share of rows", tight.gap, paper.gap),
    )


def compare_questions(tight: QuestionPlan, paper: QuestionPlan, *more: tuple[str, float, float]) -> Table:
    """Return both profiles' figures side by side: what all predictors of questions have, and more of one."""
    table = figure_table("", "tight", "paper", "paper / tight")
    table.add_row("epsilon", f"{tight.epsilon:g}", f"{paper.epsilon:g} (nominal)", "")
    table.add_row("delta of a row", f"{tight.delta:g}", f"{paper.delta:g} (nominal)", "")
    counted = ("examples needed", tight.examples, paper.examples), ("paid answers", tight.paid, paper.paid)
    for name, mine, other in (*counted, *more):
        table.add_row(name, figure(mine), figure(other), f"{other / mine:,.3g}")
    return table


def figure(value: float) -> str:
    """Return a whole number in full, any other by four digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
