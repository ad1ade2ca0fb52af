"""The measurements as a table, and as JSON for machines."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.pairs import Row

_ANSWERS = {None: "", True: "met", False: "BELOW"}


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write a list of {name, value, unit, baseline, ratio}; baseline and ratio are null where there is no peer."""
    entries = [
        {"name": row.name, "value": row.value, "unit": row.unit, "baseline": row.baseline, "ratio": row.ratio}
        for row in rows
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entries, indent=2) + "\n")


def table(rows: Sequence[Row]) -> str:
    """Return one line a measurement, with what was promised where something was."""
    width = max([4, *(len(row.name) for row in rows)])
    lines = [f"{'what':{width}}  {'value':>12}  {'baseline':>12}  {'unit':13}  {'ratio':>7}  promised"]
    for row in rows:
        baseline = "" if row.baseline is None else _number(row.baseline)
        ratio = "" if row.ratio is None else _number(row.ratio)
        promise = f"{_promise(row)}: {_ANSWERS[row.met]}" if row.floor else ""
        figures = f"{_number(row.value):>12}  {baseline:>12}  {row.unit:13}  {ratio:>7}"
        lines.append(f"{row.name:{width}}  {figures}  {promise}".rstrip())
    return "\n".join(lines)


def _promise(row: Row) -> str:
    if row.floor is None:
        return ""
    return f"{row.floor.field} {'>=' if row.floor.above else '<='} {_number(row.floor.bound)}"


def _number(value: float) -> str:
    """Return three or more digits, with thousands separated."""
    if value >= 1000.0:
        return f"{value:,.0f}"
    decimals = max(0, 2 - math.floor(math.log10(value))) if value > 0.0 else 0
    return f"{value:.{decimals}f}"
