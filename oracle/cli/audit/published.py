"""Tables that somebody published, read for `perpetua audit reconstruct`: CSV with a header, or JSON lines."""

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.audit.reconstruction.functions import Linear
from oracle.audit.reconstruction.people import MOST, People
from oracle.cli.audit.releases import csv_lines, json_lines
from oracle.errors import DataError, InputError

__all__ = ["COUNT", "Secret", "read_published"]

Floats = NDArray[np.float64]

COUNT: Final = "count"

_MOST: Final = 2.0**53
"""Of a count, either way: noise or not, nobody publishes more."""


class Secret(NamedTuple):
    """The column that is to be kept secret.

    Attributes:
        name: Its name.
        yes: The value that is a 1.
        no: The only other value; None where there are several, or where nobody said.
    """

    name: str
    yes: str
    no: str | None


def read_published(path: Path, people: People, secret: Secret, over: float | None) -> tuple[Linear, Floats]:
    """Return what is published of the secret, and the published counts: float64[m], NaN where one was left out.

    Args:
        path: A line a count: attributes that name who is counted (left out: any value), the secret's value, `count`.
        people: The rows that are counted.
        secret: Its column.
        over: How far a count may be beyond what there are rows; None where noise may put it anywhere.

    Raises:
        SourceError: It cannot be read.
        DataError: It is malformed, or says nothing of the secret.
    """
    if path.suffix not in {".csv", ".jsonl"}:
        raise InputError("--tables", str(path), "must end in .csv or .jsonl")
    rows, offsets, counts = [], [], []
    for number, line in _fields(path, secret):
        where = f"{path}: line {number}"
        matching = _matching(where, line, people, secret.name)
        value = line.get(secret.name)
        if value is None:
            continue  # of public attributes only
        known = {secret.yes} if secret.no is None else {secret.yes, secret.no}
        if value not in known:
            raise DataError(f"{where}: {secret.name} must be {' or '.join(sorted(known))}, or nothing for any value")
        total = float(people.sizes[matching].sum())
        counts.append(_count(where, line.get(COUNT), total, over))
        rows.append(np.where(matching, 1.0 if value == secret.yes else -1.0, 0.0))
        offsets.append(0.0 if value == secret.yes else total)
        if len(rows) * len(people.sizes) > MOST:
            raise DataError(f"{where}: lines times {len(people.sizes):,} groups of rows must be at most {MOST:,}")
    if not np.isfinite(counts).any():
        raise DataError(f"{path}: must have a line with a value of {secret.name} and a count")
    return Linear(np.array(rows), np.array(offsets)), np.array(counts)


def _fields(path: Path, secret: Secret) -> Iterator[tuple[int, Mapping[str, str]]]:
    lines: Iterable[tuple[int, object]]
    lines = csv_lines(path, (secret.name, COUNT)) if path.suffix == ".csv" else json_lines(path)
    for number, line in lines:
        if not isinstance(line, dict) or any(isinstance(value, dict | list) for value in line.values()):
            raise DataError(f"{path}: line {number}: must be an object of names and single values")
        yield number, {name: _text(value) for name, value in line.items() if value is not None}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _matching(where: str, line: Mapping[str, str], people: People, secret: str) -> NDArray[np.bool_]:
    """Return which groups of rows a line is about."""
    matching = np.ones(len(people.sizes), dtype=np.bool_)
    for name in line.keys() - {secret, COUNT}:
        if name not in people.names:
            raise DataError(f"{where}: {name} must be one of the attributes: {', '.join(people.names)} (--attribute)")
        place = people.names.index(name)
        if line[name] not in people.values[place]:
            raise DataError(f"{where}: {name} must be a value that some row has, or nothing for any value")
        matching &= people.codes[:, place] == people.values[place].index(line[name])
    return matching


def _count(where: str, text: str | None, total: float, over: float | None) -> float:
    """Return a count; NaN where it was left out."""
    if text is None:
        return math.nan
    try:
        count = float(text)
    except ValueError:
        count = math.inf
    if not abs(count) <= _MOST:
        raise DataError(f"{where}: {COUNT} must be a number, or nothing where it was suppressed")
    if over is not None and not -over <= count <= total + over:
        raise DataError(
            f"{where}: {COUNT} must be from 0 to {total:,.0f}, as many rows as it is about (--release says what was "
            "done to it)"
        )
    return count
