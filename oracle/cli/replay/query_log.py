"""Query logs in files, as `perpetua verify`, `fork` and `audit receipt` read them."""

from pathlib import Path
from typing import Final

from connectors.base import Source
from connectors.local.jsonl import JsonlSource
from connectors.local.parquet_source import ParquetSource
from oracle.hosting.file_kinds import MessageSettings, check_messages
from oracle.planning.plan import Plan

__all__ = ["ROWS", "check_log", "has_rows", "open_log"]

ROWS: Final = 65_536
"""Rows of a Parquet or Arrow log that are one message, where nobody says otherwise."""


def has_rows(log: Path) -> bool:
    """Return whether a log is a table, of which many rows are one message."""
    return log.suffix in {".parquet", ".arrow"}


def open_log(log: Path, plan: Plan, rows_per_message: int) -> Source:
    """Return the source of a log in a file, not yet open."""
    if has_rows(log):
        return ParquetSource(log, rows_per_message=rows_per_message)
    return JsonlSource(log, body_limit=plan.limits.body_bytes)


def check_log(plan: Plan, log: Path, rows_per_message: int, names: MessageSettings) -> None:
    """Refuse a Parquet or Arrow log whose every message would be rejected.

    Raises:
        InputError: It is one.
        SourceError: It cannot be read.
    """
    if has_rows(log):
        check_messages(plan, log, rows_per_message, names)
