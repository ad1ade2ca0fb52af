"""What every method is given: the same labelled rows, and the same queries in the same order."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
import pyarrow.parquet
from numpy.typing import NDArray

from oracle.demo.data import prepare
from oracle.demo.model import model

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

_RANGES: Final = {"visibility": (0.0, 10.0), "wind": (0.0, 40.0)}
"""What the classical methods must have declared of each feature. The demo's model declares no bounds: Perpetua learns
where the rows labelled 1 end, and pays for it out of its epsilon."""


@dataclass(frozen=True, slots=True)
class Side:
    """A side that the box may have: which one, by the demo's model file; its range, for the classical methods.

    Attributes:
        column: Column of the rows.
        lower: Whether the box keeps what is at least its edge (else what is at most its edge).
        bounds: Declared range.
    """

    column: int
    lower: bool
    bounds: tuple[float, float]

    def keeps(self, rows: Floats, edge: float) -> Bools:
        """Return which rows are on the box's side of an edge."""
        values = rows[:, self.column]
        kept: Bools = values >= edge if self.lower else values <= edge
        return kept

    def grid(self, count: int) -> Floats:
        """Return `count` evenly spaced edges over the declared range."""
        return np.linspace(*self.bounds, count)


@dataclass(frozen=True)
class Task:
    """The labelled rows and the queries.

    Attributes:
        sides: Sides of the box, one a column.
        rows: float64[n, d], the labelled rows.
        labels: bool[n].
        queries: float64[m, d], in the order asked.
        truth: bool[m], the true labels; for counting errors only.
    """

    sides: tuple[Side, ...]
    rows: Floats
    labels: Bools
    queries: Floats
    truth: Bools

    def error(self, answers: Bools) -> float:
        """Return the part of the answers that is wrong."""
        return float(np.mean(answers != self.truth))

    def box(self, edges: list[float]) -> Bools:
        """Return a box's answers to the queries."""
        answers = np.ones(len(self.queries), dtype=np.bool_)
        for side, edge in zip(self.sides, edges, strict=True):
            answers &= side.keeps(self.queries, edge)
        return answers

    def sample(self, count: int, seed: int) -> Self:
        """Return the task with `count` labelled rows only, drawn at random without replacement."""
        chosen = np.random.default_rng(seed).permutation(len(self.rows))[:count]
        return dataclasses.replace(self, rows=self.rows[chosen], labels=self.labels[chosen])


def flight_sides() -> tuple[Side, ...]:
    """Return the sides that the demo's model file declares, with the ranges of their features."""
    return tuple(
        Side(column, feature.sides == "lower", _RANGES[feature.name])
        for column, feature in enumerate(model(1).features)
    )


def flights(folder: Path) -> Task:
    """Return the demo's data: nine months of flights to learn from, three months that ask.

    Args:
        folder: Where the demo's files are written.
    """
    prepared = prepare(folder)
    table = pyarrow.parquet.read_table(prepared.train)
    names = [feature.name for feature in model(1).features]
    lines = prepared.queries.read_text(encoding="utf-8").splitlines()
    return Task(
        sides=flight_sides(),
        rows=np.column_stack([table[name].to_numpy() for name in names]).astype(np.float64),
        labels=np.array(table["label"].to_pylist(), dtype=np.bool_),
        queries=np.array([json.loads(line)["x"] for line in lines], dtype=np.float64),
        truth=np.array(pyarrow.parquet.read_table(prepared.truth)["label"].to_pylist(), dtype=np.bool_),
    )
