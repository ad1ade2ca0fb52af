"""What all pages of `perpetua plan` are made of."""

from rich.table import Table

__all__ = ["Row", "figure_table", "mebibytes"]

Row = tuple[str, str]
"""What a line is about, and what it says."""


def figure_table(*columns: str) -> Table:
    """Return a table of figures; its first column is of names."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True, overflow="fold")
    return table


def mebibytes(count: int) -> str:
    """Return a number of bytes in words."""
    return f"{count / 2**20:.1f} MiB"
