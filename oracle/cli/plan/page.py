"""What all pages of `perpetua plan` are made of."""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import UNSET
from rich.table import Table

from oracle.cli.output import Row, figure_table
from oracle.mechanisms.truth import reach
from oracle.planning.plan import Plan, truth_of
from oracle.planning.promise import Promise

__all__ = ["ABOUT_REARMS", "comparison", "mebibytes", "promise_rows", "truth_rows"]

ABOUT_REARMS: Final = (
    "re-armed",
    "a side gets new points, from queries: all when a phase ends, one alone when enough queries came close to its edge",
)
"""What a re-arm is, for `plan` and `status`."""


def mebibytes(count: int) -> str:
    """Return a number of bytes in words."""
    return f"{count / 2**20:.1f} MiB"


def truth_rows(plan: Plan) -> Iterator[Row]:
    """Yield what is counted of labels that come later, if anything is."""
    truth = truth_of(plan)
    if truth is not None:
        within = f"each within {reach(truth.epsilon)}, 19 times in 20"
        yield "true labels", f"a query pays {truth.epsilon:g} of epsilon for them: right and wrong answers, {within}"
        yield "", f"counted for each {truth.rounds:,} rounds, {truth.lag:,} rounds later (`perpetua truth`)"


def comparison(tight: Plan, paper: Plan, delta: str, rows: Iterable[tuple[str, float, float]], digits: str) -> Table:
    """Return both profiles' figures side by side, and their ratio; `digits` is the format of what is not whole."""
    table = figure_table("", "tight", "paper", "paper / tight")
    table.add_row("epsilon", f"{tight.epsilon:g}", f"{paper.epsilon:g} (nominal)", "")
    table.add_row(delta, f"{tight.delta:g}", f"{paper.delta:g} (nominal)", "")
    for name, mine, other in rows:
        shown = [format(value, "," if isinstance(value, int) else digits) for value in (mine, other)]
        table.add_row(name, *shown, f"{other / mine:,.3g}")
    return table


def promise_rows(promise: Promise, over: str | None = None) -> Iterator[Row]:
    """Yield a promise whole: the bound, how it is known, and what it rests on; first, why it is `over`, if it is."""
    if over is not None:
        yield "promise", f"nothing new is promised: {over}; of answers before:"
    beyond = f" beyond {promise.beyond}" if promise.beyond else ""
    missed = "" if promise.missed is None else f", missed with probability {promise.missed:g} at most"
    yield "error", f"at most {promise.bound:.4f}{beyond} on {promise.on}{missed}"
    if promise.told is not UNSET:
        yield (
            "",
            f"promised is alpha = {promise.told:g}, the `error` of answers; this bound is sharper, by your rows",
        )
    how = {"theorem": "a theorem", "estimate": "an estimate", "nominal": "nominal"}[promise.kind]
    yield "", f"{how}: {promise.basis}"
    for number, condition in enumerate(promise.conditions):
        yield "" if number else "rests on", condition
