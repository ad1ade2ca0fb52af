"""What `perpetua plan` shows of a plan of OnlineBisection."""

from collections.abc import Iterator

from rich.table import Table

from oracle.accounting.events import ThresholdBitsEvent
from oracle.accounting.threshold_bits import bits_rho
from oracle.cli.output import Row, figure_table
from oracle.cli.plan.page import mebibytes
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.bisection.tight import row_event

__all__ = ["bisection_phases", "bisection_rows", "compare_bisection"]


def bisection_rows(plan: BisectionPlan) -> Iterator[Row]:
    """Yield what is said of a plan in one line each."""
    dimension = len(plan.features)
    yield "", "queries are not protected: what one of them taught decides later answers"
    yield "answers", "numbers: the dot product of a query in [0, 1]^D with the rows' mean"
    where = f"{plan.directions} directions, given"
    if plan.warmup:
        where = f"{plan.directions} directions, found by principal components of the first {plan.warmup:,} queries"
    yield "basis", where
    yield "noise", f"D times {plan.noise} of scale {plan.scale:.4g}, keyed"
    row = row_event(plan)
    one = ThresholdBitsEvent(row.law, row.scale, 1.0 / dimension, row.bits, dimension)
    yield (
        "bits",
        (
            f"{row.bits:,} noisy comparisons at most: rho = {bits_rho(row):.4g} of zCDP for a row, {bits_rho(one):.4g} "
            "for a change of one coordinate of their mean by 1 (zCDP: zero-concentrated differential privacy)"
        ),
    )
    yield "memory", mebibytes(plan.memory_bytes)


def bisection_phases(plan: BisectionPlan) -> Table:
    """Return the table of the phases."""
    table = figure_table("phase", "rounds", "delta of a row", "bits at most")
    learning, after = plan.phases
    table.add_row("1, learns", f"{learning.rounds:,}", f"{learning.delta:.2e}", f"{learning.rounds:,}")
    table.add_row("2, recalls", f"{after.rounds:,}", "0", "0")
    return table


def compare_bisection(efficient: BisectionPlan, paper: BisectionPlan) -> Table:
    """Return both profiles' figures side by side."""
    table = figure_table("", "efficient", "paper")
    for name, mine, other in (
        ("examples needed", f"{efficient.declared:,}", f"{paper.declared:,}"),
        ("noise scale", f"{efficient.scale:.4g}", f"{paper.scale:.4g}"),
        ("average error, of D", f"{efficient.expected_error:.4g}", f"{paper.expected_error:.4g}"),
    ):
        table.add_row(name, mine, other)
    return table
