"""What all pages of `perpetua plan` are made of."""

from collections.abc import Iterator
from typing import Final

from rich.table import Table

from oracle.planning.promise import Promise

__all__ = ["ABOUT_REARMS", "Row", "figure_table", "glossary", "mebibytes", "promise_rows"]

ABOUT_REARMS: Final = (
    "re-armed",
    "a side gets new points, of queries: all when a phase ends, one alone when enough queries came close to its edge",
)
"""What a re-arm is, for `plan` and `status`."""

Row = tuple[str, str]
"""What a line is about, and what it says."""


def figure_table(*columns: str) -> Table:
    """Return a table of figures; its first column is of names."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True, overflow="fold")
    return table


def glossary(*entries: tuple[str, str]) -> Iterator[str]:
    """Yield a line for each term: what it means."""
    for term, meaning in entries:
        yield f"{term:<14}{meaning}"


def mebibytes(count: int) -> str:
    """Return a number of bytes in words."""
    return f"{count / 2**20:.1f} MiB"


def promise_rows(promise: Promise) -> Iterator[Row]:
    """Yield a promise whole: the bound, how it is known, and what it rests on."""
    beyond = f" beyond {promise.beyond}" if promise.beyond else ""
    missed = "" if promise.missed is None else f", missed with probability {promise.missed:g} at most"
    yield "error", f"at most {promise.bound:.4f}{beyond} on honest queries{missed}"
    how = {"theorem": "a theorem", "estimate": "an estimate", "nominal": "nominal"}[promise.kind]
    yield "", f"{how}: {promise.basis}"
    for number, condition in enumerate(promise.conditions):
        yield "" if number else "rests on", condition
