"""What `perpetua plan` shows of a classical learner's plan, and of one beside an everlasting predictor's."""

from collections.abc import Iterator

from rich.table import Table

from oracle.cli.output import Row, figure_table
from oracle.cli.plan.page import mebibytes
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.plan import Plan

__all__ = ["ADVICE", "beside", "classical_choices", "classical_rows"]

ADVICE = """\
Take the everlasting predictor where no hypothesis may ever be released, or where a
feature has no finite grid. Otherwise predictor = "classical" does with far less, if what
it learns fits nearly every label: `perpetua evaluate` shows both on rows of yours."""


def classical_rows(plan: ClassicalPlan) -> Iterator[Row]:
    """Yield what is said of a plan in one line each."""
    if plan.concept == "stump":
        yield "learns", f"the best stump on {', '.join(plan.sides)}"
    else:
        faces = f"each side sees the rows nearest to it, {plan.share:.0%} of the band that lies farthest out on it"
        yield "learns", f"a box with sides {', '.join(plan.sides)}; {plan.slicing}"
        yield "", faces if plan.slicing == "faces" else "each side sees all rows labelled 1"
    yield "queries", "cost nothing and are not kept; what is learned is released for ever"
    yield "releases", _hypothesis(plan)
    yield "choices", "an edge has probability proportional to exp(-e * loss), the loss in rows"
    if plan.rank:
        yield "", "aims at rank: the row, counted from outside, that the best edge of a side lies at"
    yield "memory", f"{mebibytes(plan.training_bytes)} while it learns, {mebibytes(plan.memory_bytes)} after"


def _hypothesis(plan: ClassicalPlan) -> str:
    """Return what may be known to everyone."""
    count = len(plan.sides)
    if plan.concept == "stump":
        which = "its one feature and direction" if count == 1 else f"one of {count} pairs of feature and direction"
        return f"a stump: {which}, and one edge among the float64 numbers; the answer is 1 from that edge on"
    edges = "one edge for its side" if count == 1 else f"one edge for each of {count} sides"
    return f"a box: {edges}, all among the float64 numbers; the answer is 1 where no value is beyond an edge"


def classical_choices(plan: ClassicalPlan) -> Table:
    """Return the table of its choices, of which there is only one kind."""
    table = figure_table("choices", "a record has part in", "law", "e", "epsilon each", "edges", "aims at rank")
    choices = len(plan.sides) if plan.concept == "box" else 1
    table.add_row(
        str(choices),
        str(plan.choices),
        "exponential, exact",
        f"{plan.scale:.4g}",
        f"{plan.scale * plan.spread:.4g}",
        "every float64",
        str(plan.rank) if plan.rank else "-",
    )
    return table


def beside(plan: Plan) -> Row:
    """Return what is said of a classical learner with the same promises."""
    return (
        "classical",
        f"would need {plan.examples:,} examples for alpha = {plan.alpha:g}, with delta = 0; it releases its hypothesis",
    )
