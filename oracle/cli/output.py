"""How commands print: JSON, tables, and lines of a name and what is said of it."""

import sys
from collections.abc import Iterable
from typing import Final

import msgspec
import typer
from rich.console import Console
from rich.table import Table

__all__ = ["Row", "figure_table", "print_json", "print_rows", "wide_console"]

Row = tuple[str, str]
"""What a line is about, and what it says."""

_WIDTH: Final = 240
"""Columns that any table fits into; none is padded to them, and a terminal may wrap what it cannot show."""


_NAMES: Final = 14
"""Columns of names at least."""


def print_json(document: object, *, pretty: bool = False) -> None:
    """Print one JSON document: on one line, or indented."""
    data = document if isinstance(document, bytes) else msgspec.json.encode(document)
    typer.echo(msgspec.json.format(data, indent=2) if pretty else data)


def wide_console(*, stderr: bool = False) -> Console:
    """Return a console that leaves wrapping to the terminal and takes text as it is."""
    console = Console(soft_wrap=True, highlight=False, markup=False, file=sys.stderr if stderr else None)
    console.width = max(console.width, _WIDTH)
    return console


def figure_table(*columns: str, texts: int = 1, title: str | None = None) -> Table:
    """Return a table whose first columns hold text, `texts` of them, and whose others hold figures."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < texts else "right", no_wrap=True, overflow="fold")
    return table


def print_rows(console: Console, rows: Iterable[Row]) -> None:
    """Print a line for each row, its name in a column of its own."""
    lines = list(rows)
    width = max([_NAMES, *(len(name) + 2 for name, _ in lines)])
    for name, text in lines:
        console.print(f"{name:<{width}}{text}")
