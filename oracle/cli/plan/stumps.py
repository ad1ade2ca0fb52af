"""What `perpetua plan` shows of a plan of stumps: first what chooses the stump, then its one side as of boxes."""

from collections.abc import Iterator

from oracle.cli.output import Row
from oracle.cli.plan.boxes import noise_rows
from oracle.cli.plan.page import mebibytes
from oracle.planning.stumps.model import StumpsPlan

__all__ = ["stump_rows"]


def stump_rows(plan: StumpsPlan) -> Iterator[Row]:
    """Yield what is said of a plan in one line each."""
    selection = plan.selection
    nominal = ", nominal" if plan.nominal else ""
    cut = "the cut" if selection.cut_law == "choice" else "the count"
    yield (
        "choice",
        f"of {selection.candidates} pairs of feature and direction: epsilon {selection.epsilon:.4g}{nominal}",
    )
    yield "", f"then {cut}: epsilon {selection.cut_epsilon:.4g}{nominal}; the rest is for {_sides(plan)}"
    if not plan.nominal:
        yield "", f"{selection.error:.4f} of the error is for the choice"
    yield from noise_rows(plan)
    yield "", f"{mebibytes(plan.training_bytes)} while the stump is chosen from the examples"


def _sides(plan: StumpsPlan) -> str:
    return "its one side" if len(plan.sides) == 1 else "its two sides, twice"
